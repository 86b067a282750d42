"""The programs of a model that a user may choose from, as text and as the entry of JSON."""

from __future__ import annotations

from itertools import groupby

from hil.cli.console import table
from hil.results.frontier import FrontierEntry, FrontierProgramEntry
from hilc.schedule.frontier import Frontier

_BAR_TITLE = "share of the largest workspace"
_BAR = len(_BAR_TITLE)


def frontier_text(frontier: Frontier) -> str:
    """Return a frontier as a table, the fastest program first; the bars show its
    workspace relative to the largest.

    Options that give equal figures are one row.
    """
    fastest = max(1, min(p.cost.instructions for p in frontier.programs))
    most = max(1, max(p.cost.workspace_bytes for p in frontier.programs))
    rows = [
        [
            ", ".join(" ".join(program.options) for program in programs),
            f"{cost.instructions:,}",
            f"{cost.instructions / fastest:.2f}",
            f"{cost.workspace_bytes:,}",
            f"{cost.flash_bytes:,}",
            "#" * -(-cost.workspace_bytes * _BAR // most),
        ]
        for cost, programs in groupby(frontier.programs, key=lambda program: program.cost)
    ]
    head = (
        f"{frontier.model} for {frontier.cpu}: {len(rows)} program{'s' * (len(rows) != 1)}; "
        f"{frontier.counter} and flash are estimates"
    )
    workspace = "workspace with I/O" if frontier.io_in_workspace else "workspace without I/O"
    header = ["options", frontier.counter, "ratio", workspace, "flash", _BAR_TITLE]
    return "\n".join([head, table(rows, header), *_notes(frontier)])


def _notes(frontier: Frontier) -> list[str]:
    """Return what the workspace includes, and why the goal ``speed`` is listed beside a program
    that by estimate is as fast, and has less flash.
    """
    notes = [
        "the workspace includes inputs and outputs, as for hil build; hil compile places them "
        "beside it, so its --ram limits less"
        if frontier.io_in_workspace
        else "inputs and outputs are beside the workspace"
    ]
    speed = next((p.cost for p in frontier.programs if p.optimize == "speed"), None)
    if speed is None or not any(
        p.cost.instructions <= speed.instructions and p.cost.flash_bytes < speed.flash_bytes
        for p in frontier.programs
    ):
        return notes
    return [
        *notes,
        "--optimize speed gives each layer code of its own, which takes more flash; estimates "
        "leave out that the shared code of the other programs is slower (by about 1 %): hil bench "
        "counts both",
    ]


def frontier_entry(frontier: Frontier) -> FrontierEntry:
    """Return a frontier as the entry of ``hil explain --frontier``."""
    return FrontierEntry(
        model=frontier.model,
        cpu=frontier.cpu,
        counter=frontier.counter,
        programs=tuple(
            FrontierProgramEntry(
                options=tuple(program.options),
                optimize=program.optimize,
                ram=program.ram,
                flash=program.flash,
                per_inference=program.cost.instructions,
                workspace_bytes=program.cost.workspace_bytes,
                flash_bytes=program.cost.flash_bytes,
            )
            for program in frontier.programs
        ),
    )
