"""What ``hil compile`` makes and says of models, by the compiler."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from hil.board import load_board
from hil.cli.actions.compile_cache import Answer
from hil.cli.arguments import compile_options, compiled
from hil.cli.console import Console, shown_name, table
from hil.cli.plan_report import dynamic_lines, io_saving_line
from hil.cli.render import (
    chosen_lines,
    class_lines,
    compressed_lines,
    fixed_lines,
    folded_lines,
    module_ram_line,
    quantized_lines,
)
from hil.results.build import CompressedLayer
from hil.results.codec import encode
from hil.results.compile import CompileEntry, ExternalLayer, WorkspacePool
from hilc.artifact.library import Module, merge
from hilc.errors import InputError
from hilc.schedule.called import GENERATOR


def compiled_answer(args: argparse.Namespace, console: Console) -> Answer:
    """Return what compiling the models of a command line gives."""
    board = load_board(args.board) if args.board else None
    options = compile_options(args, board, for_firmware=False)
    library = merge(compiled(args, options, console))
    if args.board or args.cpu:
        _check_core(library.modules, options.cpu)
    kept_by = None if args.flash is None else "estimate"
    models = [
        replace(
            module_entry(module),
            choice=library.reports.get(module.name),
            flash_limit_kept_by=kept_by,
        )
        for module in library.modules
    ]
    text = table(
        [
            [
                model.model,
                model.cpu,
                model.workspace_bytes,
                "in it" if model.io_in_workspace else f"{model.io_bytes:,} beside it",
                model.constants_bytes,
                model.layer_count,
                model.macs,
            ]
            for model in models
        ],
        ["model", "core", "workspace", "inputs+outputs", "constants", "layers", "MACs"],
    )
    lines = [text]
    for module in library.modules:
        lines.append(f"{module.name}: {module_ram_line(module)}")
        if report := library.reports.get(module.name):
            lines += [f"{module.name}: {line}" for line in chosen_lines(report)]
            if args.flash is not None:
                lines.append(
                    f"{module.name}: the flash limit is met by estimate; commands that build "
                    "firmware measure it"
                )
            if any(external.generator == GENERATOR for external in module.externals):
                lines.append(
                    f"{module.name}: the instructions count one turn of each loop (WHILE), and the "
                    "longest branch of each choice (IF)"
                )
        if module.fed_rows:
            lines.append(
                f"{module.name}: the input comes by rows: {module.fed_rows} of "
                f"{module.row_bytes:,} B, {_rows_of(module)}"
            )
        if module.states:
            names = ", ".join(shown_name(state.name) for state in module.states)
            lines.append(
                f"{module.name}: {module.state_bytes:,} B of state beside the workspace: {names}"
            )
        macs = sum(layer.macs for layer in module.layers)
        lines += [f"{module.name}: {line}" for line in folded_lines(module.folded, macs)]
        lines += [f"{module.name}: {line}" for line in compressed_lines(module)]
        lines += [f"{module.name}: {line}" for line in fixed_lines(module.fixed_sizes)]
        lines += [f"{module.name}: {line}" for line in class_lines(module.class_labels)]
        quantized = quantized_lines(module.float_layers, module.rounded_biases)
        lines += [f"{module.name}: {line}" for line in quantized]
        lines += [f"{module.name}: {io_saving_line(saving)}" for saving in module.io_savings]
        lines += [f"{module.name}: {line}" for line in dynamic_lines(module.dynamic_forms)]
    return Answer([encode(model) for model in models], lines, library.files)


def _rows_of(module: Module) -> str:
    """Return which part of the input a row is that is fed: no transpose may tell which axis it is
    along.
    """
    (fed,) = module.inputs
    what = f"{shown_name(fed.name)}, {fed.dtype}{list(fed.shape)}"
    if len(fed.shape) == 4 and fed.shape[:2] == (1, module.fed_rows):
        return f"the slices of {what}, along axis 1"
    return f"consecutive parts of {what}"


def _check_core(modules: Sequence[Module], cpu: str) -> None:
    """Raise if a library that was compiled before is for another core than ``cpu``."""
    for module in modules:
        if module.cpu != cpu:
            raise InputError(
                f"{module.name!r} was compiled for {module.cpu} and cannot be put into a "
                f"library for {cpu}",
                "compile its model file for this core, or drop --cpu and --board",
            )


def module_entry(module: Module) -> CompileEntry:
    """Return the entry of ``hil compile`` for a module of a library."""
    return CompileEntry(
        model=module.name,
        cpu=module.cpu,
        codegen=module.codegen,
        api=module.api,
        interface=module.interface,
        goal=module.goal,
        workspace_bytes=module.workspace_bytes,
        state_bytes=module.state_bytes,
        pools=tuple(
            WorkspacePool(pool.name, pool.nbytes, pool.region) for pool in module.workspace_pools
        ),
        io_bytes=module.io_bytes,
        io_in_workspace=module.io_in_pool,
        model_ram_bytes=module.ram_bytes,
        fed_rows=module.fed_rows,
        constants_bytes=module.constants_bytes,
        layer_count=len(module.layers),
        macs=sum(layer.macs for layer in module.layers),
        folded_channels=module.folded.channels,
        folded_macs=module.folded.macs,
        compressed=tuple(CompressedLayer(**layer) for layer in module.compressed_json()),
        fixed_sizes=module.fixed_sizes,
        float_layers=module.float_layers,
        rounded_biases=module.rounded_biases,
        class_labels=module.class_labels,
        dynamic_forms=module.dynamic_forms,
        externals=tuple(
            ExternalLayer(
                layer=external.layer,
                function=external.function,
                generator=external.generator,
                device=external.device or None,
                program=external.program or None,
            )
            for external in module.externals
        ),
    )
