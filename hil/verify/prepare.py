"""A model and its board, from whatever the caller has, ready to be opened.

The model is a file, a library, an object that :func:`hil.compile` takes, or one that runs already
(:class:`hil.device.Model`, :mod:`hilc.host`); the board is named, described, of a lab, or an open
device. It is compiled as the command line compiles it, before anything is started.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hil.access import Connection
from hil.access.bench_boards import held_board, reach_of, refuse_options
from hil.board import Board, load_board
from hil.board.bench import is_of_bench
from hil.device import Device, Model
from hil.device.session import DeviceKeywords, check_connection, runner_label
from hil.device.session import open as open_device
from hil.errors import Attempt, InputError
from hil.firmware.project import check_suits
from hil.firmware.sources import (
    FirmwareKeywords,
    ModelObject,
    ModelOptions,
    load_sources,
    parse_sources,
)
from hil.lab.selector import parse_selector
from hil.verify.comparison import RunnableModel
from hilc.artifact.library import ModelLibrary, Module, TensorInfo
from hilc.options import RENAMED, CodeKeywords
from hilc.support.option import check_keywords
from hilc.support.suggest import listed
from hilc.target import load_cpu

#: Options of :func:`hil.open`, of the compiler, and of the models' firmware.
_OPEN = tuple(DeviceKeywords.__annotations__.keys() - FirmwareKeywords.__annotations__.keys())
_COMPILE = tuple(CodeKeywords.__annotations__)


@dataclass(frozen=True)
class Prepared:
    """A model that can be opened on its board."""

    name: str
    inputs: tuple[TensorInfo, ...]
    #: Name of the board, for reports.
    board: str
    #: Opens the model; one that runs already stays open afterwards.
    opened: Callable[[], AbstractContextManager[RunnableModel]]
    #: The compiled module of the model; None for a model of another kind.
    module: Module | None = None
    library: ModelLibrary | None = None
    #: Description of a board that is not open yet.
    description: Board | None = None
    #: The runner of the board, and the chosen options of the compiler.
    runner: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@contextlib.contextmanager
def prepared(
    model: Any,
    board: str | Path | Board | Device | None,
    options: Mapping[str, Any],
    *,
    name: str | None = None,
    example: Any = None,
    compared_with: str | None = None,
    check: Callable[[Board], None] = lambda board: None,
) -> Iterator[Prepared]:
    """Yield a model that can be opened; a board of a lab is held until the context ends.

    ``options`` are those of :func:`hil.open` and of the compiler. ``example`` are example arguments
    of a PyTorch module. ``check`` may refuse a board before anything is compiled for it.
    """
    if isinstance(model, RunnableModel) or isinstance(board, Device):
        if options or name is not None or example is not None:
            given = next(iter(options), "name" if name is not None else "example")
            raise InputError(
                f"{given} is given for a model that runs already", f"drop {given}, or give a file"
            )
        yield _running(model, board)
        return
    if board is None or isinstance(board, Device):
        raise InputError(
            "no board is given", "name one, such as board='mps2-an386'; `hil boards` lists them"
        )
    with ExitStack() as stack:
        chosen = dict(options)
        wanted = parse_selector(board) if isinstance(board, str) else None
        if wanted is not None:
            # Not at the top: most sessions use no lab.
            from hil.lab import leased

            leased_board = stack.enter_context(leased(wanted))
            chosen["lab"], described = leased_board, leased_board.board
        elif isinstance(board, str) and is_of_bench(board):
            refuse_options(board, **{key: chosen.get(key) for key in ("probe", "port", "runner")})
            described = stack.enter_context(held_board(board, chosen.get("wait_s") or 0.0))
            chosen.update(reach_of(described))
        else:
            described = board if isinstance(board, Board) else load_board(board)
        if chosen.get("transport") == "rtt":
            described = described.over_rtt()
        check(described)
        yield _compiled(model, described, chosen, name, example, compared_with)


def repeated_by(model: RunnableModel) -> Callable[[Callable[[], Any]], Any]:
    """Return the function that repeats a job on a model after its board was recovered."""
    return model.device.repeated if isinstance(model, Model) else lambda job: job()


def recoveries_of(model: RunnableModel) -> tuple[Attempt, ...]:
    """Return the steps of recovery of a model's board that no result has reported yet."""
    if not isinstance(model, Model) or model.device.recovery is None:
        return ()
    return model.device.recovery.unreported()


