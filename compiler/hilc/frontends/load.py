"""Reading of a model file into a verified graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hilc.errors import InputError, ModelError
from hilc.frontends.foreign import foreign, refuse_saved_model
from hilc.frontends.readers import Reader, Reading, Specialization, reader_of
from hilc.frontends.tflite.entry import IDENTIFIER
from hilc.ir import ClassLabels, Dequantized, FixedSize, Graph, Numerics
from hilc.ops.verify import verify, verify_order
from hilc.support.inputs import MAX_FILE_BYTES
from hilc.support.jsondata import shown_argument
from hilc.transforms.numerics import with_numerics
from hilc.transforms.shapes import resolve_shapes
from hilc.transforms.unalias_outputs import unalias_outputs

#: Exceptions of damaged files that no check foresaw: a safety net, which tests prove unused.
_UNFORESEEN = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError)


@dataclass(frozen=True)
class LoadedModel:
    """A model file that has been read."""

    #: The verified graph.
    graph: Graph
    #: The bytes of the model: the file's own, unless it refers to other files or a specialization
    #: states sizes that it leaves open, or selects a signature.
    data: bytes
    #: The sizes of inputs that the file leaves open and the reader set.
    fixed_sizes: tuple[FixedSize, ...] = ()
    #: The integers of the float constants that the file dequantizes, by name.
    dequantized: Mapping[str, Dequantized] = field(default_factory=dict)
    #: The texts of the classes whose numbers outputs return.
    class_labels: tuple[ClassLabels, ...] = ()
    #: How its dynamically quantized layers compute, ``integer`` or ``float``; empty where there
    #: are none.
    dynamic: str = ""
    #: The operators of the file by the positions that its nodes have
    #: (:attr:`hilc.ir.Node.index`), for messages; empty where nodes keep the operators' names.
    operators: Mapping[int, str] = field(default_factory=dict)


def load_model(
    source: str | Path | bytes, name: str | None = None, numerics: Numerics = Numerics.TFLM
) -> Graph:
    """Return the verified graph of a model file, or of its bytes; the content determines the
    format.

    ``name`` names the model; the default is the file's stem, or ``default`` for bytes.
    ``numerics`` selects the definition of operators that have several. Raise
    :class:`~hilc.errors.ModelError` if the file cannot be read or is invalid and
    :class:`~hilc.errors.UnsupportedError` if it uses what the compiler does not implement.
    """
    return read_model(source, name, numerics).graph


def read_model(
    source: str | Path | bytes,
    name: str | None = None,
    numerics: Numerics = Numerics.TFLM,
    specialization: Specialization | None = None,
) -> LoadedModel:
    """Return the graph as :func:`load_model` does, with the bytes of the model.

    ``specialization`` states sizes and values of inputs that the file leaves open, and selects a
    signature. Raises like
    :func:`load_model`.
    """
    stated = specialization or Specialization()
    if isinstance(source, bytes):
        return _load(source, name or "default", numerics, stated, None)
    if not isinstance(source, str | Path):
        raise ModelError(
            f"{source!r:.60} is not a model file: its type is {type(source).__name__}",
            "give the path of a model file or its bytes; of PyTorch a module or a program of "
            "torch.export, of ONNX a ModelProto, of scikit-learn that of skl2onnx.to_onnx",
        )
    path = Path(source)
    refuse_saved_model(path)
    try:
        data = read_file(path)
        return _load(
            data,
            name or shown_argument(path.stem),
            numerics,
            replace(stated, folder=path.parent),
            path,
        )
    except ModelError as error:
        error.fact = f"{path}: {error.fact}"
        raise


def read_file(path: Path) -> bytes:
    """Return the bytes of a regular file of bounded size; raise ModelError otherwise."""
    try:
        if not path.exists():
            raise ModelError("the file does not exist", "give the path of a model file")
        if not path.is_file():
            raise ModelError("this is not a regular file", "give the path of a model file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ModelError(f"the file has {size} bytes; a model has at most {MAX_FILE_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}") from error


def _load(
    data: bytes, name: str, numerics: Numerics, stated: Specialization, path: Path | None
) -> LoadedModel:
    if not data:
        raise ModelError("the file is empty", "copy or export the model again")
    reader = reader_of(data)
    if reader is None:
        raise foreign(data, path, IDENTIFIER)
    if numerics is Numerics.ONNX and reader.numerics is not numerics:
        raise InputError(
            f"a {reader.name} model is not computed as ONNX defines operators",
            "choose one of the references tflm, litert-ref and hilc",
        )
    try:
        if stated.signature is not None:
            if reader.select is None:
                raise InputError(
                    f"models of {reader.name} have no signatures; {stated.signature!r} cannot be "
                    "selected",
                    "leave out the signature",
                )
            data = reader.select(data, stated.signature)
        if reader.specialize is not None:
            data = reader.specialize(data, stated)
        else:
            _require_no_others(reader.name, stated)
        reading = _read_of(reader, stated)(data, name)
        if not isinstance(reading, Reading):
            raise InputError(
                f"the reader {reader.name!r} returns a {type(reading).__name__}, not a Reading",
                "return hilc.frontends.Reading(graph, open_shapes); up to version 0.1 it was a "
                "tuple of the two",
            )
        verify_order(reading.graph)
        # Operators can be checked only when their operands' shapes are known.
        graph = unalias_outputs(resolve_shapes(reading.graph, reading.open_shapes))
        graph = with_numerics(graph, reader.numerics or numerics)
        verify(graph)
        if reader.specialize is None:
            _require_own_shapes(reader.name, graph, stated.shapes)
    except _UNFORESEEN as error:
        raise ModelError(
            f"the file is inconsistent ({type(error).__name__}: {error})",
            "export the model again; if its exporter can run it, report it as a bug",
        ) from error
    return LoadedModel(
        graph,
        data,
        reading.fixed_sizes,
        reading.dequantized,
        reading.class_labels,
        reading.dynamic,
        reading.operators,
    )


def _require_no_others(reader: str, stated: Specialization) -> None:
    """Raise for what is stated, besides shapes, of a model whose file leaves nothing open."""
    if stated.loop_bounds:
        raise InputError(
            f"a {reader} model needs no bounds of loops; "
            f"{', '.join(map(repr, stated.loop_bounds))} cannot be given",
            "leave out the bounds: loops of ONNX models take them",
        )
    if stated.inputs:
        raise InputError(
            f"a {reader} model has constants of its own; "
            f"{', '.join(map(repr, stated.inputs))} cannot be given",
            "leave out the constants: inputs of ONNX models take them",
        )


def _require_own_shapes(reader: str, graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise for a stated shape of an input that is not the one that the file gives it."""
    for name, shape in shapes.items():
        if name not in graph.inputs:
            raise InputError(
                f"the model has no input {name!r}, whose shape is stated",
                f"its inputs are {', '.join(map(repr, graph.inputs)) or 'none'}",
            )
        own = graph.tensors[name].shape
        if own != tuple(shape):
            raise InputError(
                f"the input {name!r} is {list(own)}, which the shape {list(shape)} does not fit",
                f"a {reader} file has the sizes that it is compiled with, a batch of 1 where it "
                "leaves that open: convert the model with the sizes that it needs",
            )


def _read_of(reader: Reader, stated: Specialization) -> Callable[[bytes, str], Reading]:
    """Return the function that reads a file as its dynamically quantized layers shall compute."""
    if stated.dynamic is None or stated.dynamic == reader.dynamic:
        return reader.read
    if reader.read_other is None:
        raise InputError(
            f"models of {reader.name} have no dynamically quantized layers; dynamic="
            f"{stated.dynamic} has no meaning",
            "leave out the option dynamic",
        )
    return reader.read_other
