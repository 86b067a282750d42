"""Options of the compiler, as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, overload

from hilc.codegen.options import Options
from hilc.errors import InputError
from hilc.support.option import check_keywords, option

# `hil COMMAND --help` reads the options from here, so nothing that takes long is imported.
if TYPE_CHECKING:
    from hilc.external import ExternalCodegen
    from hilc.ir import Array, Numerics
    from hilc.lowering.choice import KernelSelection
    from hilc.memory.pools import Pin, PoolSpec
    from hilc.schedule.tuning import Tuning

#: A file, its bytes, a graph, or an object of PyTorch's or ONNX's (:mod:`hilc.frontends.objects`).
Model = Any

_Keywords = ParamSpec("_Keywords")
_Result = TypeVar("_Result", covariant=True)
_Class = TypeVar("_Class", bound=type)

#: Keywords of release 0.1, with their names now.
RENAMED = {"external": "externals"}


def _checks_keywords(kind: _Class) -> _Class:
    """Let a dataclass refuse an unknown keyword with the nearest one, or the new name."""
    make = kind.__init__  # type: ignore[misc]
    names = list(inspect.signature(make).parameters)[1:]

    @functools.wraps(make)
    def checked(self: Any, **keywords: Any) -> None:
        check_keywords(kind.__name__, keywords, names, RENAMED)
        make(self, **keywords)

    kind.__init__ = checked  # type: ignore[misc]
    return kind


@_checks_keywords
@dataclass(frozen=True, kw_only=True)
class CompileOptions(Options):
    """Options of a compilation: everything except the model that decides the result.

    Each field states its help, its choices and its form on a command line once
    (:func:`hilc.support.option.option`); all other lists of options are derived from the fields.
    The options that are not listed as attributes here shape the code: see
    :class:`hilc.codegen.Options`. Raise :class:`~hilc.errors.InputError` for values that are not
    available or contradict each other.
    """

    cpu: str = option("host", help="core: its name, or the path of a description (hilc.target)")
    name: str | None = option(
        None,
        form="word",
        metavar="N",
        of_model=True,
        help="the model's name in the C code (default: the file's)",
    )
    reference: str | None = option(
        None,
        choices=("tflm", "litert-ref", "onnx"),
        form="word",
        help="compute operators as this reference does where references differ (default: tflm, or "
        "as the nodes of a graph say)",
    )
    ram: int | None = option(
        None,
        form="bytes",
        metavar="LIMIT",
        help="the fastest program whose workspace fits in this: bytes, 32K or 1.5M; in firmware of "
        "hil (build, run, ...) inputs and outputs are in the workspace, in libraries (compile, "
        "export) beside it",
    )
    flash: int | None = option(
        None,
        form="bytes",
        metavar="LIMIT",
        help="the fastest program whose constants and code fit in this; measured when firmware is "
        "built, estimated otherwise",
    )
    tuning: Tuning | str | Path | None = option(
        None,
        form="word",
        metavar="F.json",
        help="take the kernels' costs from this log of `hil tune`",
    )
    signature: str | None = option(
        None,
        form="word",
        metavar="NAME",
        of_model=True,
        help="the signature of a TFLite file that is compiled, with its names of inputs and "
        "outputs; needed where the file has several",
    )
    shapes: Mapping[str, Sequence[int]] = option(
        default_factory=dict,
        form="repeated",
        flag="shape",
        metavar="NAME=N,N,...",
        of_model=True,
        help="the shape of an input that the model's file leaves open: x=1,3,224,224",
    )
    inputs: Mapping[str, Array] = option(
        default_factory=dict,
        form="repeated",
        flag="constant",
        metavar="NAME=F.npy",
        of_model=True,
        help="the values of an ONNX model's input that the compiler must know, such as axes; they "
        "become a constant",
    )
    loop_bounds: Mapping[str, int] = option(
        default_factory=dict,
        form="repeated",
        flag="loop-bound",
        metavar="NAME=N",
        of_model=True,
        help="the most turns of an ONNX model's loop, named by one of its outputs, whose number of "
        "turns is known only at run time; more turns make a run fail",
    )
    fold_constant_channels: bool = option(
        True,
        form="yes_no",
        help="remove channels that are the same for every input; the outputs stay the same",
    )
    allow_float: bool = option(
        False,
        form="switch",
        of_model=True,
        help="compute layers of a quantized model that lack an integer implementation in float32, "
        "and list them; without this option such a model is refused",
    )
    io: str = option(
        "keep",
        choices=("keep", "float", "int8", "uint8", "int16"),
        form="word",
        of_model=True,
        help="type of quantized inputs and outputs: as the model's file says (keep, the default), "
        "float, or the integers to which the model itself converts its float inputs",
    )
    dynamic: str | None = option(
        None,
        choices=("integer", "float"),
        form="word",
        of_model=True,
        help="how layers compute whose activations are quantized at run time (ONNX's dynamic "
        "quantization, TFLite's dynamic range): integer, as their runtimes do, or float (default: "
        "integer for ONNX, whose results are the same by both, float for TFLite)",
    )
    memory: Sequence[PoolSpec] = option(
        (),
        form="word",
        metavar="REGION[:BYTES],...",
        help="RAM regions for the pools, the preferred one first, with optional limits (default: "
        "one pool of any size)",
    )
    keep_inputs: bool = option(
        False,
        form="switch",
        help="with inputs in the workspace: a run does not overwrite them",
    )
    pins: Mapping[str, Pin] = option(
        default_factory=dict,
        form="repeated",
        flag="pin",
        metavar="TENSOR=[REGION:]OFFSET",
        help="place an input or output at this offset in the workspace",
    )
    externals: Sequence[ExternalCodegen | str] = option(
        (),
        form="repeated",
        flag="external",
        metavar="FILE.py[:FACTORY][,KEY=VALUE]...",
        help="hand parts of the model to this code generator; earlier ones have priority",
    )
    choice: KernelSelection | None = option(
        None, help="kernels and fused groups of the program; None: the compiler searches"
    )
    samples: Any = option(
        None,
        compare=False,
        help="example arguments of a PyTorch module, one or a tuple, which give the shapes of its "
        "inputs",
    )
    progress: Callable[[], None] | None = option(
        None,
        compare=False,
        help="called for every program that is tried: a search takes seconds",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feed == "rows" and (self.keep_inputs or self.pins):
            raise InputError(
                "an input that is fed by rows lies nowhere as a whole, so keep_inputs and pins "
                "have no meaning",
                "leave them out, or give the input as a whole: feed=whole",
            )
        from hilc.target import load_cpu

        load_cpu(self.cpu)  # an unknown core is an error now, not at the first compilation
        # Copy, so that later changes by the caller have no effect.
        object.__setattr__(self, "pins", MappingProxyType(dict(self.pins)))
        object.__setattr__(self, "shapes", MappingProxyType(dict(self.shapes)))
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))
        object.__setattr__(self, "loop_bounds", MappingProxyType(dict(self.loop_bounds)))
        object.__setattr__(self, "memory", tuple(self.memory))
        object.__setattr__(self, "externals", tuple(map(_generator, self.externals)))

    def _names(self) -> Mapping[str, Any]:
        from hilc.external import ExternalCodegen
        from hilc.ir import Array
        from hilc.lowering.choice import KernelSelection
        from hilc.memory.pools import Pin, PoolSpec
        from hilc.schedule.tuning import Tuning

        own = (ExternalCodegen, KernelSelection, Pin, PoolSpec, Tuning)
        return {"Array": Array, **{kind.__name__: kind for kind in own}}

    @property
    def numerics(self) -> Numerics | None:
        """The definition that `reference` names; None where none is named."""
        from hilc.ir import Numerics

        return None if self.reference is None else Numerics(self.reference)

    @property
    def generators(self) -> tuple[ExternalCodegen, ...]:
        """The code generators of `externals`."""
        return tuple(one for one in self.externals if not isinstance(one, str))


def _generator(given: ExternalCodegen | str) -> ExternalCodegen:
    """Return a code generator; a text names its file (:func:`hilc.external.load_generator`)."""
    if not isinstance(given, str):
        return given
    from hilc.external import load_generator

    return load_generator(given)


class CodeKeywords(TypedDict, total=False):
    """Options as keywords, for type checkers: those that a user of a board may choose.

    ``name`` and ``reference`` are parameters of their own there. A test compares the keywords here
    with the fields of :class:`CompileOptions`, whose meanings they have.
    """

    optimize: str
    codegen: str
    api: str
    interface: str
    style: str
    runtime: str
    pools: str
    constants: str
    feed: str
    cpu: str
    ram: int | None
    flash: int | None
    tuning: Tuning | str | Path | None
    signature: str | None
    shapes: Mapping[str, Sequence[int]]
    inputs: Mapping[str, Array]
    loop_bounds: Mapping[str, int]
    fold_constant_channels: bool
    allow_float: bool
    io: str
    dynamic: str | None
    memory: Sequence[PoolSpec]
    keep_inputs: bool
    pins: Mapping[str, Pin]
    externals: Sequence[ExternalCodegen | str]


class CompileKeywords(CodeKeywords, total=False):
    """All options as keywords, for type checkers, except for ``samples``."""

    name: str | None
    reference: str | None
    io_in_pool: bool
    system_lib: bool | None
    choice: KernelSelection | None
    progress: Callable[[], None] | None


class TakesOptions(Protocol[_Keywords, _Result]):
    """Function of a model and its options, given as one value or as keywords."""

    @overload
    def __call__(self, model: Model, *, options: CompileOptions) -> _Result: ...
    @overload
    def __call__(
        self, model: Model, *args: _Keywords.args, **keywords: _Keywords.kwargs
    ) -> _Result: ...


def takes_options(
    make: Callable[_Keywords, CompileOptions],
) -> Callable[[Callable[[Model, CompileOptions], _Result]], TakesOptions[_Keywords, _Result]]:
    """Let a function of a model and :class:`CompileOptions` take keywords in place of the value.

    ``make`` is :class:`CompileOptions`, whose fields are the keywords: they are stated there only,
    for a type checker and for ``help`` too.

    Raise :class:`~hilc.errors.InputError`, when it is called, for a value together with keywords,
    and for more than the model without a keyword.
    """

    names = list(inspect.signature(make).parameters)

    def decorated(
        function: Callable[[Model, CompileOptions], _Result],
    ) -> TakesOptions[_Keywords, _Result]:
        @functools.wraps(function)
        def called(
            model: Model, *others: Any, options: CompileOptions | None = None, **keywords: Any
        ) -> _Result:
            if others:
                kind = "options" if isinstance(others[0], CompileOptions) else "samples"
                raise InputError(
                    f"{function.__name__} takes one argument without a keyword, the model, and got "
                    f"{1 + len(others)}: the second is of type {type(others[0]).__name__}",
                    f"give it by its name, such as {kind}=...: `samples` are example arguments of "
                    "a PyTorch module, `options` is one CompileOptions",
                )
            if options is None:
                check_keywords(function.__name__, keywords, names, RENAMED)
                return function(model, CompileOptions(**keywords))
            if keywords:
                raise InputError(
                    f"{function.__name__} got options and {min(keywords)!r}",
                    "give one value, dataclasses.replace(options, ...), or keywords alone",
                )
            from hilc.support.arguments import check

            check("options", options, CompileOptions)
            return function(model, options)

        own = inspect.signature(function)
        model, value = own.parameters.values()
        fields = inspect.signature(make).parameters.values()
        called.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[
                model,
                value.replace(
                    kind=value.KEYWORD_ONLY, annotation="CompileOptions | None", default=None
                ),
                *(field.replace(kind=field.KEYWORD_ONLY) for field in fields),
            ]
        )
        return called  # type: ignore[return-value]

    return decorated
