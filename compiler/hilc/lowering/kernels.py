"""The C kernels under ``runtime/include/hil/kernels``, as their own headers describe them.

A kernel states what the compiler must know of it once, in a TOML block beside its code::

    /*@kernel
    name = "hil_conv2d_s8"     # the function, and its parameter struct's tag
    requires = []              # features of a core (hilc.target.FEATURES); what needs none is
                               # portable
    inputs = ["int8_t"]        # C element type of each tensor argument, "void" where any will do;
                               # ["int8_t[]"] for any number of them
    outputs = ["int8_t"]
    scratch = "k_h * k_w * in_c"   # bytes, from fields of the parameter struct ("0" for none)
    order = ["pixels 2"]
    reads = "window"
    cost = "9.5 * rows * columns + 1.2 * rows * columns * depth"
                               # instructions of a call (hilc.lowering.cost); for the cores that
                               # have what it requires, or for Armv7-M where it requires nothing
    cost_factors = {armv6-m = 2.0}   # by which other architectures differ from that
    code = 420                 # bytes of code, specialised for one layer
    lavish = true              # that its constants take several times the flash of what others
                               # need: only for programs that are to be fast (false if not stated)
    @*/

The function is ``static inline`` and always inlined, with the signature::

    void NAME(const struct NAME *p, const IN0 *in0, ..., OUT0 *out0, ...[, void *scratch])

where arguments of variable number are ``const int8_t *const *in`` or ``int8_t *const *out``, and
``scratch`` is present only when the kernel has some. Everything that is constant (sizes, weights,
multipliers) is a field of the struct, so that a ``static const`` struct specialises the body for
one layer and a pointer to it shares one body between layers.

Tensors are aligned as their element type asks, so int8 tensors may start anywhere; scratch and
constant arrays start at a multiple of 4 bytes at least. Nothing in a kernel may ask for more: cores
without unaligned loads fault.

How far an output may overlap an input follows from two keys that say how the kernel walks them
(:mod:`hilc.lowering.access`). The kernel promises never to read an input byte later than they say,
never to write an output byte earlier, and never to use an output as working memory. Earlier reads
and later writes are always right. ``order`` is one of

``"none"``
    no promise: the output overlaps no input.
``"elementwise"``
    a step for each element of the output, one after the other, which reads the same element of
    every input that has as many; other inputs are read at any time.
``["rows 2", "pixels 3", "channels 4"]``
    loops over the output, from the outermost in, inside a loop over the batch. A turn of the last
    one is a step: all that it reads is read before anything that it writes is written. ``rows R``
    takes so many rows of an image's output at a time, ``pixels P`` so many pixels, row after row
    (or so many rows of a matrix), ``channels C`` so many channels; the last turn takes what is
    left. Counts are expressions over the parameters, as ``scratch`` is.
``"walk"``
    the walk that the kernel's own parameters describe, as ``reads`` names it.

With loops, ``reads`` says which of the input an element of the output needs: ``"window"`` (all
channels under its window, whose parameters are ``filter_h``, ``stride_h`` or ``stride``,
``dilation_h``, ``pad_top`` and the same for ``w`` and ``left``), ``"channel window"`` (its own
channel alone), ``"rows"`` (its row of a matrix of ``rows``). A kernel that takes each element of
the input only in the first step that needs it, and keeps it in its scratch for the others, says
``"window once"`` or ``"channel window once"``. What a kernel has no parameter for is stated as
``window = {filter_h = "3"}``.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hilc.ir import Array, Tensor
from hilc.lowering.access import LOOP_KINDS, READS, WINDOW_FIELDS, Access, Loop, kernel_access
from hilc.support.resources import data_dir
from hilc.support.toml import tomllib

_BLOCK = re.compile(r"/\*@kernel\n(.*?)@\*/", re.DOTALL)
_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_LOOP = re.compile(rf"({'|'.join(LOOP_KINDS)}) (.+)")

#: Value of a field of a parameter struct: a number, a constant array in flash, or a short array of
#: numbers inside the struct.
FieldValue = int | float | Array | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Kernel:
    """A kernel as its header describes it; see the module's text for the fields."""

    name: str
    #: Path below ``runtime/include``, as the generated code includes it.
    header: str
    requires: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch: str
    #: A word, or loops from the outermost in, each its kind and how much a turn takes.
    order: str | tuple[tuple[str, str], ...] = "none"
    reads: str = ""
    window: Mapping[str, str] = field(default_factory=dict, hash=False)
    #: Instructions of a call as a formula (:mod:`hilc.lowering.cost`), and factors for
    #: architectures.
    cost: str | None = None
    cost_factors: Mapping[str, float] = field(default_factory=dict, hash=False)
    #: Bytes of code for one layer.
    code: int | None = None
    #: Whether it is only for programs to which speed is worth several times the flash.
    lavish: bool = False

    def __post_init__(self) -> None:
        known = READS.get(self.order if isinstance(self.order, str) else "loops", ())
        if self.reads not in known:
            raise ValueError(
                f"kernel {self.name}: order {self.order!r} with reads {self.reads!r}, "
                f"not one of {known}"
            )
        if unknown := self.window.keys() - WINDOW_FIELDS.keys():
            raise ValueError(f"kernel {self.name}: a window has no {sorted(unknown)}")

    def scratch_bytes(self, fields: Mapping[str, FieldValue]) -> int:
        """The scratch for one layer: the kernel's formula over the layer's parameters."""
        return _value(self.scratch, fields)

    def access(
        self,
        fields: Mapping[str, FieldValue],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
    ) -> Access | None:
        """How it accesses these tensors; None where it promises nothing."""
        order = (
            self.order
            if isinstance(self.order, str)
            else [Loop(kind, _value(count, fields)) for kind, count in self.order]
        )
        stated = {name: _value(text, fields) for name, text in self.window.items()}
        types = self.inputs, self.outputs
        return kernel_access(order, self.reads, {**fields, **stated}, types, inputs, outputs)


