"""The way from a model to its library: read, planned, generated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hilc.artifact.generate import generate
from hilc.artifact.library import ModelLibrary
from hilc.codegen.dialects import require_installed
from hilc.codegen.names import name_pools
from hilc.errors import InputError, LimitError, ModelError
from hilc.external import ExternalCall
from hilc.ir import DynamicForm
from hilc.ir.dtypes import FLOAT, INTEGER
from hilc.lowering.choice import KernelSelection
from hilc.memory.explain import explain as explain_program
from hilc.memory.explanation import Explanation
from hilc.memory.plan import Planner
from hilc.memory.pools import PoolSpec
from hilc.memory.program import Program
from hilc.ops import OPS
from hilc.ops.external import ExternalAttributes
from hilc.options import CompileOptions, Model, takes_options
from hilc.schedule.called import GENERATOR, with_control_flow
from hilc.schedule.frontier import Frontier, find_frontier
from hilc.schedule.goals import Goals
from hilc.schedule.groups import require_fed_group
from hilc.schedule.pareto import ParetoFrontier
from hilc.schedule.search import SearchResult, search
from hilc.schedule.tuning import Tuning, load_tuning
from hilc.source import PreparedModel, prepare
from hilc.support.collection import without_cycle_collection
from hilc.support.version import __version__
from hilc.target import Cpu, load_cpu
from hilc.transforms.feed import with_feed


@takes_options(CompileOptions)
@without_cycle_collection()
def compile(model: Model, options: CompileOptions) -> ModelLibrary:
    """Compile a model, given as a file, its bytes or a graph, or as an object: a PyTorch module
    with `samples`, a program of `torch.export`, an ONNX `ModelProto`.

    The options are keywords, or one value as `options`: :class:`CompileOptions` says what each is.

    Raises :class:`InputError` for options that do not go together, names that become one in C, and
    a model that does not fit into `memory`, `ram` or `flash`; :class:`ModelError` and
    :class:`UnsupportedError` for what is wrong with the model.
    """
    return Compiler(model, options).compile(options.optimize, options.ram, options.flash)


class Compiler:
    """Compiles one model for several goals and limits, with one search for all of them.

    `optimize`, `ram` and `flash` of the options are not used. Raises :class:`InputError` for a
    tuning log of another model, core or compiler version, and what reading the model raises.
    """

    def __init__(self, model: Model, options: CompileOptions) -> None:
        require_installed(options)
        self._model = model
        self._options = options
        self._search = _Search(model, options)

    @without_cycle_collection()
    def compile(
        self, optimize: str, ram: int | None = None, flash: int | None = None
    ) -> ModelLibrary:
        """Return the library that :func:`compile` returns for a goal and limits in bytes.

        Raise :class:`LimitError` where no program keeps them.
        """
        planned = self._search.planned(optimize, ram, flash)
        options, found = self._options, planned.found
        if found is not None:
            saved = _whole_saves_bytes(self._model, planned, options)
            scratch = max((step.call.scratch_bytes for step in planned.program.steps), default=0)
            report = replace(found.report, whole_saves_bytes=saved, scratch_bytes=scratch)
            found = replace(found, report=report)
            options = replace(options, optimize=found.sharing)
        forms = _dynamic_forms(self._model, planned, self._options, optimize, ram, flash)
        annotations = replace(planned.source.annotations, dynamic_forms=forms)
        source = replace(planned.source, annotations=annotations)
        library = generate(planned.program, options, source)
        name = library.modules[0].name
        return replace(
            library,
            reports={} if found is None else {name: found.report},
            plans={name: partial(explain_program, planned.program)},
        )


def _dynamic_forms(
    model: Model,
    planned: _Planned,
    options: CompileOptions,
    optimize: str,
    ram: int | None,
    flash: int | None,
) -> tuple[DynamicForm, ...]:
    """Return what the program's form of dynamically quantized layers costs, then the other form,
    if that is possible; nothing for a model without such layers.
    """
    own = planned.source.annotations.dynamic
    if not own:
        return ()
    forms = [_dynamic_form(own, planned)]
    if planned.found is not None:
        other = FLOAT if own == INTEGER else INTEGER
        with suppress(InputError, ModelError):  # such as a limit, or weights that it does not take
            search = _Search(model, replace(options, dynamic=other))
            forms.append(_dynamic_form(other, search.planned(optimize, ram, flash)))
    return tuple(forms)


def _dynamic_form(dynamic: str, planned: _Planned) -> DynamicForm:
    steps = planned.program.steps
    called = any(
        isinstance(step.call, ExternalCall)
        and ExternalAttributes.of(step.node).generator == GENERATOR
        for step in steps
    )
    if planned.found is None:
        return DynamicForm(dynamic, planned.program.workspace_bytes, None, None, called)
    cost = planned.found.report.chosen
    return DynamicForm(dynamic, cost.workspace_bytes, cost.flash_bytes, cost.instructions, called)


def _whole_saves_bytes(model: Model, planned: _Planned, options: CompileOptions) -> int:
    """Return the bytes that the program for the whole input takes less than one that is fed."""
    graph = planned.program.graph
    fed = _memory_bytes(planned.program, graph.outputs)
    io_tensors = (*graph.inputs, *graph.outputs)
    # The whole input lies in memory when a run starts, so there may be nothing to plan.
    at_start = graph.inputs if options.io_in_pool else io_tensors
    least = sum(graph.tensors[name].nbytes for name in at_start)
    if options.feed != "rows" or fed <= least:
        return 0
    with suppress(InputError):  # such as a limit, or a log that is of the program that is fed
        whole = _planned(model, replace(options, feed="whole")).program
        return max(0, fed - _memory_bytes(whole, io_tensors))
    return 0


def _memory_bytes(program: Program, io_tensors: Sequence[str]) -> int:
    """Return the bytes of a program's workspace, and of the ``io_tensors`` that lie beside it."""
    beside = (n for n in io_tensors if program.buffers[n].kind != "pool")
    return program.workspace_bytes + sum(program.graph.tensors[n].nbytes for n in beside)


