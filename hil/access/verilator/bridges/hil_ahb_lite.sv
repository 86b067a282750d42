// From a core's AHB-Lite master to a port of the simulated memory (bus = "ahb-lite"). Memory without
// wait states answers in the first cycle of the data phase. An error takes two cycles.
module hil_ahb_lite (
    input  logic        clk,
    input  logic        rst_n,
    input  logic [ 1:0] htrans,
    input  logic        hwrite,
    input  logic [ 2:0] hsize,
    input  logic [ 3:0] hprot,
    input  logic [31:0] haddr,
    input  logic [31:0] hwdata,
    output logic        hready,
    output logic        hresp,
    output logic [31:0] hrdata,
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
  logic [2:0] size;
  logic is_second;  // cycle of an error

  assign hready    = is_second | ~mem_req | (mem_rvalid & ~mem_err);
  assign hresp     = is_second | (mem_req & mem_rvalid & mem_err);
  assign hrdata    = mem_rdata;
  assign mem_wdata = hwdata;

  always_comb begin
    case (size)
      3'd0: mem_be = 4'b0001 << mem_addr[1:0];
      3'd1: mem_be = 4'b0011 << mem_addr[1:0];
      default: mem_be = 4'b1111;
    endcase
  end

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) begin
      mem_req   <= 1'b0;
      is_second <= 1'b0;
    end else begin
      is_second <= mem_req & mem_rvalid & mem_err;
      if (mem_req & mem_rvalid) mem_req <= 1'b0;
      if (hready & htrans[1]) mem_req <= 1'b1;
    end
  end

  always_ff @(posedge clk) begin
    if (hready & htrans[1]) begin
      mem_we    <= hwrite;
      mem_fetch <= ~hprot[0];
      mem_addr  <= haddr;
      size      <= hsize;
    end
  end
endmodule
