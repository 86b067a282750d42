"""The C kernels under ``runtime/include/hil/kernels``, as their own headers describe them.

Kernels from elsewhere are described in the same way: :func:`register_kernels` reads the headers of
a folder.

A kernel states what the compiler must know of it once, in a TOML block beside its code::

    /*@kernel
    name = "hil_generic_conv2d_s8"     # the function, and its parameter struct's tag
    requires = []              # features of a core (hilc.target.FEATURES); what needs none is
                               # portable
    inputs = ["int8_t"]        # C element type of each tensor argument, "void" where any will do;
                               # ["int8_t[]"] for any number of them
    outputs = ["int8_t"]
    scratch = "k_h * k_w * in_c"   # bytes, from fields of the parameter struct ("0" for none)
    order = ["pixels 2"]
    reads = "window"
    code = 420                 # bytes of code, specialised for one layer
    shared = {hil_rows = 300}  # functions among these bytes that all layers call, also those of
                               # other kernels, and their bytes (none if not stated)
    band_code = 500            # the same for bands of several heights, in a layer that is computed
                               # a few rows at a time (if not stated, SearchPolicy.band_code)
    fails = true               # that it returns a status: not 0 where it refuses what inputs hold
                               # (false if not stated)
    variable = ["out_zero_point"]  # numbers that take no more time as variables than as constants:
                               # layers that differ in these alone may share a body (none if not
                               # stated)
    [cost]                     # what takes time, and how often it is done (hilc.lowering.cost);
    output = "rows * columns"  # the instructions of each are in a table for each core
    mac = "output * depth"     # (hilc.lowering.cost_tables)
    @*/

The function is ``static inline`` and always inlined, with the signature::

    void NAME(const struct NAME *p, const IN0 *in0, ..., OUT0 *out0, ...[, void *scratch])

where arguments of variable number are ``const int8_t *const *in`` or ``int8_t *const *out``, and
``scratch`` is present only when the kernel has some. A kernel that ``fails`` returns ``int32_t``
and has no scratch. Everything that is constant (sizes, weights,
multipliers) is a field of the struct, so that a ``static const`` struct specialises the body for
one layer and a pointer to it shares one body between layers. In Python the struct is a dataclass
(:mod:`hilc.lowering.parameters`, made from the headers by :mod:`hilc.lowering.structs`).

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
    takes so many rows of an image's output at a time, ``columns W`` so many columns, ``pixels P``
    so many pixels, row after row (or so many rows of a matrix), ``channels C`` so many channels;
    the last turn takes what is
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
import copy
import functools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from hilc.errors import InputError
from hilc.ir import Array, Tensor
from hilc.lowering.access import LOOP_KINDS, READS, WINDOW_FIELDS, Access, Loop, kernel_access
from hilc.lowering.cost import CALL, Cost
from hilc.lowering.cost_tables import TableRow, read_costs, shipped_costs
from hilc.lowering.fields import FieldValue
from hilc.lowering.records import Record
from hilc.lowering.structs import Structs, read_structs
from hilc.support.resources import data_dir
from hilc.support.toml import tomllib
from hilc.target import Cpu

_BLOCK = re.compile(r"/\*@kernel\n(.*?)@\*/", re.DOTALL)
_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
#: The code of a kernel whose header does not say it.
_CODE_BYTES = 600
#: Keys of a kernel's description.
_KEYS = frozenset(
    [
        "name",
        "requires",
        "inputs",
        "outputs",
        "scratch",
        "order",
        "reads",
        "window",
        "cost",
        "code",
        "band_code",
        "shared",
        "fails",
        "variable",
    ]
)
#: Keys that excluded kernels from goals before version 0.2.
_FORMER_KEYS = frozenset({"flash_heavy", "speed_only", "unfolds"})
_LOOP = re.compile(rf"({'|'.join(LOOP_KINDS)}) (.+)")
#: An element type in the name of a kernel.
_TYPE = re.compile(r"[fsu]\d+")

#: Rows of tables of costs, by kernel and by core.
Costs = Mapping[str, Mapping[str, TableRow]]


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
    #: Instructions of a call.
    cost: Cost
    #: A word, or the loops from the outermost in: kind and elements per iteration.
    order: str | tuple[tuple[str, str], ...] = "none"
    reads: str = ""
    window: Mapping[str, str] = field(default_factory=dict, hash=False)
    #: Bytes of code for one layer.
    code: int = _CODE_BYTES
    #: Functions that are stored once for all layers that call them, and their part of these bytes.
    shared: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: Bytes of code for a layer computed in bands; None if not known.
    band_code: int | None = None
    #: Whether it returns a status, which is not 0 for invalid input values.
    fails: bool = False
    #: Numbers in which layers of one body may differ.
    variable: frozenset[str] = frozenset()
    #: The identity of its variants if the name does not tell it: that of an emitted kernel.
    identity: str = ""

    @property
    def shared_code(self) -> int:
        """Bytes of the code for one layer that other layers may share."""
        return sum(self.shared.values())

    def __post_init__(self) -> None:
        known = READS.get(self.order if isinstance(self.order, str) else "loops", ())
        if self.reads not in known:
            raise ValueError(
                f"kernel {self.name}: order {self.order!r} with reads {self.reads!r}, "
                f"not one of {known}"
            )
        if unknown := self.window.keys() - WINDOW_FIELDS.keys():
            raise ValueError(f"kernel {self.name}: a window has no {sorted(unknown)}")

    @cached_property
    def variant(self) -> str:
        """The identity of a variant with this kernel: family, operator, element types and form,
        such as ``dsp.conv2d.s8.column_pairs``; the kernel's own name if it is not of the run time.
        """
        if self.identity:
            return self.identity
        if not self.header.startswith(f"{_INCLUDE}/"):
            return self.name
        family, *words = self.name.removeprefix("hil_").split("_")
        typed = [bool(_TYPE.fullmatch(word)) for word in words]
        begin = typed.index(True) if any(typed) else len(words)
        end = begin + [*typed[begin:], False].index(False)
        parts = [
            family,
            *("_".join(part) for part in (words[:begin], words[begin:end], words[end:])),
        ]
        return ".".join(filter(None, parts))

    def scratch_bytes(self, fields: Mapping[str, FieldValue]) -> int:
        """Return the scratch for one layer: the kernel's formula over the layer's parameters."""
        return self._value(self.scratch, fields)

    def access(
        self,
        fields: Mapping[str, FieldValue],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
    ) -> Access | None:
        """Return the access order of these tensors; None if it is unknown."""
        order = (
            self.order
            if isinstance(self.order, str)
            else [Loop(kind, self._value(count, fields)) for kind, count in self.order]
        )
        stated = {name: self._value(text, fields) for name, text in self.window.items()}
        types = self.inputs, self.outputs
        return kernel_access(order, self.reads, {**fields, **stated}, types, inputs, outputs)

    def instructions(
        self, fields: Mapping[str, FieldValue], cpu: Cpu, *, shared: bool = False
    ) -> int:
        """Return the instructions that a call with these parameters is expected to take, in code
        that layers of other numbers share or in code of its own.
        """
        try:
            return self.cost.instructions(fields, cpu, shared=shared)
        except ValueError as error:
            raise InputError(
                f"[cost] of kernel {self.name} ({self.header}): {error}",
                "its formulas may name numbers of the parameter struct, and the terms above them",
            ) from None

    def _value(self, expression: str, fields: Mapping[str, FieldValue]) -> int:
        """Return the value of a formula of the description over the parameters."""
        try:
            return _evaluate(_parsed(expression), fields)
        except KeyError as error:
            raise InputError(
                f"kernel {self.name} ({self.header}): {expression!r} names {error}, which is no "
                f"field of its parameter struct",
                f"fields are {', '.join(fields)}",
            ) from None


_P = TypeVar("_P", bound="Parameters")


class FieldGroup(Record):
    """A record of fields: numbers, arrays, or groups of them."""

    @cached_property
    def fields(self) -> Mapping[str, FieldValue]:
        """The values by their names in C, in the order of the struct, groups resolved."""
        found: dict[str, FieldValue] = {}
        for own in fields_of(self):
            value = getattr(self, own.name)
            if isinstance(value, FieldGroup):
                found.update(value.fields)
            else:
                found[own.name] = value
        return found

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays among the values."""
        return {n: each for n, each in self.fields.items() if isinstance(each, np.ndarray)}


