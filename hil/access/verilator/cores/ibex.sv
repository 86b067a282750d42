// Ibex between the ports that the simulator drives. A wrapper of another core has the same ports:
// docs/how-to/rtl.md describes them.
module hil_rtl #(
    parameter int MULTIPLIER = 3,  // 1: slow, 2: fast (3 cycles), 3: one cycle
    parameter bit BRANCH_TARGET_ALU = 0,
    parameter bit WRITEBACK = 0,
    parameter bit ICACHE = 0
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
  assign retired = u_top.u_ibex_core.perf_instr_ret_wb;

  ibex_top #(
      .RV32M          (ibex_pkg::rv32m_e'(MULTIPLIER)),
      .BranchTargetALU(BRANCH_TARGET_ALU),
      .WritebackStage (WRITEBACK),
      .ICache         (ICACHE),
      .DbgTriggerEn   (1),
      .DmBaseAddr     (32'hF001_0000),
      .DmHaltAddr     (32'hF001_0800),
      .DmExceptionAddr(32'hF001_0808)
  ) u_top (
      .clk_i               (clk),
      .rst_ni              (rst_n),
      .test_en_i           (1'b0),
      .ram_cfg_i           ('0),
      .hart_id_i           (32'd0),
      .boot_addr_i         (32'd0),
      .instr_req_o         (i_req),
      .instr_gnt_i         (i_gnt),
      .instr_rvalid_i      (i_rvalid),
      .instr_addr_o        (i_addr),
      .instr_rdata_i       (i_rdata),
      .instr_rdata_intg_i  (7'd0),
      .instr_err_i         (i_err),
      .data_req_o          (d_req),
      .data_gnt_i          (d_gnt),
      .data_rvalid_i       (d_rvalid),
      .data_we_o           (d_we),
      .data_be_o           (d_be),
      .data_addr_o         (d_addr),
      .data_wdata_o        (d_wdata),
      .data_wdata_intg_o   (),
      .data_rdata_i        (d_rdata),
      .data_rdata_intg_i   (7'd0),
      .data_err_i          (d_err),
      .irq_software_i      (1'b0),
      .irq_timer_i         (1'b0),
      .irq_external_i      (1'b0),
      .irq_fast_i          (15'd0),
      .irq_nm_i            (1'b0),
      .scramble_key_valid_i(1'b0),
      .scramble_key_i      ('0),
      .scramble_nonce_i    ('0),
      .scramble_req_o      (),
      .debug_req_i         (debug_req),
      .crash_dump_o        (),
      .double_fault_seen_o (),
      .fetch_enable_i      (ibex_pkg::IbexMuBiOn),
      .alert_minor_o       (),
      .alert_major_internal_o(),
      .alert_major_bus_o   (),
      .core_sleep_o        (),
      .scan_rst_ni         (1'b1)
  );
endmodule
