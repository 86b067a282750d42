"""``hil.fit``: which boards hold a model, without a toolchain.

The compiler searches once for each core. The workspace is exact, and so is the RAM of the firmware
to some bytes; flash and instructions are estimates, whose errors `tests/board/test_estimates.py`
holds.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hil.board import Board, board_names, load_board
from hil.errors import HilWarning, InputError
from hil.firmware.fit import UNKNOWN_BYTES, Demand, estimate, room
from hil.firmware.placement import aligned, static_bytes
from hil.firmware.sources import (
    ModelObject,
    ModelOptions,
    ModelSource,
    load_sources,
    unused_options,
)
from hil.results.fit import BoardFit, FitEntry, ProgramFit, Verdict
from hilc.artifact.library import ModelLibrary, Module, TensorInfo
from hilc.compiler import Compiler
from hilc.errors import LimitError
from hilc.lowering.choice import CostEstimate
from hilc.memory.explanation import Explanation
from hilc.options import RENAMED, CodeKeywords
from hilc.schedule.policy import GOALS, POLICY
from hilc.support.arguments import typed
from hilc.support.option import check_keywords
from hilc.target import load_cpu

#: Flash that functions of the compiler's and of C's libraries may add, such as those for floats
#: without a unit and for 64 bits; the estimate does not know which a model needs.
_LIBRARY_BYTES = 6144
#: Stack of a model's largest function, with room to spare: known after a build only.
_FRAME_BYTES = 1024
#: The goals in the order in which a board's program is chosen.
_ORDER = ("balanced", "ram", "size", "speed")
assert set(_ORDER) == set(GOALS), "every goal has its place"


@typed
def fit(
    model: Any,
    boards: Sequence[str | Path | Board] | None = None,
    *,
    cpu: str | None = None,
    ram: int | None = None,
    flash: int | None = None,
    name: str | None = None,
    progress: Callable[[], None] | None = None,
    **options: Any,
) -> FitEntry:
    """Return which boards hold a firmware of a model, by which goal of the compiler, and why the
    others do not. Nothing is built: no toolchain is needed.

    ``model`` is a file, or an object that :func:`hil.compile` takes. ``boards`` are names or
    descriptions, for each of which every goal is tried; by default all that ship with the project,
    with the first goal that fits. Or ``cpu``, ``ram`` and ``flash`` describe a chip by its core and
    its bytes. Further ``options`` are those of the compiler, but
    the goal and the limits, which are what is looked for. ``progress`` is called for every program
    that the compiler tries.

    Raise :class:`~hilc.errors.InputError` for a library that is compiled already, and for options
    that exclude each other; otherwise as :func:`hil.compile` does.
    """
    start = time.monotonic()
    check_keywords("hil.fit", options, [*CodeKeywords.__annotations__], RENAMED)
    for each in ("optimize", "memory", "pools", "io_in_pool"):
        if each in options:
            raise InputError(
                f"{each} is given, which hil.fit looks for", f"leave out {each}, or compile with it"
            )
    described = _boards(boards, cpu, ram, flash)
    source: ModelSource | ModelObject = (
        ModelSource(Path(model), name)
        if isinstance(model, str | Path)
        else ModelObject(model, name)
    )
    if source.is_archive or isinstance(model, ModelLibrary):
        raise InputError(
            f"{model} is compiled already, for one core and one goal",
            "give the model file that it was compiled from",
        )
    every_goal = bool(boards) or cpu is not None
    found: dict[str, BoardFit] = {}
    title, remarks = "", dict[str, None]()
    for core in dict.fromkeys(board.cpu.name for board in described):
        chosen = ModelOptions(core, given=options, progress=progress)
        on_core = _Core(source, chosen)
        title = on_core.name
        remarks |= dict.fromkeys(on_core.remarks)
        for board in described:
            if board.cpu.name == core:
                found[board.name] = on_core.on(board, every_goal)
    for remark in remarks:
        warnings.warn(HilWarning(f"{title}: {remark}"), stacklevel=2)
    results = tuple(found[board.name] for board in described)
    return FitEntry(
        model=title,
        counter="instructions",
        flash_error=POLICY.flash_error,
        flash_error_bytes=_LIBRARY_BYTES,
        per_inference_error=POLICY.instructions_error,
        ram_error_bytes=UNKNOWN_BYTES,
        smallest=_smallest(described, results),
        boards=results,
        seconds=time.monotonic() - start,
    )


def _boards(
    boards: Sequence[str | Path | Board] | None,
    cpu: str | None,
    ram: int | None,
    flash: int | None,
) -> list[Board]:
    chip = {"cpu": cpu, "ram": ram, "flash": flash}
    missing = [name for name, value in chip.items() if value is None]
    if boards and len(missing) < len(chip):
        given = next(name for name, value in chip.items() if value is not None)
        raise InputError(
            f"{given} describes a chip, and boards are given", f"leave out {given}, or the boards"
        )
    if cpu is not None and ram is not None and flash is not None:
        return [_chip(cpu, ram, flash)]
    if len(missing) < len(chip):
        raise InputError(
            f"a chip is described without {' and '.join(missing)}",
            "give cpu, ram and flash, or none of them",
        )
    named = boards if boards else [*board_names()]
    described = [each if isinstance(each, Board) else load_board(each) for each in named]
    limited = [board for board in described if not board.is_host]
    if not limited:
        raise InputError(
            f"{described[0].name} is this machine, which has no limits", "name another board"
        )
    return list({board.name: board for board in limited}.values())


def _chip(cpu: str, ram: int, flash: int) -> Board:
    """Return a board with one region of RAM and one of flash, and with stacks and frames of the
    project's board of the core whose RAM is the most alike.
    """
    core = load_cpu(cpu)
    if core.is_host:
        raise InputError(f"{cpu} is this machine, which has no limits", "name another core")
    alike = [b for b in map(load_board, board_names()) if b.cpu.name == core.name]
    if not alike:
        raise InputError(
            f"no board has the core {core.name}, so the firmware's own RAM is not known",
            f"choose one of {', '.join(sorted(_board_cores()))}",
        )
    model = min(alike, key=lambda b: (abs(b.total_bytes("ram") - ram), b.name))
    region = {kind: model.regions(kind)[0] for kind in ("flash", "ram")}
    memory = (replace(region["flash"], size=flash), replace(region["ram"], size=ram))
    return replace(model, name=f"{core.name} chip", memory=memory, flashers=("command",))


def _board_cores() -> set[str]:
    return {b.cpu.name for b in map(load_board, board_names()) if not b.is_host}


def _smallest(boards: Sequence[Board], results: Sequence[BoardFit]) -> str | None:
    holding = [board for board, result in zip(boards, results, strict=True) if result.fits == "yes"]
    real = [board for board in holding if not board.is_emulated]
    least = min(
        real, key=lambda b: (b.total_bytes("ram"), b.total_bytes("flash"), b.name), default=None
    )
    return None if least is None else least.name


@dataclass(frozen=True)
class _Candidate:
    """A library, and the options of the command line that give it."""

    options: tuple[str, ...]
    optimize: str | None
    library: ModelLibrary
    #: The limit of flash in bytes among the options, which a build keeps as it is linked.
    flash: int | None = None

    @property
    def most_flash(self) -> float:
        """The most flash in bytes that the model takes by estimate, or by its limit."""
        return self.flash or (1 + POLICY.flash_error) * _flash_bytes(self)

    @property
    def module(self) -> Module:
        return self.library.modules[0]

    @property
    def plan(self) -> Explanation:
        return self.library.plans[self.module.name]()


class _Core:
    """The programs of a model on one core; one search finds those of all goals."""

    def __init__(self, source: ModelSource | ModelObject, options: ModelOptions) -> None:
        self._source = source
        self._options = options
        self._compiler = self._compiler_for(options)
        self._goals: dict[str, _Candidate] = {}

    def _goal(self, goal: str) -> _Candidate:
        """Return the program of a goal."""
        if goal not in self._goals:
            words = () if goal == _ORDER[0] else ("--optimize", goal)
            self._goals[goal] = _Candidate(words, goal, self._compiler.compile(goal))
        return self._goals[goal]

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._goal(_ORDER[0]).module.name

    @property
    def remarks(self) -> Iterator[str]:
        """Sentences that name the options without effect on the model."""
        return unused_options(self._options, self._goal(_ORDER[0]).module)

    def _compiler_for(self, options: ModelOptions) -> Compiler:
        source = self._source
        given = source.path if isinstance(source, ModelSource) else source.model
        return Compiler(given, options.compiler(source.name))

    def on(self, board: Board, every_goal: bool) -> BoardFit:
        """Return how the model fits one board, with the programs up to the first that fits, or of
        every goal.
        """
        programs: list[ProgramFit] = []
        refusal: LimitError | None = None
        for goal in _ORDER:
            programs.append(_program(self._goal(goal), board))
            if programs[-1].fits == "yes" and not every_goal:
                break
        if all(program.fits != "yes" for program in programs):
            try:
                programs.append(_program(self._within(board), board))
            except LimitError as error:
                refusal = error
        verdicts = [program.fits for program in programs]
        fits: Verdict = "yes" if "yes" in verdicts else "maybe" if "maybe" in verdicts else "no"
        best = None if fits == "no" else verdicts.index(fits)
        reason = ""
        remedies: tuple[str, ...] = ()
        if fits != "yes":
            reason = self._reason(board, programs, best, refusal)
            remedies = tuple(self._remedies(board, programs, best))
        return BoardFit(board.name, board.cpu.name, fits, best, tuple(programs), reason, remedies)

    def _within(self, board: Board) -> _Candidate:
        """Return the fastest program within the board's memory, with the limits that give it; raise
        :class:`LimitError` without any.
        """
        candidate = self._goal(_ORDER[0])
        demands = _demands(candidate, board)
        ram = demands["RAM"].had - demands["RAM"].needed + aligned(candidate.module.workspace_bytes)
        free = demands["flash"].had - demands["flash"].needed + _flash_bytes(candidate)
        flash = max(0, int((free - _LIBRARY_BYTES) / (1 + POLICY.flash_error)))
        try:
            try:
                exact = self._found(max(0, ram - UNKNOWN_BYTES), flash)
            except LimitError:
                # Where the firmware alone takes all, the refusal still states the least workspace.
                exact = self._found(max(0, ram), flash)
        except LimitError:
            spread = self._spread(board, ram)
            if spread is None:
                raise
            return spread
        # The limit that a build is sure to keep: that program does, as far as the estimate is off.
        most = math.ceil((1 + POLICY.flash_error) * exact.flash_bytes)
        library = self._compiler.compile("balanced", exact.workspace_bytes, most)
        words = ("--ram", str(exact.workspace_bytes), "--flash", str(most))
        return _Candidate(words, None, library, most)

    def _found(self, ram: int, flash: int) -> CostEstimate:
        library = self._compiler.compile("balanced", ram, flash)
        return library.reports[library.modules[0].name].chosen

    def _spread(self, board: Board, ram: int) -> _Candidate | None:
        """Return the program whose pools lie in several RAM regions of the board, if one does."""
        rooms = [room(board, region) for region in board.regions("ram")]
        if len(rooms) < 2 or sum(rooms) < self._least().module.workspace_bytes:
            return None
        options = replace(self._options, board=board)
        try:
            return _Candidate((), "balanced", load_sources([self._source], options)[0])
        except InputError:
            return None

    def _reason(
        self,
        board: Board,
        programs: Sequence[ProgramFit],
        best: int | None,
        refusal: LimitError | None,
    ) -> str:
        """Return which memory is too small; of the program with the least of it."""
        if best is not None:
            return _doubt(programs[best], board)
        parts = []
        least = self._least()
        ram = _demands(least, board)["RAM"]
        if not ram.fits:
            needed = ram.needed
            if refusal is not None and refusal.least_ram is not None:
                needed -= max(0, least.module.workspace_bytes - refusal.least_ram)
            # The firmware's own data and stacks, where the pool lies beside them.
            own = ram.needed - sum(static_bytes([least.module], "own").values())
            beside = f", {own:,} of them for the firmware and its stacks" if own > 0 else ""
            # Fed by rows, it takes less; a remedy states it where that suffices.
            rows = self._fed_by_rows
            is_less = rows is not None and _demands(rows, board)["RAM"].needed < needed
            whole = " with the input as a whole" if is_less else ""
            parts.append(
                f"RAM: at least {needed:,} bytes needed{whole}{beside}; {ram.had:,} available in "
                f"the {ram.note.partition(';')[0]}{self._peak()}"
            )
        smallest = min(programs, key=lambda program: program.flash_bytes)
        if smallest.flash_bytes > smallest.flash_available:
            constants = min(each.module.constants_bytes for each in self._goals.values())
            parts.append(
                f"flash: about {smallest.flash_bytes:,} bytes needed, "
                f"{smallest.flash_available:,} available; the weights take {constants:,}"
            )
        if not parts:
            parts.append("RAM or flash would do alone" if refusal is None else refusal.fact)
        return "; ".join(parts)

    def _least(self) -> _Candidate:
        """Return the candidate with the least workspace."""
        return min(self._goals.values(), key=lambda each: each.module.workspace_bytes)

    def _peak(self) -> str:
        plan = self._least().plan
        if not plan.steps:
            return ""
        return f" (layer {plan.peak}, {plan.steps[plan.peak].ops}, sets the peak)"

    def _remedies(
        self, board: Board, programs: Sequence[ProgramFit], best: int | None
    ) -> Iterator[str]:
        """Yield what would help on a board that no program fits."""
        if best is not None:
            yield "hil build says for certain"
            return
        if not _demands(self._least(), board)["RAM"].fits:
            rows = self._fed_by_rows
            if rows is not None and _demands(rows, board)["RAM"].fits:
                needed = _demands(rows, board)["RAM"].needed
                yield f"{' '.join(rows.options)} takes {needed:,} bytes of RAM"
            for tensor in _float_inputs(self._least()):
                yield (
                    f"the input {tensor.name!r} is float32 and takes {tensor.nbytes:,} bytes, as "
                    f"int8 {tensor.nbytes // 4:,}"
                )
        if all(program.flash_bytes > program.flash_available for program in programs):
            yield "a smaller model, or a board with more flash"

    @cached_property
    def _fed_by_rows(self) -> _Candidate | None:
        """The smallest program that takes its input by rows, if the model permits that."""
        given: Mapping[str, Any] = {**self._options.given, "feed": "rows"}
        try:
            library = self._compiler_for(replace(self._options, given=given)).compile("ram")
        except InputError:
            return None
        return _Candidate(("--feed", "rows", "--optimize", "ram"), "ram", library)


def _doubt(program: ProgramFit, board: Board) -> str:
    """Return why a program may fit, or may not."""
    if program.ram_with_stacks_bytes + UNKNOWN_BYTES > program.ram_available:
        return (
            f"RAM: {program.ram_with_stacks_bytes:,} bytes, or up to {UNKNOWN_BYTES} more, of "
            f"{program.ram_available:,}"
        )
    if board.base.stack_bytes + _FRAME_BYTES > board.stack_bytes:
        return (
            f"stack: at least {board.base.stack_bytes:,} bytes beside a model's largest function, "
            f"of {board.stack_bytes:,}"
        )
    return (
        f"flash: about {program.flash_bytes:,} bytes of {program.flash_available:,}, an estimate "
        f"that may be off by {POLICY.flash_error:.0%} of the model and by {_LIBRARY_BYTES:,} bytes "
        "of libraries"
    )


def _float_inputs(candidate: _Candidate) -> Iterator[TensorInfo]:
    """Yield the float inputs of a model that computes in integers."""
    first = candidate.module.layers[:1]
    if any(layer.op == "QUANTIZE" for layer in first):
        yield from (t for t in candidate.module.inputs if t.dtype == "float32")


def _demands(candidate: _Candidate, board: Board) -> dict[str, Demand]:
    """Return the board's demands by resource; of several RAM regions that of the one which has the
    least left.
    """
    found: dict[str, Demand] = {}
    for demand in estimate([candidate.module], board):
        known = found.get(demand.resource)
        if known is None or demand.had - demand.needed < known.had - known.needed:
            found[demand.resource] = demand
    code = _flash_bytes(candidate) - candidate.module.constants_bytes
    found["flash"] = replace(found["flash"], needed=found["flash"].needed + code)
    return found


def _flash_bytes(candidate: _Candidate) -> int:
    """Return the estimated flash of the model: its constants and the code of its layers."""
    return candidate.library.reports[candidate.module.name].chosen.flash_bytes


def _program(candidate: _Candidate, board: Board) -> ProgramFit:
    demands = _demands(candidate, board)
    ram, flash = demands["RAM"], demands["flash"]
    base = board.base.link_ram_bytes(board.frame_max, board.rx_max)
    stacks = board.stack_bytes + board.handler_stack_bytes
    error = POLICY.flash_error * _flash_bytes(candidate)
    most = flash.needed - _flash_bytes(candidate) + candidate.most_flash
    fits: Verdict = "yes"
    if not ram.fits or flash.needed - error > flash.had:
        fits = "no"
    elif (
        most + _LIBRARY_BYTES > flash.had
        or ram.needed + UNKNOWN_BYTES > ram.had
        or board.base.stack_bytes + _FRAME_BYTES > board.stack_bytes
    ):
        fits = "maybe"
    cost = candidate.library.reports[candidate.module.name].chosen
    return ProgramFit(
        options=candidate.options,
        optimize=candidate.optimize,
        fits=fits,
        workspace_bytes=candidate.module.workspace_bytes,
        ram_with_stacks_bytes=base + stacks + sum(static_bytes([candidate.module], "own").values()),
        ram_available=board.total_bytes("ram"),
        flash_bytes=flash.needed,
        flash_available=flash.had,
        per_inference=cost.instructions,
    )