class Parameters(FieldGroup):
    """A record with the fields of a kernel's parameter struct."""

    #: The kernel's name.
    KERNEL: ClassVar[str]

    @property
    def form(self) -> str:
        """Distinguishes variants of one kernel for a layer; empty where there is only one."""
        form: str = vars(self).get("_form", "")
        return form

    def as_form(self: _P, *words: str) -> _P:
        """Return the same parameters, of the variant with this form: ``words`` without the empty
        ones.
        """
        found = copy.copy(self)
        vars(found)["_form"] = "_".join(filter(None, words))
        return found

    @classmethod
    def kernel(cls) -> Kernel:
        """Return the kernel whose parameters these are."""
        if cls not in _KERNEL_OF:
            _KERNEL_OF[cls] = _kernel_of(cls)
        return _KERNEL_OF[cls]


@dataclass(frozen=True)
class KernelCall:
    """A kernel with the parameters of one layer.

    ``inputs`` are the positions of the node's inputs that the kernel takes as tensor arguments, in
    the kernel's order; all outputs are passed in the node's order. ``macs`` counts the nominal
    multiply-accumulates of the layer.
    """

    parameters: Parameters
    inputs: tuple[int, ...] = (0,)
    macs: int = 0

    @property
    def kernel(self) -> Kernel:
        """The C kernel that the call runs."""
        return self.parameters.kernel()

    @property
    def variant(self) -> str:
        """The identity of the kernel variant: the kernel's, and the form of its parameters."""
        form = self.parameters.form
        return f"{self.kernel.variant}.{form}" if form else self.kernel.variant

    @property
    def fields(self) -> Mapping[str, FieldValue]:
        """The values of the parameter struct by their names in C, in its order."""
        return self.parameters.fields

    @cached_property
    def kernel_scratch_bytes(self) -> int:
        """The scratch that is passed to the kernel."""
        return self.kernel.scratch_bytes(self.fields)

    @property
    def scratch_bytes(self) -> int:
        """The scratch of the whole call, which begins with the kernel's."""
        return self.kernel_scratch_bytes

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays that the kernel reads from flash, by their fields."""
        return self.parameters.arrays

    @property
    def constant_arrays(self) -> Iterator[Array]:
        """The arrays that it keeps in flash."""
        return iter(self.arrays.values())

    def instructions(self, cpu: Cpu, *, shared: bool = False) -> int:
        """Return the instructions that it is expected to take on ``cpu``, in code that layers of
        other numbers share or in code of its own.
        """
        return self.kernel.instructions(self.fields, cpu, shared=shared)

    def access(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Access | None:
        """See :class:`hilc.lowering.access.AccessedCall`."""
        return self.kernel.access(self.fields, inputs, outputs)


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


_INCLUDE = "hil/kernels"
_COSTS = "costs"


@dataclass(frozen=True)
class _Folder:
    """Content of a folder of :func:`register_kernels`: headers by their path in it, and costs."""

    headers: Mapping[str, str]
    costs: Costs


_REGISTERED: dict[Path, _Folder] = {}
#: Headers of kernels that were emitted for layers, by their paths.
_EMITTED: dict[str, str] = {}


def keep_emitted(path: str, text: str) -> None:
    """Keep the header of an emitted kernel, which code includes by ``path``."""
    _EMITTED[path] = text


def register_kernels(folder: Path | str) -> None:
    """Make the kernels that the headers below ``folder`` describe known to the compiler.

    Generated code includes a header by its path below ``folder``, and a library that calls a kernel
    holds its header and those which that includes. The folder ``costs`` in it has the tables of
    costs (:mod:`hilc.lowering.cost_tables`). Paths and kernels must have names of their own:
    ``hil/`` is the run time's. Builders of their calls are registered by
    :func:`hilc.lowering.lowers`.

    InputError if there is no kernel, one is described wrongly, or a name is taken.

    Raise :class:`~hilc.errors.InputError` for a header whose path is in use, or an invalid
    description.
    """
    path = Path(folder).resolve()
    headers = read_headers(path)
    others = {h: p for p, known in _REGISTERED.items() if p != path for h in known.headers}
    for header in headers:
        if header.startswith("hil/") or header in others:
            owner = others.get(header, "the run time")
            raise InputError(
                f"{path / header} would be included as {header}, which is a path of {owner}",
                "put it into a folder with a name of its own",
            )
    before = _REGISTERED.get(path)
    try:
        own = _Folder(headers, read_costs(path / _COSTS))
        if not any(True for _ in described_kernels(headers, own.costs)):
            raise ValueError("no header has a block /*@kernel ... @*/")
        _REGISTERED[path] = own
        _forget()
        kernels()
    except (ValueError, KeyError) as error:
        _REGISTERED.pop(path, None)
        if before is not None:
            _REGISTERED[path] = before
        _forget()
        fact = f"lacks the key {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"the kernels of {path} cannot be used: {fact}",
            "describe them as the docstring of hilc.lowering.kernels says",
        ) from None


def registered_header(path: str) -> str | None:
    """Return the header, emitted or of a registered folder, that code includes by ``path``; None
    where none is.
    """
    if path in _EMITTED:
        return _EMITTED[path]
    folders = _REGISTERED.values()
    return next((own.headers[path] for own in folders if path in own.headers), None)


def read_headers(folder: Path) -> Mapping[str, str]:
    """Return the headers below ``folder`` by their path in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.h"))
    }


