// Ibex behind AHB-Lite, as an example of a core with such ports (docs/how-to/rtl.md).
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
    output logic        retired,
    output logic        halted
);
  // Ibex has OBI ports; obi_on_ahb stands for a core with AHB-Lite masters.
  logic f_req, f_gnt, f_rvalid, f_err, l_req, l_gnt, l_rvalid, l_we, l_err;
  logic [3:0] l_be;
  logic [31:0] f_addr, f_rdata, l_addr, l_wdata, l_rdata;

  assign halted  = 1'b0;
  assign retired = u_top.u_ibex_core.perf_instr_ret_wb;

  obi_on_ahb u_fetch (
      .clk      (clk),
      .rst_n    (rst_n),
      .is_fetch (1'b1),
      .req      (f_req),
      .gnt      (f_gnt),
      .we       (1'b0),
      .be       (4'hF),
      .addr     (f_addr),
      .wdata    (32'd0),
      .rvalid   (f_rvalid),
      .rdata    (f_rdata),
      .err      (f_err),
      .mem_req  (i_req),
      .mem_we   (),
      .mem_be   (),
      .mem_addr (i_addr),
      .mem_wdata(),
      .mem_rvalid(i_rvalid),
      .mem_rdata(i_rdata),
      .mem_err  (i_err)
  );

  obi_on_ahb u_data (
      .clk      (clk),
      .rst_n    (rst_n),
      .is_fetch (1'b0),
      .req      (l_req),
      .gnt      (l_gnt),
      .we       (l_we),
      .be       (l_be),
      .addr     (l_addr),
      .wdata    (l_wdata),
      .rvalid   (l_rvalid),
      .rdata    (l_rdata),
      .err      (l_err),
      .mem_req  (d_req),
      .mem_we   (d_we),
      .mem_be   (d_be),
      .mem_addr (d_addr),
      .mem_wdata(d_wdata),
      .mem_rvalid(d_rvalid),
      .mem_rdata(d_rdata),
      .mem_err  (d_err)
  );

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
      .instr_req_o         (f_req),
      .instr_gnt_i         (f_gnt),
      .instr_rvalid_i      (f_rvalid),
      .instr_addr_o        (f_addr),
      .instr_rdata_i       (f_rdata),
      .instr_rdata_intg_i  (7'd0),
      .instr_err_i         (f_err),
      .data_req_o          (l_req),
      .data_gnt_i          (l_gnt),
      .data_rvalid_i       (l_rvalid),
      .data_we_o           (l_we),
      .data_be_o           (l_be),
      .data_addr_o         (l_addr),
      .data_wdata_o        (l_wdata),
      .data_wdata_intg_o   (),
      .data_rdata_i        (l_rdata),
      .data_rdata_intg_i   (7'd0),
      .data_err_i          (l_err),
      .irq_software_i      (1'b0),
      .irq_timer_i         (1'b0),
      .irq_external_i      (1'b0),
      .irq_fast_i          (15'd0),
      .irq_nm_i            (1'b0),
      .scramble_key_valid_i(1'b0),
      .scramble_key_i      ('0),
      .scramble_nonce_i    ('0),
      .scramble_req_o      (),
      .debug_req_i         (1'b0),
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

// An OBI port as an AHB-Lite master, and the bridge to memory.
module obi_on_ahb (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        is_fetch,
    input  logic        req,
    output logic        gnt,
    input  logic        we,
    input  logic [ 3:0] be,
    input  logic [31:0] addr,
    input  logic [31:0] wdata,
    output logic        rvalid,
    output logic [31:0] rdata,
    output logic        err,
    output logic        mem_req,
    output logic        mem_we,
    output logic [ 3:0] mem_be,
    output logic [31:0] mem_addr,
    output logic [31:0] mem_wdata,
    input  logic        mem_rvalid,
    input  logic [31:0] mem_rdata,
    input  logic        mem_err
);
  localparam logic [1:0] IDLE = 2'b00, NONSEQ = 2'b10;

  logic hready, hresp, is_data_phase;
  logic [31:0] hwdata, haddr;
  logic [2:0] hsize;

  // The lanes of an aligned access of one, two or four bytes.
  always_comb begin
    haddr = {addr[31:2], 2'b00};
    hsize = 3'd2;
    case (be)
      4'b0001, 4'b0010, 4'b0100, 4'b1000: begin
        hsize = 3'd0;
        haddr[1:0] = {be[3] | be[2], be[3] | be[1]};
      end
      4'b0011, 4'b1100: begin
        hsize = 3'd1;
        haddr[1:0] = {be[3], 1'b0};
      end
      default: ;
    endcase
  end

  assign gnt    = req & hready;
  assign rvalid = is_data_phase & hready;
  assign err    = hresp;

  always_ff @(posedge clk or negedge rst_n) begin
    if (!rst_n) is_data_phase <= 1'b0;
    else if (hready) is_data_phase <= req;
  end

  always_ff @(posedge clk) if (gnt) hwdata <= wdata;

  hil_ahb_lite u_bridge (
      .htrans   (req ? NONSEQ : IDLE),
      .hwrite   (we),
      .hprot    ({3'b001, ~is_fetch}),
      .hrdata   (rdata),
      .mem_fetch(),
      .*
  );
endmodule
