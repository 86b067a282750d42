"""An exported program as values: calls of operators over named tensors, read from its JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hilc.errors import ModelError, UnsupportedError
from hilc.frontends.pt2.archive import SCALAR_TYPES, Archive
from hilc.ir import Array

#: A symbol of sympy, as files of PyTorch 2.13 write it; older ones write its name alone.
_SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)")
#: The major version of the schema (``torch/_export/serde/schema.py``).
_SCHEMA = 8
#: A frame of a stack trace: file, line, and the text of the line where the file has one.
_FRAME = re.compile(
    r'^ *File "([^"\n]*)", line (\d+)[^\n]*(?:\n(?! *File ")([^\n]*))?', re.MULTILINE
)
#: Files of PyTorch where it is installed; a folder of the user may be called torch too.
_OF_PYTORCH = re.compile(r"-packages[/\\]torch[/\\]")
#: Code that PyTorch and Python generate, which is in no file of the user.
_GENERATED = ("<eval_with_key>", "<frozen ")
_MAX_CALLS = 100_000
_EXPORT_AGAIN = "export and save the program again"


@dataclass(frozen=True)
class Ref:
    """A tensor of the program, by its name."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """A number of the program that depends on sizes which the export left open, or on values."""

    name: str


@dataclass(frozen=True)
class Code:
    """Number of an element type, a layout or a memory format in the schema."""

    kind: str
    value: int

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return SCALAR_TYPES.get(self.value, f"number {self.value}")


#: Value of an argument: :class:`Ref`, :class:`Symbol`, :class:`Code`, a :class:`Region`, None, a
#: Python number, a text, or a tuple of them.
Argument = Any


@dataclass(frozen=True)
class Call:
    """A call of one operator."""

    #: Name of the operator and its overload: ``aten.conv2d.default``.
    target: str
    #: Arguments by the names of the operator's schema; those that equal its defaults may be absent.
    #: Of an operator without one, ``higher_order.cond``, by their positions.
    arguments: Mapping[str, Argument]
    #: A tensor, a tuple of tensors, or a symbol, for each result.
    outputs: tuple[Argument, ...]
    #: Position in the program.
    index: int
    #: Line of the user's code that made it: ``model.py:12: y = self.conv(x)``; empty if unknown.
    source: str


@dataclass(frozen=True)
class Signature:
    """Element type and shape of a tensor; a size is a number, or an expression of open sizes."""

    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Region:
    """A graph of calls: the program's, or one that a control-flow operator runs."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    calls: tuple[Call, ...]
    signatures: Mapping[str, Signature]
    #: Expressions of open sizes by the names of symbolic numbers.
    symbols: Mapping[str, int | float | str]


@dataclass(frozen=True)
class Program:
    """An exported program with the values of its constants."""

    region: Region
    #: Inputs of the user, in order.
    inputs: tuple[str, ...]
    #: Outputs to the user, in order.
    outputs: tuple[str, ...]
    #: Values of parameters, buffers and constants, by the name of the tensor in the graph.
    constants: Mapping[str, Array]
    #: Buffers that a run changes: name of the tensor before, and of the one after the run.
    mutated: Mapping[str, str]
    #: Names of buffers in the module (``cache.keys``), by the name of the tensor.
    buffers: Mapping[str, str]
    #: Smallest and largest value of each open size, by its symbol.
    ranges: Mapping[str, tuple[int | None, int | None]]


def read_program(archive: Archive) -> Program:
    """Return the program of an archive.

    Raise :class:`~hilc.errors.ModelError` for one that is inconsistent.
    """
    try:
        return _program(archive)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"the program's description is damaged ({type(error).__name__}: {error})", _EXPORT_AGAIN
        ) from None


