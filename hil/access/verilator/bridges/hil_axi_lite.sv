// From a core's AXI4-Lite master to a port of the simulated memory (bus = "axi-lite"): the address
// handshake is in one cycle, memory answers in the next one at the earliest. One access at a time;
// the next address may be taken in the cycle of the response.
module hil_axi_lite (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        awvalid,
    output logic        awready,
    input  logic [31:0] awaddr,
    input  logic        wvalid,
    output logic        wready,
    input  logic [31:0] wdata,
    input  logic [ 3:0] wstrb,
    output logic        bvalid,
    input  logic        bready,
    output logic [ 1:0] bresp,
    input  logic        arvalid,
    output logic        arready,
    input  logic [31:0] araddr,
    input  logic [ 2:0] arprot,
    output logic        rvalid,
    input  logic        rready,
    output logic [31:0] rdata,
    output logic [ 1:0] rresp,
    // The memory: a request stays until it is answered.
    output logic        mem_req,
    output logic        mem_fetch,
    output logic        mem_we,
    output logic [ 3:0] mem_be,
    output logic [31:0] mem_addr,
    output logic [31:0] mem_wdata,
    input  logic        mem_rvalid,
    input  logic [31:0] mem_rdata,
    input  logic        mem_err
);
  localparam logic [1:0] OKAY = 2'b00, SLVERR = 2'b10;

  // An answer that the core has not taken yet.
  logic kept, kept_err;
  logic [31:0] kept_data;
  logic answered, taken, is_free, is_write;

  assign answered = kept | (mem_req & mem_rvalid);
  assign taken    = answered & (mem_we ? bready : rready);
  assign is_free  = taken | ~(mem_req | kept);
  assign is_write = awvalid & wvalid;

  assign awready  = is_free & is_write;
  assign wready   = is_free & is_write;
  assign arready  = is_free & ~is_write;
  assign bvalid   = answered & mem_we;
  assign rvalid   = answered & ~mem_we;
  assign rdata    = kept ? kept_data : mem_rdata;
  assign rresp    = (kept ? kept_err : mem_err) ? SLVERR : OKAY;
  assign bresp    = rresp;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      mem_req <= 1'b0;
      kept    <= 1'b0;
    end else begin
      if (answered) begin
        mem_req <= 1'b0;
        kept    <= ~taken;
      end
      if (is_free & (is_write | arvalid)) mem_req <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (is_free & (is_write | arvalid)) begin
      mem_we    <= is_write;
      mem_fetch <= ~is_write & arprot[2];
      mem_addr  <= is_write ? awaddr : araddr;
      mem_be    <= is_write ? wstrb : 4'hF;
      mem_wdata <= wdata;
    end
    if (mem_req & mem_rvalid) begin
      kept_data <= mem_rdata;
      kept_err  <= mem_err;
    end
  end
endmodule
