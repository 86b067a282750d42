// OpenHW's CV32E40P between the ports that the simulator drives. It takes no errors of the bus.
module hil_rtl #(
    parameter bit XPULP = 0
) (
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
    input  logic        debug_req,
    output logic        retired,
    output logic        halted
);
  assign halted  = 1'b0;
  assign retired = u_top.core_i.mhpmevent_minstret;

  cv32e40p_top #(
      .COREV_PULP(XPULP)
  ) u_top (
      .clk_i              (clk),
      .rst_ni             (rst_n),
      .pulp_clock_en_i    (1'b0),
      .scan_cg_en_i       (1'b0),
      .boot_addr_i        (32'd0),
      .mtvec_addr_i       (32'd0),
      .dm_halt_addr_i     (32'hF001_0800),
      .hart_id_i          (32'd0),
      .dm_exception_addr_i(32'hF001_0808),
      .instr_req_o        (i_req),
      .instr_gnt_i        (i_gnt),
      .instr_rvalid_i     (i_rvalid),
      .instr_addr_o       (i_addr),
      .instr_rdata_i      (i_rdata),
      .data_req_o         (d_req),
      .data_gnt_i         (d_gnt),
      .data_rvalid_i      (d_rvalid),
      .data_we_o          (d_we),
      .data_be_o          (d_be),
      .data_addr_o        (d_addr),
      .data_wdata_o       (d_wdata),
      .data_rdata_i       (d_rdata),
      .irq_i              (32'd0),
      .irq_ack_o          (),
      .irq_id_o           (),
      .debug_req_i        (debug_req),
      .debug_havereset_o  (),
      .debug_running_o    (),
      .debug_halted_o     (),
      .fetch_enable_i     (1'b1),
      .core_sleep_o       ()
  );
endmodule
