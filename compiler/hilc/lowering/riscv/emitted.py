"""Kernels whose C is emitted for a layer: their description, and the header with their text.

An emitted kernel is one like any other to the rest of the compiler: it has a name, an order of
access, a cost. Its header is not a file: :func:`emitted` makes the text and keeps it, so that
a library that calls the kernel holds it (:func:`hilc.lowering.kernels.registered_header`). Layers
for which the same text is emitted have the same kernel.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar, cast

from hilc.lowering.cost import Cost
from hilc.lowering.kernels import Kernel, Parameters, keep_emitted

#: The core whose counts the costs are; other RISC-V cores take the same instructions.
_CORE = "rv32imac"
_FOLDER = "hil/kernels"
_WIDTH = 100
#: The parts of a kernel's head, in their order.
HEAD = (
    "Tile",
    "Registers",
    "Data",
    "Order",
    "Bounds",
    "Output",
    "Scratch",
    "Cost",
    "Tests",
)


class EmittedParameters(Parameters):
    """Parameters of an emitted kernel: a subclass for each kernel that was emitted."""

    EMITTED: ClassVar[Kernel]

    @classmethod
    def kernel(cls) -> Kernel:
        """Return the emitted kernel whose parameters these are."""
        return cls.EMITTED


@dataclass(frozen=True)
class Description:
    """What a kernel states beside its code; see :mod:`hilc.lowering.kernels`."""

    family: str
    #: Operator and element types: ``conv2d_s8``.
    operator: str
    #: Distinguishes variants: ``6_rows``; empty if there is one.
    form: str
    requires: frozenset[str]
    scratch: str
    order: str | tuple[tuple[str, str], ...]
    reads: str
    #: Bytes of the emitted functions, which layers of one kernel share, and of the code around
    #: them.
    functions: int
    glue: int
    #: Instructions of each term, counted by the emitter, and the terms' formulas.
    figures: Mapping[str, float]
    counts: Mapping[str, str]
    window: Mapping[str, str]
    #: Texts of the head, one a part.
    head: Mapping[str, str]
    #: Tensors that it reads.
    inputs: int = 1
    #: Tensors that it writes.
    outputs: int = 1
    #: C type of the elements of its tensors.
    dtype: str = "int8_t"


_P = TypeVar("_P", bound=EmittedParameters)
_CLASSES: dict[tuple[type[EmittedParameters], str], type[EmittedParameters]] = {}

#: Stands for the kernel's name in texts, which depends on them.
NAME = "@NAME@"


def emitted(
    parameters: type[_P], description: Description, struct: str, includes: Sequence[str], code: str
) -> type[_P]:
    """Return the class of parameters of the kernel with this code.

    ``struct`` are the declarations of the parameter struct's fields. ``code`` ends with the
    function that the layers call; it and ``struct`` name the kernel :data:`NAME`.
    """
    body = f"struct {NAME} {{\n{struct}}};\n\n{code}"
    digest = hashlib.sha256("\n".join([*includes, body]).encode()).hexdigest()[:8]
    words = [description.family, description.operator, description.form, digest]
    name = "_".join(["hil", *filter(None, words)])
    key = parameters, name
    if key not in _CLASSES:
        header = f"{_FOLDER}/{description.family}/{name}.h"
        guard = f"{name}_H".upper()
        lines = "".join(f'#include "{path}"\n' for path in includes)
        keep_emitted(
            header,
            f"{_head(description.head)}#ifndef {guard}\n#define {guard}\n\n{lines}\n"
            f"{body.replace(NAME, name)}\n#endif\n",
        )
        kernel = Kernel(
            name=name,
            header=header,
            requires=description.requires,
            inputs=(description.dtype,) * description.inputs,
            outputs=(description.dtype,) * description.outputs,
            scratch=description.scratch,
            cost=Cost({_CORE: _positive(description.figures)}, description.counts),
            order=description.order,
            reads=description.reads,
            window=description.window,
            code=description.functions + description.glue,
            shared={name: description.functions},
            # The glue alone is there again for bands.
            band_code=description.functions + description.glue,
            identity=_identity(description),
        )
        namespace = {"EMITTED": kernel, "KERNEL": name, "__module__": parameters.__module__}
        _CLASSES[key] = type(parameters.__name__, (parameters,), namespace)
    return cast("type[_P]", _CLASSES[key])


def _positive(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: figure for name, figure in figures.items() if figure > 0}


def _identity(description: Description) -> str:
    operator, _, dtype = description.operator.rpartition("_")
    return ".".join(filter(None, [description.family, operator, dtype, description.form]))


def _head(parts: Mapping[str, str]) -> str:
    assert tuple(parts) == HEAD, tuple(parts)
    lines = []
    for name, text in parts.items():
        begun = f"{name}: {text}"
        lines += [*textwrap.wrap(begun, _WIDTH - 4), ""]
    inner = "\n".join(f" * {line}".rstrip() for line in lines[:-1])
    return f"/*{inner[2:]}\n */\n"