def only_module(library: ModelLibrary) -> Module:
    """Return the module of a library that has one."""
    if len(library.modules) == 1:
        return library.modules[0]
    names = [module.name for module in library.modules]
    raise InputError(
        f"the library holds {len(names)} models: {', '.join(names)}",
        f"open it and give one of its models: device[{names[0]!r}]",
    )


def _running(model: Any, board: str | Path | Board | Device | None) -> Prepared:
    """Return a model that runs already, on a device or elsewhere."""
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
    return Prepared(
        model.name,
        model.inputs,
        label or "this process",
        lambda: contextlib.nullcontext(model),
        module,
        library,
    )


def _on_device(model: Any, device: Device) -> Model:
    """Return the model of a device that a library or a name selects."""
    if isinstance(model, ModelLibrary):
        return device[only_module(model).name]
    if isinstance(model, str):
        return device[model]
    raise InputError(
        f"{model!r:.60} of type {type(model).__name__} is no model of the open device",
        f"give one of its models: {listed([f'device[{name!r}]' for name in device.models], 'or')}",
    )


def _compiled(
    model: Any,
    board: Board,
    options: Mapping[str, Any],
    name: str | None,
    example: Any,
    compared_with: str | None,
) -> Prepared:
    """Compile the model for the board's firmware, as the command line does."""
    way = {key: value for key, value in options.items() if key in (*_OPEN, "workspace")}
    connection = Connection(
        way.get("probe"),
        way.get("port"),
        board.is_over_rtt,
        lab=way.get("lab"),
        bulk=way.get("bulk"),
        appear_s=way.get("wait_s") or 0.0,
    )
    check_connection(board, way.get("runner"), connection)
    given = {key: value for key, value in options.items() if key in _COMPILE and value is not None}
    chosen_cpu = given.pop("cpu", None)
    firmware = {key: options[key] for key in ("include_dirs", "sources") if key in options}
    model_options = ModelOptions(
        load_cpu(chosen_cpu).name if chosen_cpu else board.cpu.name,
        given,
        is_cpu_chosen=chosen_cpu is not None,
        compared_with=compared_with,
        board=None if board.is_host else board,
        workspace=options.get("workspace", "own"),
        **firmware,
    )
    (library,) = load_sources([_source(model, name, example)], model_options)
    module = only_module(library)
    check_suits(library, module, board)

    @contextlib.contextmanager
    def opened() -> Iterator[RunnableModel]:
        with open_device(board, library, **way) as device:
            yield device[module.name]

    runner = runner_label(board, way.get("runner"), connection, way.get("lab"))
    chosen = model_options.chosen
    known = (module, library, board, runner, chosen)
    return Prepared(module.name, module.inputs, board.name, opened, *known)


def _source(model: Any, name: str | None, example: Any) -> Any:
    if isinstance(model, ModelLibrary):
        if name is not None or example is not None:
            raise InputError("a library was compiled already", "drop name and example")
        return model
    if isinstance(model, str | Path):
        if example is not None:
            raise InputError("example is given for a file", "drop it: it is for a PyTorch module")
        return parse_sources([str(model)], name)[0]
    return ModelObject(model, name, example)


def check_options(function: Callable[..., Any], options: Iterable[str]) -> None:
    """Raise InputError for the first option that ``function``, of :func:`hil.verify`'s kind, does
    not take.
    """
    own = [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is not each.VAR_KEYWORD
    ]
    known = [*own, *DeviceKeywords.__annotations__]
    check_keywords(f"hil.{function.__name__}", options, known, RENAMED)
