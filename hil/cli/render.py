"""Results as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Literal

from hil.board import Board
from hil.cli.console import shown_name, shown_text, table
from hil.device.remarks import feed_remark, scratch_remark
from hil.results.bench import Stalls
from hil.results.boards import BoardEntry, BoardRegion, FrameSizes
from hil.results.verify import Diagnosis, Fidelity
from hil.support.fused import group_text
from hilc.artifact.manifest import NOTHING_FOLDED, Folded, Module
from hilc.ir import Array, ClassLabels, FixedSize, FloatLayer, RoundedBias
from hilc.lowering.choice import ChoiceReport
from hilc.schedule.tuning import Tuning
from hilc.support.suggest import counted

if TYPE_CHECKING:
    from hil.access.connection import Flashed
    from hil.energy import Energy
    from hil.errors import Attempt
    from hil.firmware.build import Firmware, Sizes
    from hil.results.bench import SimulatedCount
    from hil.verify import Difference, LayerReport, Report, TensorReport
    from hil.verify.bench import BenchReport, LayerCount

#: The unit printed with a count.
COUNTER_NOTES = {
    "instructions": "instructions (QEMU), not cycles",
    "cycles": "cycles",
    "nanoseconds": "ns of this machine's time",
}
#: What is printed for the causes of stalls.
_STALLS = {
    "core": "core",
    "fetch_waits": "fetches",
    "flash_data_waits": "flash data",
    "ram_data_waits": "RAM data",
}
#: Classes that a line names.
_MOST_CLASSES = 10
_SHOWN_VALUES = 8
#: Settings of a port that are at least this large are addresses or masks: print in hexadecimal.
_HEX_FROM = 1 << 28


def recovery_lines(attempts: Sequence[Attempt]) -> list[str]:
    """Return a line for each step that recovery took."""
    return [f"recovery: {shown_text(str(attempt))}" for attempt in attempts]


def run_text(
    outputs: Mapping[str, Array],
    counts: Mapping[str, int],
    counter: str,
    recoveries: Sequence[Attempt] = (),
) -> str:
    """Return a summary of the outputs, the ticks of each model's inference, and recoveries."""
    rows = [
        [name, array.dtype.name, _shape(array.shape), _values(array)]
        for name, array in outputs.items()
    ]
    lines = [table(rows, ["output", "type", "shape", "values"])]
    lines += [f"{name}: {count:,} {COUNTER_NOTES[counter]}" for name, count in counts.items()]
    lines += recovery_lines(recoveries)
    return "\n".join(lines)


def verify_text(
    report: Report, verdict_text: Callable[[str, bool], str] = lambda text, good: text
) -> str:
    """Return the verdict, each output, and the first layer that differs."""
    verdict = verdict_text(report.verdict, report.match)
    lines = [
        f"{report.model} on {report.board}: {verdict} over {counted(report.samples, 'sample')} "
        f"in {report.seconds:.1f} s",
        *map(shown_text, report.remarks),
        f"reference {report.reference_description}",
        table(
            [_tensor_row(output) for output in report.outputs],
            ["output", "shape", "type", "mismatches", "max diff"],
        ),
    ]
    lines += [
        f"first difference in output {shown_name(output.name)}: {_difference(output.first)}"
        for output in report.outputs
        if output.first
    ]
    if report.layers is not None:
        lines.append(_layers_line(report.layers))
        layer = report.first_different_layer
        if layer is not None:
            name = shown_name(layer.name)
            lines.append(f"first layer that differs: {layer.index} {shown_text(layer.op)} {name}")
            lines += [
                f"  {shown_name(t.name)}: {_difference(t.first)}" for t in layer.outputs if t.first
            ]
        if report.diagnosis is not None:
            lines += diagnosis_lines(report.diagnosis)
    for metric in report.metrics:
        lines += fidelity_lines(metric)
    return "\n".join([*lines, *recovery_lines(report.recoveries)])


def fidelity_lines(found: Fidelity) -> list[str]:
    """Return a table of how far the outputs, and the layers if any, are from others."""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.4g}"

    rows: list[list[object]] = [
        [
            "output" if tensor.layer is None else tensor.layer,
            shown_name(tensor.name),
            *map(number, (tensor.rmse, tensor.mae, tensor.l2r, tensor.nse, tensor.cos)),
            *map(number, (tensor.snr_db, tensor.top1, tensor.top5)),
        ]
        for tensor in (*found.outputs, *found.layers)
    ]
    heads = ["", "tensor", "RMSE", "MAE", "L2r", "NSE", "cosine", "SNR dB", "top-1", "top-5"]
    return [f"compared with {found.against}, in real numbers", table(rows, heads)]


