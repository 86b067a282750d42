"""The models of a job and their board, from whatever the caller has, ready to be opened.

A model is a file, a library, an object that :func:`hil.compile` takes, or one that runs already
(:class:`hil.device.Model`, :mod:`hilc.host`); the board is named, described, of a lab, or an open
device. The models are compiled, and the way to the board is chosen, before anything is started.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.access import Connection
from hil.access.bench_boards import held_board, reach_of, refuse_options
from hil.board import Board, load_board
from hil.board.bench import is_of_bench, unit_named
from hil.device import Device, Model
from hil.device.remarks import (
    check_regions,
    feed_remark,
    scratch_remark,
    shared_remark,
    tuning_remark,
)
from hil.device.route import Route, ready_route
from hil.device.session import open_compiled
from hil.errors import Attempt, InputError
from hil.firmware.project import check_suits
from hil.firmware.sources import (
    ModelInput,
    ModelObject,
    ModelOptions,
    load_sources,
    parse_sources,
)
from hil.jobs.run import Run
from hil.lab.selector import parse_selector
from hil.verify.comparison import RunnableModel
from hilc.artifact.library import ModelLibrary, Module, TensorInfo
from hilc.options import CodeKeywords
from hilc.support.suggest import listed
from hilc.target import load_cpu

#: Options of the compiler, which a compiled library has behind it.
OF_MODELS = frozenset(CodeKeywords.__annotations__)
#: Options of the connection to a board here, which a lab decides for its boards.
CONNECTION = ("runner", "port", "probe", "transport")


@dataclass(frozen=True)
class ImageModel:
    """A model of an image."""

    name: str
    inputs: tuple[TensorInfo, ...]
    #: The compiled module; None for a model of another kind.
    module: Module | None = None
    #: The library of the module; None where it is not known.
    library: ModelLibrary | None = None


@dataclass(frozen=True)
class Image:
    """Models that can be opened on their board."""

    #: Name of the board, for reports.
    board: str
    models: tuple[ImageModel, ...]
    #: Opens the image: yields its models by name. What runs already stays open afterwards. Another
    #: route may be given, such as that of another runner.
    opened: Callable[..., AbstractContextManager[Mapping[str, RunnableModel]]]
    #: Description of a board that is not open yet, and the way to it.
    description: Board | None = None
    route: Route | None = None
    #: The options that the models were compiled with; None if they run already.
    compiled_with: ModelOptions | None = None

    @property
    def libraries(self) -> list[ModelLibrary]:
        """The libraries of the models, each once."""
        found: list[ModelLibrary] = []
        for model in self.models:
            if model.library is not None and all(model.library is not one for one in found):
                found.append(model.library)
        return found

    def only(self, refusal: Callable[[Sequence[str]], InputError]) -> ImageModel:
        """Return the only model; raise ``refusal(names)`` if there are several."""
        if len(self.models) != 1:
            raise refusal([model.name for model in self.models])
        return self.models[0]


@contextlib.contextmanager
def opened_image(
    models: Sequence[Any],
    board: str | Path | Board | Device | None,
    options: Mapping[str, Any],
    run: Run,
    *,
    name: str | None = None,
    example: Any = None,
    compared_with: str | None = None,
    check: Callable[[Route], None] = lambda route: None,
) -> Iterator[Image]:
    """Yield the image of a job; a board of a lab is held until the context ends.

    ``options`` are those of :func:`hil.open` and of the compiler. ``example`` are example arguments
    of a PyTorch module. ``check`` may refuse a board before anything is compiled for it.
    """
    if isinstance(board, Device) or any(isinstance(model, RunnableModel) for model in models):
        if len(models) != 1:
            raise InputError(
                "several models are given, one of which runs already", "give them one by one"
            )
        if options or name is not None or example is not None:
            given = next(iter(options), "name" if name is not None else "example")
            raise InputError(
                f"{given} is given for a model that runs already", f"drop {given}, or give a file"
            )
        yield _running(models[0], board)
        return
    if board is None:
        raise InputError(
            "no board is given", "name one, such as board='mps2-an386'; `hil boards` lists them"
        )
    with ExitStack() as stack:
        if (text := _bench_text(board, options)) is not None:
            stated = {run.option(key): options.get(key) for key in ("runner", "port", "probe")}
            refuse_options(text, **stated)
            board = stack.enter_context(held_board(text, options.get("wait_s") or 0.0))
            options = {**options, **reach_of(board)}
        described, lab = _board(board, options, run, stack)
        route = _route(described, lab, options)
        check(route)
        libraries, compiled_with = compiled_models(
            models,
            described,
            options,
            run,
            name=name,
            example=example,
            compared_with=compared_with,
        )
        yield _image(described, route, libraries, compiled_with, options, run)


def is_chosen_of_several(board: str | Path | Board | Device | None) -> bool:
    """Return whether a board option selects by properties, on the bench or in a lab: opened again,
    it gives another board.
    """
    if not isinstance(board, str):
        return False
    if is_of_bench(board):
        return unit_named(board) is None
    return parse_selector(board) is not None


def _bench_text(board: str | Path | Board, options: Mapping[str, Any]) -> str | None:
    """Return the text that selects a board of the bench; None for another one, and for one that is
    reached already.
    """
    if isinstance(board, str) and is_of_bench(board):
        if unit_named(board) is None:
            return board
        board = load_board(board)
    if not isinstance(board, Board) or board.unit is None:
        return None
    reach = reach_of(board)
    is_reached = any(reach.values()) and reach == {key: options.get(key) for key in reach}
    return None if is_reached else board.unit.spec


def _board(
    board: str | Path | Board, options: Mapping[str, Any], run: Run, stack: ExitStack
) -> tuple[Board, Any]:
    """Return the board's description, and the acquired board of a lab if ``board`` selects one."""
    wanted = parse_selector(board) if isinstance(board, str) else None
    lab = options.get("lab")
    if wanted is not None:
        given = next((name for name in CONNECTION if options.get(name) is not None), None)
        if given is not None:
            word = run.option(given)
            raise InputError(f"{word} does not apply to a board of a lab", f"drop {word}")
        # Not at the top: most sessions use no lab.
        from hil.lab.place import ACQUIRE_LIMIT_S, leased

        limit_s = ACQUIRE_LIMIT_S if options.get("wait_s") is None else options["wait_s"]
        lab = stack.enter_context(leased(wanted, limit_s, avoid=run.avoid))
        described = lab.board
        run.leased(str(lab.place), described.name)
    else:
        described = board if isinstance(board, Board) else load_board(board)
    return _with_transport(described, options), lab


