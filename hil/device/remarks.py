"""What a user should know of options that are valid and may still be a mistake on their board."""

from __future__ import annotations

from collections.abc import Iterable

from hil.access import runner_named
from hil.board import Board
from hil.errors import InputError
from hilc.artifact.library import ModelLibrary
from hilc.lowering.choice import ChoiceReport
from hilc.memory.pools import PoolSpec
from hilc.schedule.tuning import Tuning, load_tuning


def feed_remark(report: ChoiceReport) -> str:
    """Return what an input costs that is fed by rows and does not save memory; else nothing."""
    if not report.whole_saves_bytes:
        return ""
    return (
        "rows that are fed cost memory here: with --feed whole, workspace, inputs and outputs take "
        f"{report.whole_saves_bytes:,} B less"
    )


def scratch_remark(report: ChoiceReport) -> str:
    """Return that the fastest program takes more memory for the scratch of a kernel than for all
    else; nothing for other goals, which weigh memory.
    """
    workspace = report.chosen.workspace_bytes
    if report.goal != "speed" or 2 * report.scratch_bytes <= workspace:
        return ""
    return (
        f"{report.scratch_bytes:,} of {workspace:,} B of workspace are scratch of a layer's "
        "fastest kernel: --optimize balanced weighs memory too"
    )


def shared_remark(libraries: Iterable[ModelLibrary], workspace: str) -> str:
    """Return that a workspace is shared by one model, to no use; else nothing."""
    if workspace == "own" or sum(len(library.modules) for library in libraries) > 1:
        return ""
    return (
        "--workspace shared saves nothing: the image has one model, and its inputs and outputs "
        "lie outside of a shared workspace"
    )


def tuning_remark(tuning: Tuning | str, board: Board) -> str:
    """Return a remark on a log that counts instructions where the board counts cycles, or the
    reverse; else nothing.

    The program with the fewest instructions may not take the fewest cycles.
    """
    log = tuning if isinstance(tuning, Tuning) else load_tuning(tuning)
    counts = "cycles" if runner_named(board.default_runner).uses_probe else "instructions"
    if board.is_host or log.counter == counts:
        return ""
    return (
        f"the tuning log counts {log.counter}, measured on {log.board}, and {board.name} "
        f"counts {counts}: the fastest kernels by {log.counter} may not be the fastest by "
        f"{counts}; measure them with hil tune --board {board.name}"
    )


def check_regions(pools: Iterable[PoolSpec], board: Board, option: str = "memory") -> None:
    """Raise :class:`InputError` for a pool in a region that the board does not have."""
    regions = [region.name for region in board.regions("ram")]
    for pool in pools:
        if pool.region is not None and pool.region not in regions:
            raise InputError(
                f"{option}: {board.name} has no RAM region {pool.region!r}",
                f"choose from {', '.join(regions)}" if regions else f"drop {option}",
            )
