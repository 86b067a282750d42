// VexRiscv between the ports that the simulator drives: two classic Wishbone buses, whose addresses
// count words. It ignores errors of the bus.
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
  logic i_cyc, i_stb, d_cyc, d_stb;
  logic [29:0] i_word, d_word;

  assign halted  = 1'b0;
  assign retired = u_core.lastStageIsFiring;
  assign i_req   = i_cyc & i_stb;
  assign i_addr  = {i_word, 2'b00};
  assign d_req   = d_cyc & d_stb;
  assign d_addr  = {d_word, 2'b00};

  VexRiscv u_core (
      .externalResetVector   (32'd0),
      .timerInterrupt        (1'b0),
      .softwareInterrupt     (1'b0),
      .externalInterruptArray(32'd0),
      .iBusWishbone_CYC      (i_cyc),
      .iBusWishbone_STB      (i_stb),
      .iBusWishbone_ACK      (i_rvalid),
      .iBusWishbone_WE       (),
      .iBusWishbone_ADR      (i_word),
      .iBusWishbone_DAT_MISO (i_rdata),
      .iBusWishbone_DAT_MOSI (),
      .iBusWishbone_SEL      (),
      .iBusWishbone_ERR      (1'b0),
      .iBusWishbone_CTI      (),
      .iBusWishbone_BTE      (),
      .dBusWishbone_CYC      (d_cyc),
      .dBusWishbone_STB      (d_stb),
      .dBusWishbone_ACK      (d_rvalid),
      .dBusWishbone_WE       (d_we),
      .dBusWishbone_ADR      (d_word),
      .dBusWishbone_DAT_MISO (d_rdata),
      .dBusWishbone_DAT_MOSI (d_wdata),
      .dBusWishbone_SEL      (d_be),
      .dBusWishbone_ERR      (1'b0),
      .dBusWishbone_CTI      (),
      .dBusWishbone_BTE      (),
      .clk                   (clk),
      .reset                 (~rst_n)
  );
endmodule