def diagnosis_lines(found: Diagnosis) -> list[str]:
    """Return the diagnosis of a layer: a sentence, its tensor, and two of the elements."""
    lines = [found.sentence]
    quantization = ""
    if found.scale is not None:
        quantization = f", scale {found.scale:.6g}, zero point {found.zero_point}"
    lines.append(
        f"output {shown_name(found.tensor)}: {found.dtype} {found.axes} "
        f"{_shape(found.shape)}{quantization}"
    )
    if found.group:
        lines.append(
            f"one of the fused layers {', '.join(map(shown_name, found.group))}; code of "
            "--optimize speed may compute them one by one"
        )
    if found.uncompared:
        lines.append(
            f"or a layer before it that the reference does not have: "
            f"{', '.join(map(shown_name, found.uncompared))}"
        )
    is_real = found.first.expected_real is not None
    rows = [
        [
            label,
            element.sample,
            ",".join(map(str, element.position)),
            element.channel,
            element.expected,
            element.got,
            *([f"{element.expected_real:.4g}", f"{element.got_real:.4g}"] if is_real else []),
        ]
        for label, element in (("first", found.first), ("largest", found.largest))
    ]
    real = ["expected, real", "got, real"] if is_real else []
    heads = ["element", "sample", found.axes or "position", "channel", "expected", "got", *real]
    return [*lines, table(rows, heads)]


def bench_text(report: BenchReport, per_layer: bool, limit: bool = False) -> str:
    """Return the measurements, with a table of the layers if ``per_layer``, and with their limits
    if ``limit``.
    """
    note = COUNTER_NOTES[report.counter]
    wrong = "" if report.is_correct else "; outputs DIFFER"
    lines = [
        f"{report.model} on {report.board}: {report.per_inference:,} {note}, per inference{wrong}"
    ]
    about = [_runs_line(report), _latency_line(report), f"outputs: {report.checked_text}"]
    about += [_energy_line(report.energy)] if report.energy is not None else []
    about += [_simulated_line(count) for count in report.simulated[:1]]
    lines.append("\n".join(about))
    lines += folded_lines(report.folded, report.macs)
    is_inside = report.io_in_workspace
    lines.append(
        table(
            [
                ["flash of the model (code, constants, glue)", report.model_flash_bytes],
                ["flash of the firmware", report.firmware_flash_bytes],
                ["RAM of the model", report.model_ram_bytes],
                [
                    f"  workspace{', with inputs and outputs in it' if is_inside else ''}",
                    report.workspace_bytes,
                ],
                *([] if is_inside else [["  inputs and outputs, beside it", report.io_bytes]]),
                *([["  state", report.state_bytes]] if report.state_bytes else []),
                ["static RAM of the firmware", report.ram_bytes],
                ["stack, at its peak", report.stack_peak_bytes],
            ],
            ["memory", "bytes"],
        )
    )
    if report.flash_by_owner:
        total = report.firmware_flash_bytes or 1
        lines.append(
            table(
                [
                    [owner, nbytes, f"{nbytes / total:.1%}"]
                    for owner, nbytes in report.flash_by_owner.items()
                    if nbytes
                ],
                ["flash by owner", "bytes", "share"],
            )
        )
    if len(report.simulated) > 1:
        lines.append(_memory_models(report.simulated))
    if report.estimate is not None:
        mix, (least, most) = report.estimate.mix, report.estimate.cycles
        lines.append(
            f"estimate for a {report.estimate.core}: {least:,} to {most:,} cycles, by "
            f"{report.estimate.source}, with {report.estimate.assumes}"
        )
        if (chip := report.estimate.chip) is not None:
            lines.append(
                f"estimate for {chip.chip}, {chip.flash_waits} wait states of flash included: "
                f"{chip.cycles['from']:,} to {chip.cycles['to']:,} cycles, a "
                f"guess; if it is off as estimates were for {chip.source}: "
                f"{chip.expected['from']:,} to {chip.expected['to']:,}"
            )
        lines.append(
            table(
                [[name, count, f"{count / mix.total:.1%}"] for name, count in asdict(mix).items()],
                ["instructions", "executed", "share"],
            )
        )
    if limit:
        lines.append(_limit_line(report))
    if per_layer or limit:
        lines.append(
            table(
                [
                    [
                        index,
                        group_text(layer.op, layer.ops),
                        layer.macs,
                        layer.count,
                        layer.per_mac,
                        *([layer.instructions, layer.cpi] if report.simulated else []),
                        *(_limit_cells(layer, report) if limit else []),
                        shown_name(layer.name),
                    ]
                    for index, layer in enumerate(report.layers)
                ],
                [
                    *("layer", "operator", "MACs", report.counter, "per MAC"),
                    *(["instructions", "CPI"] if report.simulated else []),
                    *(_limit_heads(report) if limit else []),
                    "name",
                ],
            )
        )
        lines += _stalls_by_layer(report)
    if report.recoveries:
        lines.append("\n".join(recovery_lines(report.recoveries)))
    return "\n\n".join(lines)