def described_board(board: Any, options: Mapping[str, Any]) -> Board:
    """Return the description of a board that nothing is started on."""
    return _with_transport(board if isinstance(board, Board) else load_board(board), options)


def _with_transport(board: Board, options: Mapping[str, Any]) -> Board:
    return board.over_rtt() if options.get("transport") == "rtt" else board


def repeated_by(model: RunnableModel) -> Callable[[Callable[[], Any]], Any]:
    """Return the function that repeats a step on a model after its board was recovered."""
    return model.device.repeated if isinstance(model, Model) else lambda step: step()


def recoveries_of(model: RunnableModel) -> tuple[Attempt, ...]:
    """Return the steps of recovery of a model's board that no result has reported yet."""
    if not isinstance(model, Model) or model.device.recovery is None:
        return ()
    return model.device.recovery.unreported()


def one_model(names: Sequence[str]) -> InputError:
    """Return the error for a library with several models in place of one."""
    return InputError(
        f"the library holds {len(names)} models: {', '.join(names)}",
        f"open it and give one of its models: device[{names[0]!r}]",
    )


def _running(model: Any, board: str | Path | Board | Device | None) -> Image:
    """Return the image of a model that runs already, on a device or elsewhere."""
    if isinstance(board, Device) and not isinstance(model, RunnableModel):
        model = _on_device(model, board)
    if isinstance(model, Model):
        module: Module | None = model.module
        label = model.device.board
        libraries = model.device.libraries
        library = next((known for known in libraries if module in known.modules), None)
    else:
        module, label, library = getattr(model, "module", None), "", None
    if board is not None and not isinstance(board, Device):
        label = board.name if isinstance(board, Board) else str(board)
    return Image(
        label or "this process",
        (ImageModel(model.name, model.inputs, module, library),),
        lambda: contextlib.nullcontext({model.name: model}),
    )