@takes_options(CompileOptions)
@without_cycle_collection()
def explain(model: Model, options: CompileOptions) -> Explanation:
    """Return the memory use of the program that :func:`compile` creates for these arguments.

    It includes the cost of the next smaller program, unless `choice` leaves nothing to search.
    Raises like :func:`compile`.
    """
    planned = _planned(model, options)
    found = planned.found
    forms = _dynamic_forms(model, planned, options, options.optimize, options.ram, options.flash)
    saving = None if found is None else found.next_saving()
    return replace(explain_program(planned.program, saving), dynamic_forms=forms)


@takes_options(CompileOptions)
@without_cycle_collection()
def frontier(model: Model, options: CompileOptions) -> Frontier:
    """Return the programs of a model that its user may choose from, the fastest first, each with
    the options `optimize`, `ram` or `flash` with which :func:`compile` creates it.

    `optimize`, `ram` and `flash` of the options themselves are not used. Raises
    :class:`InputError` if `choice` leaves nothing to choose from, else like :func:`compile`.
    """
    if options.choice is not None:
        raise InputError(
            "a choice of kernels leaves no programs to choose from", "leave out `choice`"
        )
    search = _Search(model, options)

    def found_for(optimize: str, ram: int | None, flash: int | None) -> SearchResult:
        planned = search.planned(optimize, ram, flash)
        assert planned.found is not None, "there is no choice of kernels"
        return planned.found

    name = search.planned("speed").program.graph.name
    cpu = load_cpu(options.cpu).name
    return find_frontier(name, cpu, found_for, io_in_workspace=options.io_in_pool)


@dataclass(frozen=True)
class _Planned:
    """Program of a model; ``found`` is None if the caller gave the choice."""

    source: PreparedModel
    program: Program
    found: SearchResult | None


def prepared(model: Model, options: CompileOptions) -> PreparedModel:
    """Return ``model`` read and simplified as the options say, before it is planned."""
    return prepare(
        model,
        options.name,
        load_cpu(options.cpu),
        externals=options.generators,
        api=options.api,
        fold_constant_channels=options.fold_constant_channels,
        allow_float=options.allow_float,
        io=options.io,
        numerics=options.numerics,
        shapes=options.shapes,
        loop_bounds=options.loop_bounds,
        inputs=options.inputs,
        samples=options.samples,
        signature=options.signature,
        dynamic=options.dynamic,
    )


def _planned(model: Model, options: CompileOptions) -> _Planned:
    return _Search(model, options).planned(options.optimize, options.ram, options.flash)