def _limit_line(report: BenchReport) -> str:
    """Return the limit of the model, or that it is not known."""
    if report.limit is None or report.ratio is None:
        missing = sum(layer.limit is None for layer in report.layers)
        return (
            f"no limit of the model: that of {missing} of {counted(len(report.layers), 'layer')} "
            "is not known, by the description of the core or of the library"
        )
    line = f"limit {report.limit:,} instructions, the sum of the layers': the inference takes "
    if report.counter == "instructions":
        return f"{line}{report.ratio:.2f} times as many"
    cycles = f"{report.ratio:.2f} cycles for each of them"
    count = report.simulated[0].instructions if report.simulated else None
    return (
        f"{line}{count / report.limit:.2f} times as many, and {cycles}" if count else line + cycles
    )


def _limit_heads(report: BenchReport) -> list[str]:
    """Return the titles of :func:`_limit_cells`."""
    if report.counter == "instructions":
        return ["limit", "ratio"]
    return ["limit", *(["ratio"] if report.simulated else []), "cycles/limit"]


def _limit_cells(layer: LayerCount, report: BenchReport) -> list[float | None]:
    """Return a layer's limit, which is in instructions, and how far the layer is from it: its
    instructions, where they are known, and its cycles.
    """
    if report.counter == "instructions" or not report.simulated:
        return [layer.limit, layer.ratio]
    retired = layer.instructions
    ratio = retired / layer.limit if retired is not None and layer.limit else None
    return [layer.limit, ratio, layer.ratio]


def _causes(stalls: Sequence[Stalls]) -> list[str]:
    """Return the fields of those causes of stalls that occur."""
    return [one.name for one in fields(Stalls) if any(getattr(found, one.name) for found in stalls)]


def _stalls_by_layer(report: BenchReport) -> list[str]:
    """Return the table of the layers' stalls, if a core was simulated and there are any."""
    found = [layer.stalls for layer in report.layers if layer.stalls is not None]
    causes = _causes(found)
    if len(found) != len(report.layers) or not causes:
        return []
    rows = [
        [
            index,
            group_text(layer.op, layer.ops),
            layer.count,
            stalls.total,
            *(getattr(stalls, cause) for cause in causes),
            shown_name(layer.name),
        ]
        for index, (layer, stalls) in enumerate(zip(report.layers, found, strict=True))
    ]
    words = (_STALLS[cause] for cause in causes)
    return [table(rows, ["layer", "operator", "cycles", "stalls", *words, "name"])]


def _runs_line(report: BenchReport) -> str:
    """Return how the counts of the runs are spread."""
    spread, runs = report.spread, len(report.counts)
    after = f"after {report.warmup} for warm-up" if report.warmup else "without warm-up"
    after = f"{report.measured_input}, {after}"
    if spread.min != spread.max:
        return (
            f"median of {counted(runs, 'run')}, {spread.min:,} to {spread.max:,}, half of them "
            f"{spread.q1:,} to {spread.q3:,}; {after}"
        )
    same = ", all equal" if runs > 1 else ""
    why = ": an emulator counts the same on every run" if report.is_deterministic else ""
    return f"{counted(runs, 'run')}{same}, {after}{why}"


def _latency_line(report: BenchReport) -> str:
    """Return the time of an inference, or why it is not known."""
    clock = f"{report.clock_hz / 1e6:g} MHz"
    if report.latency_us is None:
        return f"latency not available: {report.counter} were counted, not time (clock {clock})"
    return f"latency {report.latency_us / 1000:,.3f} ms at {clock}"


