// PicoRV32 with one AXI4-Lite master for fetches and data. The core ignores errors, so one stops it.
module hil_rtl (
    input  logic        clk,
    input  logic        rst_n,
    output logic        i_req,
    input  logic        i_gnt,
    input  logic        i_rvalid,
    output logic [31:0] i_addr,
    input  logic [31:0] i_rdata,
    input  logic        i_err,
    output logic        d_req,
    input  logic        d_gnt,
    input  logic        d_rvalid,
    output logic        d_we,
    output logic [ 3:0] d_be,
    output logic [31:0] d_addr,
    output logic [31:0] d_wdata,
    input  logic [31:0] d_rdata,
    input  logic        d_err,
    output logic        retired,
    output logic        halted
);
  logic awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready;
  logic [31:0] awaddr, wdata, araddr, rdata;
  logic [3:0] wstrb;
  logic [2:0] arprot;
  logic [1:0] bresp, rresp;
  logic req, is_fetch, trap, failed, counted;

  // Fetches and data take turns on one port of the core, and have one port of memory each.
  assign i_req  = req & is_fetch;
  assign i_addr = d_addr;
  assign d_req  = req & ~is_fetch;

  hil_axi_lite u_bridge (
      .mem_req   (req),
      .mem_fetch (is_fetch),
      .mem_we    (d_we),
      .mem_be    (d_be),
      .mem_addr  (d_addr),
      .mem_wdata (d_wdata),
      .mem_rvalid(is_fetch ? i_rvalid : d_rvalid),
      .mem_rdata (is_fetch ? i_rdata : d_rdata),
      .mem_err   (is_fetch ? i_err : d_err),
      .*
  );

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) failed <= 1'b0;
    else failed <= failed | (bvalid & bready & bresp[1]) | (rvalid & rready & rresp[1]);
  end
  assign halted = trap | failed;

  always_ff @(posedge clk) counted <= u_core.picorv32_core.count_instr[0];
  assign retired = rst_n & (counted ^ u_core.picorv32_core.count_instr[0]);

  picorv32_axi #(
      .BARREL_SHIFTER (1),
      .COMPRESSED_ISA (1),
      .ENABLE_FAST_MUL(1),
      .ENABLE_DIV     (1),
      .PROGADDR_RESET (32'h0000_0080)
  ) u_core (
      .clk            (clk),
      .resetn         (rst_n),
      .trap           (trap),
      .mem_axi_awvalid(awvalid),
      .mem_axi_awready(awready),
      .mem_axi_awaddr (awaddr),
      .mem_axi_awprot (),
      .mem_axi_wvalid (wvalid),
      .mem_axi_wready (wready),
      .mem_axi_wdata  (wdata),
      .mem_axi_wstrb  (wstrb),
      .mem_axi_bvalid (bvalid),
      .mem_axi_bready (bready),
      .mem_axi_arvalid(arvalid),
      .mem_axi_arready(arready),
      .mem_axi_araddr (araddr),
      .mem_axi_arprot (arprot),
      .mem_axi_rvalid (rvalid),
      .mem_axi_rready (rready),
      .mem_axi_rdata  (rdata),
      .pcpi_valid     (),
      .pcpi_insn      (),
      .pcpi_rs1       (),
      .pcpi_rs2       (),
      .pcpi_wr        (1'b0),
      .pcpi_rd        (32'd0),
      .pcpi_wait      (1'b0),
      .pcpi_ready     (1'b0),
      .irq            (32'd0),
      .eoi            (),
      .trace_valid    (),
      .trace_data     ()
  );
endmodule