def _program(archive: Archive) -> Program:
    stated = archive.program
    version = stated["schema_version"]["major"]
    if version != _SCHEMA:
        raise UnsupportedError(
            f"the program's schema has the version {version}; read is {_SCHEMA} "
            "(PyTorch 2.8 to 2.13)",
            "save it with one of these versions of PyTorch",
        )
    module = stated["graph_module"]
    region = _region(module["graph"])
    inputs: list[str] = []
    constants: dict[str, Array] = {}
    buffers: dict[str, str] = {}
    for spec in module["signature"]["input_specs"]:
        ((kind, value),) = spec.items()
        if kind == "user_input":
            inputs.append(_user_input(value["arg"]))
        elif kind in _STORED:
            name, stored = _ref(value["arg"]).name, value[_STORED[kind]]
            if stored not in archive.values:
                raise UnsupportedError(
                    f"the value of {stored!r} is pickled in the file; pickles are never opened",
                    "replace tensors of special classes by plain ones before the export",
                )
            constants[name] = archive.values[stored]
            if kind == "buffer":
                buffers[name] = stored
        else:
            raise UnsupportedError(
                f"the program has an input of the kind {kind!r} ({_shown(value)})",
                f"read are: user_input, {', '.join(_STORED)}",
            )
    outputs, mutated = _outputs(module["signature"]["output_specs"], buffers)
    missing = [n for n in (*inputs, *constants, *outputs) if n not in region.signatures]
    if missing:
        raise ModelError(f"the program declares no type for {missing[0]!r}", _EXPORT_AGAIN)
    ranges = {
        name: (bounds["min_val"], bounds["max_val"])
        for name, bounds in stated["range_constraints"].items()
    }
    return Program(region, tuple(inputs), tuple(outputs), constants, mutated, buffers, ranges)


#: Kinds of inputs that have stored values, and the field of the value's name.
_STORED = {
    "parameter": "parameter_name",
    "buffer": "buffer_name",
    "tensor_constant": "tensor_constant_name",
}


def _user_input(argument: Any) -> str:
    value = _argument(argument)
    if not isinstance(value, Ref):
        raise UnsupportedError(
            f"the program takes {_shown(argument)} beside tensors",
            "make it a constant of the module, or a tensor, before the export",
        )
    return value.name