def _simulated_line(count: SimulatedCount) -> str:
    """Return the memory that the cycles hold for, and how many an instruction took."""
    cpi = f"; {count.instructions:,} instructions, CPI {count.cpi:.2f}" if count.cpi else ""
    lines = [f"memory model: {count.memory_model}{cpi}"]
    if count.stalls is not None and (causes := _causes([count.stalls])):
        parts = (f"{_STALLS[cause]} {getattr(count.stalls, cause):,}" for cause in causes)
        lines.append(f"stalls: {count.stalls.total:,} cycles; {', '.join(parts)}")
    return "\n".join(lines)


def _memory_models(counts: Sequence[SimulatedCount]) -> str:
    """Return the counts with each memory model, and how much longer than the first they take."""
    first = counts[0].cycles or 1
    rows = [
        [count.memory_model, count.cycles, f"{count.cycles / first:.2f}", count.cpi]
        for count in counts
    ]
    return table(rows, ["memory model", "cycles", "ratio", "CPI"])


def _energy_line(energy: Energy) -> str:
    """Return the energy of an inference, and the power that it comes from."""
    data = energy.entry()
    line = (
        f"energy {data.per_inference_uj:,.3f} uJ per inference, "
        f"{data.mean_power_mw:.3f} mW for {1e3 * energy.duration_s:,.3f} ms"
    )
    if len(energy.windows) > 1:
        line += f"; {len(energy.windows)} inferences, {data.min_uj:,.3f} to {data.max_uj:,.3f} uJ"
    if energy.idle_w is not None:
        line += f"; {data.idle_power_mw:.3f} mW otherwise"
    return f"{line}; by {energy.source}"


def folded_lines(folded: Folded, macs: int) -> list[str]:
    """Return lines about removed channels; the model keeps ``macs`` multiply-accumulates."""
    if folded == NOTHING_FOLDED:
        return []
    return [
        f"removed channels that are the same for every input: {folded.channels:,} channels "
        f"with {folded.macs:,} of {macs + folded.macs:,} MACs"
    ]


def compressed_lines(module: Module) -> list[str]:
    """Return a line about weights that are stored compressed."""
    if not module.compressed:
        return []
    nbytes = sum(found.nbytes for found in module.compressed)
    stored = sum(found.stored_bytes for found in module.compressed)
    return [
        f"weights of {len(module.compressed)} of {len(module.layers)} layers are stored "
        f"compressed: {nbytes:,} B as {stored:,} B"
    ]


def fixed_lines(fixed_sizes: Sequence[FixedSize]) -> list[str]:
    """Return lines about sizes that the model's file leaves open."""
    return [
        f"the file leaves axis {fixed.axis} of the input {shown_name(fixed.input)} open; "
        f"it is fixed at {fixed.size}"
        for fixed in fixed_sizes
    ]


def class_lines(class_labels: Sequence[ClassLabels]) -> list[str]:
    """Return lines about outputs that are numbers of classes with names."""
    lines = []
    for classes in class_labels:
        shown = [f"{i} {shown_text(label)}" for i, label in enumerate(classes.labels)]
        if len(shown) > _MOST_CLASSES:
            shown[_MOST_CLASSES:] = [f"{len(shown) - _MOST_CLASSES} more"]
        output = shown_name(classes.output)
        lines.append(f"the output {output} is the number of a class: {', '.join(shown)}")
    return lines


def quantized_lines(
    float_layers: Sequence[FloatLayer], rounded_biases: Sequence[RoundedBias]
) -> list[str]:
    """Return lines about what a quantized model computes in floats, and about its biases."""
    lines = [
        f"computed in floats: {shown_text(layer.op)} {shown_name(layer.name)}, as "
        f"{shown_text(layer.reason)}"
        for layer in float_layers
    ]
    if rounded_biases:
        most = max(rounded_biases, key=lambda bias: bias.largest_effect)
        lines.append(
            f"biases of {counted(len(rounded_biases), 'layer')} were rounded to the accumulator "
            f"scale (effect: at most {most.largest_effect:.2g} of an output step, in "
            f"{shown_name(most.layer)})"
        )
    return lines


