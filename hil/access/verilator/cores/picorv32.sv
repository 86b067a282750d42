// PicoRV32 between the ports that the simulator drives: one bus for fetches and data, held until
// it is ready. A trap stops the core.
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
  logic valid, is_fetch, counted;
  logic [3:0] strobes;

  assign i_req  = valid & is_fetch;
  assign i_addr = d_addr;
  assign d_req  = valid & ~is_fetch;
  assign d_we   = |strobes;
  assign d_be   = strobes;

  // The core's own count of instructions goes up by one at a time.
  always_ff @(posedge clk) counted <= u_core.count_instr[0];
  assign retired = rst_n & (counted ^ u_core.count_instr[0]);

  picorv32 #(
      .BARREL_SHIFTER (1),
      .COMPRESSED_ISA (1),
      .ENABLE_FAST_MUL(1),
      .ENABLE_DIV     (1),
      .PROGADDR_RESET (32'h0000_0080)
  ) u_core (
      .clk         (clk),
      .resetn      (rst_n),
      .trap        (halted),
      .mem_valid   (valid),
      .mem_instr   (is_fetch),
      .mem_ready   (is_fetch ? i_rvalid : d_rvalid),
      .mem_addr    (d_addr),
      .mem_wdata   (d_wdata),
      .mem_wstrb   (strobes),
      .mem_rdata   (is_fetch ? i_rdata : d_rdata),
      .mem_la_read (),
      .mem_la_write(),
      .mem_la_addr (),
      .mem_la_wdata(),
      .mem_la_wstrb(),
      .pcpi_valid  (),
      .pcpi_insn   (),
      .pcpi_rs1    (),
      .pcpi_rs2    (),
      .pcpi_wr     (1'b0),
      .pcpi_rd     (32'd0),
      .pcpi_wait   (1'b0),
      .pcpi_ready  (1'b0),
      .irq         (32'd0),
      .eoi         (),
      .trace_valid (),
      .trace_data  ()
  );
endmodule