def _outputs(specs: Any, buffers: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    outputs: list[str] = []
    mutated: dict[str, str] = {}
    by_name = {stored: name for name, stored in buffers.items()}
    for spec in specs:
        ((kind, value),) = spec.items()
        if kind == "user_output":
            argument = _argument(value["arg"])
            if argument is None:
                continue
            if not isinstance(argument, Ref):
                raise UnsupportedError(
                    f"the program returns {_shown(value['arg'])}", "let it return tensors only"
                )
            outputs.append(argument.name)
        elif kind == "buffer_mutation":
            mutated[by_name[value["buffer_name"]]] = _ref(value["arg"]).name
        else:
            raise UnsupportedError(
                f"the program has an output of the kind {kind!r}",
                "export the module in evaluation mode (module.eval()), without a loss",
            )
    return outputs, mutated


def _region(graph: Mapping[str, Any]) -> Region:
    nodes = graph["nodes"]
    if len(nodes) > _MAX_CALLS:
        raise ModelError(f"the program has {len(nodes)} calls; at most {_MAX_CALLS} are read")
    symbols: dict[str, int | float | str] = {
        name: _size(value)
        for kind in ("sym_int_values", "sym_float_values", "sym_bool_values")
        for name, value in graph.get(kind, {}).items()
    }
    # PyTorch numbers results that nothing reads. The first one names the layer: as the node.
    names = {f"{node.get('name')}_unused_0": str(node.get("name")) for node in nodes}
    signatures = {
        names.get(name, name): _signature(meta) for name, meta in graph["tensor_values"].items()
    }
    return Region(
        tuple(map(_argument, graph["inputs"])),
        tuple(map(_argument, graph["outputs"])),
        tuple(_call(node, index, names) for index, node in enumerate(nodes)),
        signatures,
        symbols,
    )


def _call(node: Mapping[str, Any], index: int, names: Mapping[str, str]) -> Call:
    target = node["target"].removeprefix("torch.ops.")
    source = _source(node["metadata"].get("stack_trace", ""))
    try:
        # Operators with graphs, such as cond, have arguments without names.
        arguments = {
            given["name"] or str(position): _argument(given["arg"])
            for position, given in enumerate(node["inputs"])
        }
        outputs = tuple(_renamed(_argument(output), names) for output in node["outputs"])
    except ModelError as error:
        raise type(error)(f"{place(index, source)}: {target}: {error.fact}", error.hint) from error
    return Call(target, arguments, outputs, index, source)


def _renamed(output: Argument, names: Mapping[str, str]) -> Argument:
    if isinstance(output, tuple):
        return tuple(_renamed(part, names) for part in output)
    is_named = isinstance(output, Ref) and output.name in names
    return Ref(names[output.name]) if is_named else output


def place(index: int, source: str) -> str:
    """Return the words of a message for the place of a call."""
    return f"call {index} ({source})" if source else f"call {index}"


def _source(trace: str) -> str:
    """Return the line of the innermost frame that is not PyTorch's own.

    Code that was typed into an interpreter has a line and no text.
    """
    found = ""
    for path, number, text in _FRAME.findall(trace):
        if not path.startswith(_GENERATED) and not _OF_PYTORCH.search(path):
            file = path.replace("\\", "/").rpartition("/")[2]
            found = f"{file}:{number}" + (f": {text.strip()}" if text.strip() else "")
    return found


def _signature(meta: Mapping[str, Any]) -> Signature:
    dtype = SCALAR_TYPES.get(meta["dtype"], f"number {meta['dtype']}")
    sizes = tuple(map(_size, meta["sizes"]))
    if any(isinstance(size, float) for size in sizes):
        raise ModelError(f"the sizes {sizes!r:.60} are no integers", _EXPORT_AGAIN)
    return Signature(dtype, tuple(size for size in sizes if not isinstance(size, float)))


def _size(value: Mapping[str, Any]) -> int | float | str:
    ((kind, size),) = value.items()
    if (kind, type(size)) in (("as_int", int), ("as_float", float), ("as_bool", bool)):
        return size  # type: ignore[no-any-return]
    if kind == "as_expr" and isinstance(size["expr_str"], str):
        return _SYMBOL.sub(r"\1", size["expr_str"])
    raise ModelError(f"the size {_shown(value)} is neither a number nor an expression")


def _argument(value: Mapping[str, Any]) -> Argument:
    """Return an argument of the schema's union ``Argument``."""
    ((kind, content),) = value.items()
    if kind in _READERS:
        return _READERS[kind](content)
    if kind == "as_operator":
        raise UnsupportedError(
            f"a call of {_shown(content)} with effects is not supported",
            "save program.run_decompositions({}), which keeps the operator whole that it checks",
        )
    raise UnsupportedError(
        f"an argument of the kind {kind!r} ({_shown(content)}) is not supported",
        "supported are tensors, numbers, texts, element types, and lists of them",
    )


def _ref(content: Mapping[str, Any]) -> Ref:
    return Ref(_of(str, content["name"]))


def _optional(content: Mapping[str, Any]) -> Ref | None:
    ((kind, inner),) = content.items()
    return None if kind == "as_none" else _ref(inner)


def _symbolic(kind: type[Any]) -> Any:
    """Return the reader of a number that may depend on sizes which the export left open."""

    def reader(content: Mapping[str, Any]) -> Any:
        ((form, inner),) = content.items()
        return Symbol(_of(str, inner)) if form == "as_name" else _of(kind, inner)

    return reader


def _of(kind: type[Any], content: Any) -> Any:
    """Return a scalar that must be of the type ``kind``."""
    if kind is float and content in ("Infinity", "-Infinity", "NaN"):
        return float(content)
    if type(content) is not kind and not (kind is float and type(content) is int):
        raise ModelError(f"an argument is {content!r:.60}; expected is {kind.__name__}")
    return float(content) if kind is float else content


def _tuple_of(read: Any) -> Any:
    def reader(content: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(read(part) for part in content)

    return reader


def _scalar(kind: type) -> Any:
    return lambda content: _of(kind, content)


def _code(kind: str) -> Any:
    return lambda content: Code(kind, _of(int, content))


def _graph(content: Mapping[str, Any]) -> Region:
    return _region(content["graph"])


_READERS: Mapping[str, Any] = {
    "as_none": lambda content: None,
    "as_tensor": _ref,
    "as_tensors": _tuple_of(_ref),
    "as_optional_tensor": _optional,
    "as_optional_tensors": _tuple_of(_optional),
    "as_int": _scalar(int),
    "as_ints": _tuple_of(_scalar(int)),
    "as_int_lists": _tuple_of(_tuple_of(_scalar(int))),
    "as_float": _scalar(float),
    "as_floats": _tuple_of(_scalar(float)),
    "as_bool": _scalar(bool),
    "as_complex": lambda content: complex(_of(float, content["real"]), _of(float, content["imag"])),
    "as_bools": _tuple_of(_scalar(bool)),
    "as_string": _scalar(str),
    "as_strings": _tuple_of(_scalar(str)),
    "as_sym_int": _symbolic(int),
    "as_sym_ints": _tuple_of(_symbolic(int)),
    "as_sym_float": _symbolic(float),
    "as_sym_bool": _symbolic(bool),
    "as_scalar_type": _code("element type"),
    "as_memory_format": _code("memory format"),
    "as_layout": _code("layout"),
    "as_device": lambda content: None,
    "as_graph": _graph,
}


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