def chosen_lines(report: ChoiceReport) -> list[str]:
    """Return the compiler's choice for a model and its costs."""
    chosen, fastest = report.chosen, report.fastest
    source = "by measured layers" if report.tuned else "by estimate"
    source = "measured as a whole" if report.measured else source
    lines = [
        f"{chosen.workspace_bytes:,} B of workspace, {chosen.instructions:,} {report.counter} "
        f"{source}, "
        f"about {chosen.flash_bytes:,} B of constants and code"
    ]
    for group in report.groups:
        rows = f"{group.rows} row{'s' * (group.rows > 1)} at a time"
        way = ", from the last row on" if group.direction == "backward" else ""
        first, last = shown_name(group.nodes[0]), shown_name(group.nodes[-1])
        what = f"{len(group.nodes)} layers, {first} to {last}" if len(group.nodes) > 1 else first
        way += f", expansions by {group.sliced} channels" if group.sliced else ""
        lines.append(f"fused, {rows}{way}: {what}")
    if chosen != fastest:
        lines.append(_against_fastest(report))
    lines += [remark for remark in (feed_remark(report), scratch_remark(report)) if remark]
    return lines


def _against_fastest(report: ChoiceReport) -> str:
    """Return what the chosen program gives up against the fastest one, and what it saves."""
    chosen, fastest = report.chosen, report.fastest
    ratio = chosen.instructions / max(1, fastest.instructions)
    more = f"{ratio - 1:.1%} more" if ratio < 2 else f"{ratio:.1f} times the"
    sizes = (
        ("workspace", chosen.workspace_bytes - fastest.workspace_bytes),
        ("flash", chosen.flash_bytes - fastest.flash_bytes),
    )
    saved = [f"{-change:,} B less {what}" for what, change in sizes if change < 0]
    added = [f"{change:,} B more {what}" for what, change in sizes if change > 0]
    text = f"against the fastest program (--optimize speed): {more} {report.counter} "
    text += "as measured" if report.tuned else "by estimate"
    text += f", {', '.join(added)}" if added else ""
    return text + (f", for {' and '.join(saved)}" if saved else "")


def tuning_text(log: Tuning) -> str:
    """Return the counts of a tuning log as tables, with the fastest kernel of a layer marked, and
    the fastest program of those whose code is shared alike.
    """
    rows = []
    for layer in log.layers:
        least = min((kernel.count for kernel in layer.kernels), default=0)
        rows += [
            [
                shown_name(layer.name) if position == 0 else "",
                kernel.variant,
                kernel.count,
                "fewest" if kernel.count == least and len(layer.kernels) > 1 else "",
            ]
            for position, kernel in enumerate(layer.kernels)
        ]
    text = table(rows, ["layer", "kernel", log.counter, ""])
    if not log.programs:
        return text
    programs = []
    for program in log.programs:
        least = min(p.count for p in log.programs if p.sharing == program.sharing)
        programs.append(
            [
                program.sharing,
                program.workspace_bytes,
                len(program.groups),
                program.count,
                "fewest" if program.count == least else "",
            ]
        )
    header = ["program, code shared as for", "workspace", "fused groups", log.counter, ""]
    return f"{text}\n\n{table(programs, header)}"


def ran_on(board: Board) -> str:
    """Return where firmware of this project has run on the board."""
    places = ["this machine"] if board.is_host else []
    places += ["QEMU"] if board.qemu else []
    places += ["RTL"] if "verilator" in board.runners else []
    places += [f"silicon ({board.proven})"] if board.proven else []
    return ", ".join(places) or "never"


def shown_by(board: Board) -> tuple[str, ...]:
    """Return how the board's description was shown to be right, the strongest evidence first.

    Tests hold each: `tests/hil/test_ports_other.py` the registers, `test_boards_other.py` images.
    """
    found = [f"silicon, {board.proven}"] if board.proven else []
    found += ["native"] if board.is_host else []
    found += ["emulated by QEMU"] if board.qemu else []
    found += ["RTL"] if "verilator" in board.runners else []
    if not found:
        found.append("simulated registers")
        readers = {"esptool": "esptool", "uf2": "a UF2 reader"}
        found += [f"image read back by {readers[n]}" for n in board.flashers if n in readers]
    return tuple(found)


def memory_bytes(board: Board, kind: Literal["flash", "ram"]) -> int | None:
    """Return the bytes of one kind of memory; None for a board that is this machine."""
    return None if board.is_host else board.total_bytes(kind)