class _Search:
    """Searches for programs of one model, which share their results.

    Raises :class:`InputError` for a tuning log of another model, core or compiler version, and what
    reading the model raises.
    """

    def __init__(self, model: Model, options: CompileOptions) -> None:
        self._options = options
        self._cpu = load_cpu(options.cpu)
        self._source = prepared(model, options)
        tuning = options.tuning
        if isinstance(tuning, str | Path):
            tuning = load_tuning(tuning)
        if tuning is not None and options.choice is None:
            source = self._source
            tuning.check(source.graph.name, source.digest, self._cpu, __version__)
        self._tuning = tuning
        #: Planners by the goal of the called graphs, programs also by the sharing of code.
        self._planners: dict[str, tuple[PreparedModel, Planner]] = {}
        self._known: dict[str, dict[str, Goals]] = {}

    def planned(self, optimize: str, ram: int | None = None, flash: int | None = None) -> _Planned:
        """Return the program of the model for a goal and limits; raise :class:`LimitError` where
        none keeps them.
        """
        goals = [optimize]
        if any(OPS[node.op].control for node in self._source.graph.nodes):
            # The graphs that it calls are planned before the limits of the whole are known to hold.
            limits = {"ram": ram, "size": flash}
            goals += [goal for goal, limit in limits.items() if limit is not None]
        for called in goals[:-1]:
            with suppress(LimitError):
                return self._with_called(called, optimize, ram, flash)
        return self._with_called(goals[-1], optimize, ram, flash)

    def _with_called(
        self, called: str, optimize: str, ram: int | None, flash: int | None
    ) -> _Planned:
        """Return the program; the graphs that it calls are planned for the goal ``called``."""
        if called not in self._planners:
            self._planners[called] = _planner(self._source, self._cpu, self._options, called)
            if self._tuning is not None and self._options.choice is None:
                lowering = self._planners[called][1].lowering
                nodes = {node.name: node for node in lowering.graph.nodes}
                self._tuning.check_layers(
                    nodes, lambda name: [call.variant for call in lowering.calls(nodes[name])]
                )
        source, planner = self._planners[called]
        if self._options.choice is not None:
            return _Planned(source, planner.plan(self._options.choice), None)
        found = search(
            planner,
            optimize=optimize,
            ram=ram,
            flash=flash,
            tuning=self._tuning,
            progress=self._options.progress,
            known=self._known.setdefault(called, {}),
            room=_room(self._options),
        )
        return _Planned(source, found.program, found)


def _room(options: CompileOptions) -> int | None:
    """Return the limit in bytes of the only pool, which is one of the workspace; None without such.

    The search keeps it, as it keeps a limit `ram`. Limits of several pools are kept by the plan.
    """
    return options.memory[0].limit_bytes if len(options.memory) == 1 else None


def _planner(
    source: PreparedModel, cpu: Cpu, options: CompileOptions, goal: str
) -> tuple[PreparedModel, Planner]:
    """Return the planner of a source, and the source as it is planned."""
    planned = with_control_flow(source.graph, cpu, goal=goal, api=options.api)
    source = replace(source, graph=planned)
    if options.feed == "rows":
        source = replace(source, graph=with_feed(source.graph))
    memory = options.memory
    room = _room(options)
    if options.choice is None and room is not None and room >= 0:
        # The search keeps it.
        memory = (replace(memory[0], limit_bytes=None),)
    planner = Planner(
        source.graph,
        cpu,
        io_in_pool=options.io_in_pool,
        keep_inputs=options.keep_inputs,
        pins=options.pins,
        memory=name_pools(memory) or (PoolSpec(),),
        scratch_in_pool=options.pools != "calls",
    )
    if options.feed == "rows":
        require_fed_group(planner)
    return source, planner


class Programs:
    """Programs of a model, among which measurements of whole programs decide."""

    def __init__(self, source: PreparedModel, options: CompileOptions) -> None:
        cpu = load_cpu(options.cpu)
        self._optimize = options.optimize
        self._room = _room(options)
        _, self._planner = _planner(source, cpu, options, options.optimize)

    def chosen(self, tuning: Tuning) -> tuple[KernelSelection, int]:
        """Return the choice of the program for the goal, by a log, and its workspace in bytes."""
        found = search(self._planner, optimize=self._optimize, tuning=tuning, room=self._room)
        return found.choice, found.program.workspace_bytes

    def frontier(self, tuning: Tuning) -> list[tuple[KernelSelection, int]]:
        """Return the programs of the Pareto frontier in the room that there is, from the fastest to
        the smallest.
        """
        frontier = ParetoFrontier(self._planner, tuning=tuning, optimize=self._optimize)
        found = [p for p in frontier.programs() if p.cost.keeps(self._room, None)]
        return [(program.choice, program.workspace_bytes) for program in found]