def _on_device(model: Any, device: Device) -> Model:
    """Return the model of a device that a library or a name selects."""
    if isinstance(model, ModelLibrary):
        if len(model.modules) != 1:
            raise one_model([module.name for module in model.modules])
        return device[model.modules[0].name]
    if isinstance(model, str):
        return device[model]
    raise InputError(
        f"{model!r:.60} of type {type(model).__name__} is no model of the open device",
        f"give one of its models: {listed([f'device[{name!r}]' for name in device.models], 'or')}",
    )


def _route(board: Board, lab: Any, options: Mapping[str, Any]) -> Route:
    """Return the way to the board that is found now."""
    connection = Connection(
        options.get("probe"),
        options.get("port"),
        board.is_over_rtt,
        lab=lab,
        bulk=options.get("bulk"),
        appear_s=options.get("wait_s") or 0.0,
    )
    return ready_route(board, options.get("runner"), connection)


def compiled_models(
    models: Sequence[Any],
    board: Board,
    options: Mapping[str, Any],
    run: Run,
    *,
    name: str | None = None,
    example: Any = None,
    compared_with: str | None = None,
) -> tuple[list[ModelLibrary], ModelOptions]:
    """Return models compiled for a board's firmware, and the compiler's options."""
    chosen = _model_options(board, options, run, compared_with)
    sources = _sources(models, name, example)
    with run.compiling() as progress:
        libraries = load_sources(sources, chosen.reporting_to(progress))
    if remark := shared_remark(libraries, chosen.workspace):
        run.warn(remark)
    for library in libraries:
        for module in library.modules:
            if remark := check_suits(library, module, board):
                run.warn(remark)
        for model, report in library.reports.items():
            for remark in (feed_remark(report), scratch_remark(report)):
                if remark:
                    run.warn(f"{model}: {remark}")
    return libraries, chosen


def _image(
    board: Board,
    route: Route,
    libraries: list[ModelLibrary],
    compiled_with: ModelOptions,
    options: Mapping[str, Any],
    run: Run,
) -> Image:
    way = {key: options[key] for key in ("workspace", "run_timeout_s", "recover") if key in options}

    @contextlib.contextmanager
    def opened(other: Route | None = None) -> Iterator[Mapping[str, RunnableModel]]:
        with (
            run.programming(board.name) as progress,
            open_compiled(
                board,
                libraries,
                (other or route).reporting_to(progress, lambda done: run.flashed(board.name, done)),
                **way,
            ) as device,
        ):
            run.opened(board.name, device)
            yield device.models

    found = tuple(
        ImageModel(module.name, module.inputs, module, library)
        for library in libraries
        for module in library.modules
    )
    return Image(board.name, found, opened, board, route, compiled_with)


def _model_options(
    board: Board, options: Mapping[str, Any], run: Run, compared_with: str | None
) -> ModelOptions:
    given = {key: value for key, value in options.items() if key in OF_MODELS and value is not None}
    chosen_cpu = given.pop("cpu", None)
    check_regions(given.get("memory", ()), board, run.option("memory"))
    if "tuning" in given and (remark := tuning_remark(given["tuning"], board)):
        run.warn(remark)
    firmware = {key: options[key] for key in ("include_dirs", "sources") if key in options}
    return ModelOptions(
        load_cpu(chosen_cpu).name if chosen_cpu else board.cpu.name,
        given,
        is_cpu_chosen=chosen_cpu is not None,
        compared_with=compared_with,
        board=None if board.is_host else board,
        workspace=options.get("workspace", "own"),
        **firmware,
    )


def _sources(models: Sequence[Any], name: str | None, example: Any) -> list[ModelInput]:
    """Return models as the compiler's input; those of files are the words of a command line."""
    if models and all(isinstance(model, str | Path) for model in models):
        if example is not None:
            raise InputError("example is given for a file", "drop it: it is for a PyTorch module")
        return list(parse_sources([str(model) for model in models], name))
    return [_source(model, name, example) for model in models]


def _source(model: Any, name: str | None, example: Any) -> ModelInput:
    if isinstance(model, ModelLibrary):
        if name is not None or example is not None:
            raise InputError("a library was compiled already", "drop name and example")
        return model
    if isinstance(model, str | Path):
        return parse_sources([str(model)])[0]
    return ModelObject(model, name, example)