def size_text(size: int | None) -> str:
    """Return a size in MB if it is a multiple of 1 MB, else in KB; ``-`` for None."""
    if size is None:
        return "-"
    return f"{size >> 20} MB" if size % (1 << 20) == 0 else f"{size >> 10} KB"


def board_entry(board: Board) -> BoardEntry:
    """Return the entry of ``hil boards`` for a board."""
    return BoardEntry(
        name=board.name,
        description=board.description,
        cpu=board.cpu.name,
        clock_hz=board.clock_hz,
        flash_bytes=memory_bytes(board, "flash"),
        ram_bytes=memory_bytes(board, "ram"),
        memory=tuple(
            BoardRegion(**{"bytes" if k == "size" else k: v for k, v in asdict(region).items()})
            for region in board.memory
        ),
        stack_bytes=board.stack_bytes,
        handler_stack_bytes=board.handler_stack_bytes,
        rpc=FrameSizes(board.frame_max, board.rx_max),
        ports={
            port.roles[0]: {"port": port.name, "provides": list(port.roles), **port.settings}
            for port in board.ports
        },
        line="rtt" if board.is_over_rtt else "uart",
        runners=tuple(board.runners),
        qemu=asdict(board.qemu) if board.qemu else None,
        renode=asdict(board.renode) if board.renode else None,
        flashers={name: dict(board.settings.get(name, {})) for name in board.flashers},
        default=board.is_default,
        silicon=bool(board.proven),
        proven=board.proven,
        ran_on=ran_on(board),
        shown_by=shown_by(board),
    )


def board_text(board: Board) -> str:
    """Return a description as text."""
    lines = [
        f"{board.name}: {board.description}",
        f"core {board.cpu.name} at {board.clock_hz / 1e6:g} MHz; ran on: {ran_on(board)}",
        f"shown by: {', '.join(shown_by(board))}",
    ]
    if board.memory:
        cycles_known = any(region.read_cycles for region in board.memory)
        lines.append(
            table(
                [
                    [r.name, r.kind, f"{r.origin:#010x}", f"{r.end - 1:#010x}", r.size]
                    + [r.read_cycles or None] * cycles_known
                    for r in board.memory
                ],
                ["memory", "kind", "from", "to", "bytes", *["cycles a read"] * cycles_known],
            )
        )
        lines.append(
            f"stack {board.stack_bytes:,} + {board.handler_stack_bytes:,} for interrupts; frames "
            f"up to {board.frame_max:,} bytes"
        )
    lines.append(
        table(
            [
                [
                    " ".join(port.roles),
                    port.name,
                    " ".join(
                        f"{key}={value:#x}" if value >= _HEX_FROM else f"{key}={value}"
                        for key, value in port.settings.items()
                    ),
                ]
                for port in board.ports
            ],
            ["role", "port", "settings"],
        )
    )
    starts = [f"started by {', '.join(board.runners)}"]
    starts += [f"QEMU machine {board.qemu.machine}"] if board.qemu else []
    starts += [f"programmed by {_flasher_text(board, name)}" for name in board.flashers]
    lines.append("; ".join(starts))
    return "\n\n".join(lines)


def _flasher_text(board: Board, name: str) -> str:
    settings = board.settings.get(name, {})
    stated = [f"{key} {value}" for key, value in settings.items() if value != ""]
    return f"{name} ({', '.join(stated)})" if stated else name


def flashed_text(done: Flashed) -> str:
    """Return whether a board was programmed, and the time, as text."""
    if not done.programmed:
        return f"unchanged, not programmed ({done.nbytes:,} bytes)"
    return f"programmed {done.nbytes:,} bytes in {done.seconds:.1f} s"


def ram_line(ram: int, workspace: int, io: int | None, states: int) -> str:
    """Return the RAM of a model and its parts; ``io`` is None for inputs and outputs in the
    workspace.
    """
    parts = "workspace with inputs and outputs in it"
    if io is not None:
        parts = f"{workspace:,} of workspace, {io:,} of inputs and outputs beside it"
    elif states:
        parts = f"{workspace:,} of {parts}"
    return f"RAM of the model: {ram:,} bytes: {parts}" + (
        f", {states:,} of state" if states else ""
    )


