"""``hil export``: compile models, and write them as a library of another build system."""

from __future__ import annotations

import argparse
import time

from hil.board import load_board
from hil.cli.actions.compile import module_entry
from hil.cli.arguments import compile_options, compiled
from hil.cli.console import Console, table
from hil.cli.render import module_ram_line
from hil.export.formats.arduino import PLACEHOLDER
from hil.export.job import ExampleInputs, checked, write
from hil.export.package import About
from hil.results.compile import ExportEntry
from hil.verify.samples import no_quantization
from hilc.target import load_cpu


def export_command(args: argparse.Namespace, console: Console) -> int:
    """Write one library with all models."""
    start = time.monotonic()
    if args.quantize_inputs and not args.inputs:
        console.warn(no_quantization("--quantize-inputs", "--inputs"))
    board = load_board(args.board) if args.board else None
    core = load_cpu(args.cpu) if args.cpu else board.cpu if board is not None else None
    about = About(
        name=args.library,
        version=args.library_version,
        vendor=args.vendor,
        author=args.author,
        url=args.url,
        license=args.license,
    )
    chosen = checked(args.build_system, args.output, core, about, force=args.force)
    options = compile_options(args, board, for_firmware=False)
    libraries = compiled(args, options, console)
    inputs = ExampleInputs(args.inputs, args.quantize_inputs)
    done = write(chosen, libraries, args.output, core, board, about, inputs, force=args.force)
    seconds = round(time.monotonic() - start, 3)
    entry = ExportEntry(
        format=done.format,
        library=done.name,
        version=done.version,
        cpu=done.cpu.name,
        models=tuple(module_entry(module) for module in done.modules),
        example_compares=done.has_reference,
        output=args.output,
        files=tuple(done.files),
        seconds=seconds,
    )
    is_for_any = core is None and done.cpu.is_host
    rows = [
        [m.name, "any" if is_for_any else m.cpu, m.workspace_bytes, m.constants_bytes]
        for m in done.modules
    ]
    lines = [table(rows, ["model", "core", "workspace", "constants"])]
    lines += [f"{module.name}: {module_ram_line(module)}" for module in done.modules]
    if is_for_any:
        lines.append("the kernels are those for any core: --cpu or --board chooses a core's own")
    if not done.has_reference:
        lines.append(
            "the example compares nothing: the archive does not hold the model that it was "
            "compiled from"
        )
    if done.format == "arduino" and not about.url:
        lines.append(f"library.properties must have an address, and has {PLACEHOLDER}: give --url")
    lines.append(
        f"{args.output}: {done.format} library {done.name} {done.version}, {len(done.files)} files "
        f"in {seconds} s; its README.md says how to use it"
    )
    console.result(entry, "\n".join(lines))
    return 0