@dataclass(frozen=True)
class KernelCall:
    """A kernel with the parameters of one layer.

    ``inputs`` are the positions of the node's inputs that the kernel takes as tensor arguments, in
    the kernel's order; all outputs are passed in the node's order. ``macs`` counts the nominal
    multiply-accumulates of the layer.
    """

    kernel: Kernel
    fields: Mapping[str, FieldValue]
    inputs: tuple[int, ...] = (0,)
    macs: int = 0

    @cached_property
    def scratch_bytes(self) -> int:
        return self.kernel.scratch_bytes(self.fields)

    def access(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Access | None:
        """See :class:`hilc.lowering.access.AccessedCall`."""
        return self.kernel.access(self.fields, inputs, outputs)


def _value(expression: str, fields: Mapping[str, FieldValue]) -> int:
    return _evaluate(_parsed(expression), fields)


@functools.cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _evaluate(node: ast.expr, fields: Mapping[str, Any]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return int(fields[name])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return int(_ARITHMETIC[type(op)](_evaluate(left, fields), _evaluate(right, fields)))
    raise ValueError(f"not simple arithmetic: {ast.unparse(node)}")


@functools.cache
def kernels() -> Mapping[str, Kernel]:
    """Every kernel of the run time, by name."""
    include = data_dir("runtime") / "include"
    found: dict[str, Kernel] = {}
    for path in sorted((include / "hil" / "kernels").rglob("*.h")):
        for block in _BLOCK.findall(path.read_text(encoding="utf-8")):
            entry = tomllib.loads(block)
            kernel = Kernel(
                name=entry["name"],
                header=path.relative_to(include).as_posix(),
                requires=frozenset(entry["requires"]),
                inputs=tuple(entry["inputs"]),
                outputs=tuple(entry["outputs"]),
                scratch=entry["scratch"],
                order=_order(entry["name"], entry["order"]),
                reads=entry.get("reads", ""),
                window=entry.get("window", {}),
                cost=entry.get("cost"),
                cost_factors=entry.get("cost_factors", {}),
                code=entry.get("code"),
                lavish=entry.get("lavish", False),
            )
            if kernel.name in found:
                raise ValueError(f"kernel {kernel.name} is described twice")
            found[kernel.name] = kernel
    return found


def _order(kernel: str, stated: str | list[str]) -> str | tuple[tuple[str, str], ...]:
    """``order`` as a header states it."""
    if isinstance(stated, str):
        return stated
    loops = [_LOOP.fullmatch(loop) for loop in stated]
    if not loops or not all(loops):
        raise ValueError(f"kernel {kernel}: no order is {stated}")
    return tuple((loop[1], loop[2]) for loop in loops if loop is not None)
