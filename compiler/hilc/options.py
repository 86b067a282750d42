"""Options of the compiler, as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from hilc.codegen import Options
from hilc.errors import InputError
from hilc.external import ExternalCodegen
from hilc.ir import Array, Numerics
from hilc.lowering.choice import Choice
from hilc.memory.program import Pin, PoolSpec
from hilc.schedule.tuning import Tuning
from hilc.support.arguments import check

#: A file, its bytes, a graph, or an object of PyTorch's or ONNX's (:mod:`hilc.frontends.objects`).
Model = Any

_DEFINITIONS = tuple(numerics.value for numerics in Numerics)

_Keywords = ParamSpec("_Keywords")
_Result = TypeVar("_Result", covariant=True)


@dataclass(frozen=True, kw_only=True)
class CompileOptions(Options):
    """How a model is compiled: everything beside the model that decides what comes of it.

    The options that are not listed as attributes here shape the code: see
    :class:`hilc.codegen.Options`. :class:`~hilc.errors.InputError` for values that are not
    available or do not go together.
    """

    #: Core: its name, or the path of a description (:mod:`hilc.target`).
    cpu: str = "host"
    #: Name of the module; None: that of the file.
    name: str | None = None
    #: With `io_in_pool`: preserve the inputs during a run.
    keep_inputs: bool = False
    #: With `io_in_pool`: required offsets of inputs and outputs, by name.
    pins: Mapping[str, Pin] = field(default_factory=dict)
    #: Pools available to the model, the preferred first; by default one of unlimited size.
    memory: Sequence[PoolSpec] = ()
    #: User's code generators that may claim parts of the model; earlier ones have priority.
    externals: Sequence[ExternalCodegen] = ()
    #: Kernels and fused groups of the program; None: the compiler searches.
    choice: Choice | None = None
    #: Limit of the workspace in bytes; the fastest program within the limits is selected.
    ram: int | None = None
    #: Limit of the model's code and constants in bytes, by estimate; layers share code as far as it
    #: requires.
    flash: int | None = None
    #: Log that `hil tune` wrote, or its file: its measured kernel costs replace estimates.
    tuning: Tuning | str | Path | None = None
    #: Leave out channels of layers that provably are constant; the outputs are not changed by it.
    fold_constant_channels: bool = True
    #: Compute layers of a quantized model in floats where they have no form on integers; without,
    #: such a model is refused.
    allow_float: bool = False
    #: Whose definition of its operators the code computes, `tflm` or `litert-ref`
    #: (:mod:`hilc.references`), where they disagree; None: `tflm`, or as the nodes of a graph say.
    reference: str | None = None
    #: Shapes of inputs that the model's file leaves open, by name: ``{"x": (1, 3, 224, 224)}``.
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Values of inputs that become constants of the model, by name: the axes and shapes that ONNX
    #: lets a model take as inputs, and the compiler must know.
    inputs: Mapping[str, Array] = field(default_factory=dict)
    #: Example arguments of a PyTorch module, one or a tuple, which give the shapes of its inputs.
    samples: Any = field(default=None, compare=False)
    #: Called for every program that is tried: a search takes seconds.
    progress: Callable[[], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feed == "rows" and (self.keep_inputs or self.pins):
            raise InputError(
                "an input that is fed by rows lies nowhere as a whole, so keep_inputs and pins "
                "have no meaning",
                "leave them out, or give the input as a whole: feed=whole",
            )
        if self.reference not in (None, *_DEFINITIONS):
            raise InputError(
                f"no code is compiled by the definition of {self.reference!r}",
                f"choose one of {', '.join(_DEFINITIONS)}",
            )
        # Copy, so that later changes by the caller have no effect.
        object.__setattr__(self, "pins", MappingProxyType(dict(self.pins)))
        object.__setattr__(self, "shapes", MappingProxyType(dict(self.shapes)))
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))
        object.__setattr__(self, "memory", tuple(self.memory))
        object.__setattr__(self, "externals", tuple(self.externals))

    @property
    def numerics(self) -> Numerics | None:
        """The definition that `reference` names."""
        return None if self.reference is None else Numerics(self.reference)


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
    """

    def decorated(
        function: Callable[[Model, CompileOptions], _Result],
    ) -> TakesOptions[_Keywords, _Result]:
        @functools.wraps(function)
        def called(
            model: Model, *, options: CompileOptions | None = None, **keywords: Any
        ) -> _Result:
            if options is None:
                return function(model, CompileOptions(**keywords))
            if keywords:
                raise TypeError(
                    f"{function.__name__}() got options and {min(keywords)!r}: pass one value, "
                    "dataclasses.replace(options, ...), or keywords alone"
                )
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