@functools.cache
def shipped_headers() -> Mapping[str, str]:
    """Return the headers of the run time's kernels by the path by which code includes them."""
    headers = read_headers(data_dir("runtime") / "include" / _INCLUDE)
    return {f"{_INCLUDE}/{path}": text for path, text in headers.items()}


@functools.cache
def shipped_structs() -> Structs:
    """Return the structs and macros of fields that the headers of the run time's kernels
    declare.
    """
    return read_structs(shipped_headers().values())


def described_kernels(headers: Mapping[str, str], costs: Costs) -> Iterator[Kernel]:
    """Yield the kernels that headers describe, by the order of these.

    KeyError if a description lacks a key, ValueError if one is wrong or unknown, or ``costs`` lack
    the kernel.
    """
    for header, text in headers.items():
        for block in _BLOCK.findall(text):
            entry = tomllib.loads(block)
            _check_keys(entry, header)
            yield Kernel(
                name=entry["name"],
                header=header,
                requires=frozenset(entry["requires"]),
                inputs=tuple(entry["inputs"]),
                outputs=tuple(entry["outputs"]),
                scratch=entry["scratch"],
                order=_order(entry["name"], entry["order"]),
                reads=entry.get("reads", ""),
                window=entry.get("window", {}),
                cost=_cost(entry, header, costs.get(entry["name"])),
                code=entry.get("code", _CODE_BYTES),
                shared=entry.get("shared", {}),
                band_code=entry.get("band_code"),
                fails=entry.get("fails", False),
                variable=frozenset(entry.get("variable", ())),
            )


