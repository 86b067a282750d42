// A core with a debug module (RISC-V External Debug Support 0.13) and its JTAG port: the top of the
// simulator in place of hil_rtl, the wrapper of the core. The simulator gives both ports of the core
// access to the debug module, and the debug module access to memory.
module hil_debug (
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
    output logic        halted,
    output logic        ndmreset,
    input  logic        dm_req,
    input  logic        dm_we,
    input  logic [ 3:0] dm_be,
    input  logic [31:0] dm_addr,
    input  logic [31:0] dm_wdata,
    output logic [31:0] dm_rdata,
    output logic        sb_req,
    input  logic        sb_gnt,
    input  logic        sb_rvalid,
    output logic        sb_we,
    output logic [ 3:0] sb_be,
    output logic [31:0] sb_addr,
    output logic [31:0] sb_wdata,
    input  logic [31:0] sb_rdata,
    input  logic        tck,
    input  logic        tms,
    input  logic        trst_n,
    input  logic        tdi,
    output logic        tdo
);
  logic debug_req;

  hil_rtl #(`HIL_PARAMETERS) u_core (
      .rst_n(rst_n & ~ndmreset),
      .*
  );

  dm_wrap u_dm (
      .tdo_oe(),
      .*
  );
endmodule