def module_ram_line(module: Module, *, in_firmware: bool = False) -> str:
    """Return :func:`ram_line` of a compiled model; outside of the project's firmware also how that
    differs.
    """
    io = None if module.io_in_pool else module.io_bytes
    line = ram_line(module.ram_bytes, module.workspace_bytes, io, module.state_bytes)
    if io is None or in_firmware:
        return line
    return f"{line}; hil's firmware can place these in the workspace (hil explain --board)"


def build_text(firmware: Firmware, *, by_section: bool = False) -> str:
    """Return the firmware's paths and sizes; with ``by_section`` also by section and owner."""
    sizes = firmware.sizes
    lines = [f"{firmware.elf} (build {firmware.build_id})"]
    if sizes.regions:
        lines.append(
            table(
                [
                    [use.name, use.used, use.size, f"{use.used / use.size:.1%}"]
                    for use in sizes.regions
                ],
                ["memory", "used", "size", "full"],
            )
        )
    rows: list[list[object]] = [["firmware", sizes.flash_bytes, sizes.ram_bytes, None]]
    rows += [
        [f"  {name}", model.flash_bytes, model.workspace_bytes, model.constants_bytes]
        for name, model in sizes.models.items()
    ]
    lines.append(table(rows, ["part", "flash", "static RAM", "constants"]))
    modules = [module for library in firmware.libraries for module in library.modules]
    lines.append("\n".join(f"{m.name}: {module_ram_line(m, in_firmware=True)}" for m in modules))
    lines += [f"{m.name}: {line}" for m in modules for line in compressed_lines(m)]
    for is_copy, said, to in (
        (True, "constants copied to faster memory at the start", "to"),
        (False, "constants outside of the first flash region", "in"),
    ):
        places = [
            f"{name} {to} {model.constants_region}"
            for name, model in sizes.models.items()
            if model.constants_region and model.constants_are_copied == is_copy
        ]
        lines += [f"{said}: {', '.join(places)}"] if places else []
    if by_section and sizes.sections:
        lines.append(_sections_table(sizes))
    stack = f"stack {sizes.stack_bytes:,} + {sizes.handler_stack_bytes:,} for interrupts"
    if sizes.stack_bound_bytes is not None:
        stack += f"; calls need at most {sizes.stack_bound_bytes:,} of the main stack"
    lines.append(stack)
    return "\n\n".join(lines)


def _sections_table(sizes: Sizes) -> str:
    """Return a table of section kinds by owner, with the sums of flash and of RAM."""
    owners = list(dict.fromkeys(owner for use in sizes.sections for owner in use.parts))
    places = {(True, False): "flash", (False, True): "RAM", (True, True): "flash and RAM"}
    rows: list[list[object]] = [
        [
            use.name,
            places[use.in_flash, use.in_ram],
            *(use.parts.get(owner) for owner in owners),
            use.size,
        ]
        for use in sizes.sections
    ]
    for place in ("flash", "RAM"):
        held = [use for use in sizes.sections if (use.in_flash if place == "flash" else use.in_ram)]
        by_owner = [sum(use.parts.get(owner, 0) for use in held) for owner in owners]
        rows.append([f"all {place}", place, *by_owner, sum(by_owner)])
    return table(rows, ["section", "in", *owners, "bytes"])


def _layers_line(layers: tuple[LayerReport, ...]) -> str:
    compared = [layer for layer in layers if layer.outputs]
    if not compared:
        return f"no layer compared; {len(layers)} exist in the compiled model only"
    matching = sum(layer.match for layer in compared)
    line = f"{matching} of {counted(len(compared), 'layer')} match"
    rest = len(layers) - len(compared)
    # A transform may create a layer whose result is not in the model file.
    return f"{line}; {rest} exist in the compiled model only" if rest else line


def _tensor_row(tensor: TensorReport) -> list[object]:
    difference: object = tensor.max_abs_diff
    if isinstance(difference, float):
        difference = f"{difference:.3g}"
    return [tensor.name, _shape(tensor.shape), tensor.dtype, tensor.mismatches, difference]


def _difference(difference: Difference | None) -> str:
    if difference is None:
        return "none"
    return (
        f"sample {difference.sample}, element {list(difference.position)}: "
        f"expected {difference.expected}, got {difference.got}"
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _values(array: Array) -> str:
    flat = array.ravel()
    shown = " ".join(f"{value:.6g}" for value in flat[:_SHOWN_VALUES].astype(float))
    if flat.size <= _SHOWN_VALUES:
        return shown
    return f"{shown} ... (largest {flat.max():.6g} at {int(flat.argmax())})"