class MissingCostError(ValueError):
    """No table has the cost of a kernel: without one it would seem to be free, and be chosen."""

    def __init__(self, kernel: str, header: str, formulas: Mapping[str, str]) -> None:
        super().__init__(f"kernel {kernel} of {header} has a cost in no table {_COSTS}/CORE.toml")
        self.kernel = kernel
        self.header = header
        #: Figures of each term, as they may stand in a table.
        self.terms = ", ".join(f"{term} = 1" for term in (CALL, *formulas))


@functools.cache
def kernels() -> Mapping[str, Kernel]:
    """Every kernel of the run time and of registered folders, by name.

    Raise ValueError if a kernel of a registered folder is described twice, and
    :class:`~hilc.errors.InputError` if one of the run time is described wrongly or has no cost.
    """
    found = dict(_shipped_kernels())
    for folder in _REGISTERED.values():
        for kernel in described_kernels(folder.headers, folder.costs):
            if kernel.name in found:
                raise ValueError(f"kernel {kernel.name} is described twice")
            found[kernel.name] = kernel
    return found


def _shipped_kernels() -> Mapping[str, Kernel]:
    """Return the kernels of the run time by name; InputError where one is described wrongly."""
    found: dict[str, Kernel] = {}
    try:
        for kernel in described_kernels(shipped_headers(), shipped_costs()):
            if kernel.name in found:
                raise ValueError(f"kernel {kernel.name} is described twice")
            found[kernel.name] = kernel
    except MissingCostError as error:
        raise InputError(
            f"kernel {error.kernel} of {error.header} has a cost in no table "
            f"hilc/target/costs/CORE.toml",
            f"add a line to the table of one core at least, such as `{error.kernel} = "
            f"{{{error.terms}}}` with estimates; then measure: `python tools/measure.py costs "
            f"measure`, `python tools/measure.py costs fit {error.kernel}`",
        ) from None
    except (ValueError, KeyError) as error:
        fact = f"one lacks the key {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"the kernels of the run time are described wrongly: {fact}",
            "correct the block /*@kernel in the header, or the table hilc/target/costs/CORE.toml: "
            "the docstrings of hilc.lowering.kernels and hilc.lowering.cost_tables describe them",
        ) from None
    return found


@functools.cache
def _structs() -> Structs:
    shipped = shipped_structs()
    own = read_structs(text for folder in _REGISTERED.values() for text in folder.headers.values())
    return Structs({**shipped.structs, **own.structs}, {**shipped.groups, **own.groups})


#: Kernel of each dataclass of parameters that has been compared with its C struct.
_KERNEL_OF: dict[type[Parameters], Kernel] = {}


def _kernel_of(parameters: type[Parameters]) -> Kernel:
    """Return the kernel of a dataclass; InputError where this has other fields than the C
    struct.
    """
    name = parameters.KERNEL
    kernel, struct = kernels().get(name), _structs().structs.get(name)
    if kernel is None or struct is None:
        raise InputError(
            f"{parameters.__name__} has the parameters of kernel {name}, which no header describes",
            "register the folder of its header: hilc.lowering.kernels.register_kernels",
        )
    own = [field.name for field in fields_of(parameters)]
    wanted = [field.name for field in struct]
    if own != wanted:
        raise InputError(
            f"{parameters.__name__} has the fields {', '.join(own)}, but struct {name} of "
            f"{kernel.header} has {', '.join(wanted)}",
            "write the dataclass anew: python -m hilc.lowering.write_parameters FOLDER",
        )
    return kernel


def _forget() -> None:
    kernels.cache_clear()
    _structs.cache_clear()
    _KERNEL_OF.clear()


def _check_keys(entry: Mapping[str, Any], header: str) -> None:
    """Raise ValueError for keys that a description does not have, or no longer has."""
    unknown = sorted(entry.keys() - _KEYS)
    if not unknown:
        return
    fact = f"kernel {entry.get('name', '?')} of {header} has the unknown key {unknown[0]!r}"
    if unknown[0] in _FORMER_KEYS:
        raise ValueError(
            f"{fact}, which versions before 0.2 had; delete it: the flash of a kernel's constants "
            "and its scratch are counted from its parameters and the key 'scratch'"
        )
    raise ValueError(f"{fact}; known are {', '.join(sorted(_KEYS))}")


def _cost(entry: Mapping[str, Any], header: str, rows: Mapping[str, TableRow] | None) -> Cost:
    """Return the cost of the formulas ``[cost]`` of a header and the rows of the tables."""
    name, formulas = entry["name"], entry.get("cost", {})
    if not isinstance(formulas, dict) or not all(isinstance(f, str) for f in formulas.values()):
        raise ValueError(
            f"kernel {name} of {header}: [cost] has formulas alone (the instructions of each core, "
            f"once [cost.on.CORE], are in {_COSTS}/CORE.toml, and [cost.counts] is [cost])"
        )
    if not rows:
        raise MissingCostError(name, header, formulas)
    try:
        figures = {core: row.figures for core, row in rows.items()}
        shared = {core: row.shared for core, row in rows.items() if row.shared}
        return Cost(figures, formulas, shared)
    except ValueError as error:
        raise ValueError(f"kernel {name}: {error}") from None


def _order(kernel: str, stated: str | list[str]) -> str | tuple[tuple[str, str], ...]:
    """``order`` as a header states it."""
    if isinstance(stated, str):
        return stated
    loops = [_LOOP.fullmatch(loop) for loop in stated]
    if not loops or not all(loops):
        raise ValueError(f"kernel {kernel}: no order is {stated}")
    return tuple((loop[1], loop[2]) for loop in loops if loop is not None)
