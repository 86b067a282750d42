"""Readers of model files: one :class:`Reader` per format, selected by the file's content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from hilc.errors import UnsupportedError
from hilc.ir import Array, ClassLabels, Dequantized, FixedSize, Graph, Numerics
from hilc.support.registering import check_registered, module_of


@dataclass(frozen=True)
class Specialization:
    """Shapes and values that the user states for a model's inputs, and the location of its file."""

    #: Shapes of inputs, by name.
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: Values of inputs that become constants of the model, by name.
    inputs: Mapping[str, Array] = field(default_factory=dict)
    #: The folder with the files that the model's file refers to; None where only its bytes are
    #: known.
    folder: Path | None = None
    #: The signature that is the model, of a file with several entry points; None for the only one.
    signature: str | None = None
    #: How dynamically quantized layers compute, ``integer`` or ``float``; None: as the format does
    #: by default.
    dynamic: str | None = None
    #: The most turns of loops whose number of turns is known only at run time, by the name of an
    #: output of the loop.
    loop_bounds: Mapping[str, int] = field(default_factory=dict)

    @property
    def states_nothing(self) -> bool:
        """Whether no shape, value or bound is stated; a signature is selected, not stated."""
        return not self.shapes and not self.inputs and not self.loop_bounds


class OpenShapeError(UnsupportedError):
    """An input has a shape that neither the file nor the user states.

    ``shape`` is one that would do, with 1 for each open size: command lines other than ``hil`` have
    another option for it than the one in the hint.
    """

    def __init__(self, fact: str, name: str, sizes: Sequence[object]) -> None:
        known = [str(size) if str(size).isdigit() else "1" for size in sizes] or ["1"]
        listed = f"({', '.join(known)}{',' * (len(known) == 1)})"
        super().__init__(
            fact,
            f"state its sizes: --shape {name}={','.join(known)}, in Python "
            f"shapes={{{name!r}: {listed}}}",
        )
        self.input = name
        self.shape = tuple(map(int, known))


@dataclass(frozen=True)
class Reading:
    """The translation of a model file."""

    graph: Graph
    #: The tensors of the graph whose shapes the file leaves open.
    open_shapes: Set[str] = frozenset()
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


@dataclass(frozen=True)
class Reader:
    """Reader of one format of model files. It translates, and does nothing else."""

    #: Name of the format, for messages.
    name: str
    #: Suffix of the copy of a model in a library, such as ``.tflite``.
    suffix: str
    #: Return whether bytes are a file of this format; called with any bytes, so it never raises.
    recognizes: Callable[[bytes], bool]
    #: Translate a file's bytes to a graph with a name. Raises :class:`~hilc.errors.ModelError` for
    #: an invalid file, and :class:`~hilc.errors.UnsupportedError` for operators and types that the
    #: compiler does not implement.
    read: Callable[[bytes, str], Reading]
    #: Return a file that needs no other and leaves nothing open, which ``read``, a library and the
    #: references then take for the model; None for a format that has nothing to state.
    specialize: Callable[[bytes, Specialization], bytes] | None = None
    #: Return the file whose only entry point is the signature of this name; None for a format
    #: without signatures.
    select: Callable[[bytes, str], bytes] | None = None
    #: The references of results that compute such files (:mod:`hilc.references`), the preferred
    #: first.
    references: tuple[str, ...] = ("tflm", "litert-ref", "hilc")
    #: The module of :mod:`hilc.quantization` that quantizes such models; empty for none.
    quantizer: str = ""
    #: The definition of operators that the format means; None where the user has the choice.
    numerics: Numerics | None = None
    #: How dynamically quantized layers compute by default, ``integer`` or ``float``; empty for a
    #: format without such layers.
    dynamic: str = ""
    #: ``read`` for the other way to compute these.
    read_other: Callable[[bytes, str], Reading] | None = None


_READERS: dict[str, Reader] = {}


def register_reader(reader: Reader) -> None:
    """Register ``reader`` for the files that it recognizes.

    Raise :class:`~hilc.errors.InputError` if a reader has its name, or the name or one of its
    functions is invalid.
    """
    functions: dict[str, object] = {"recognizes": reader.recognizes, "read": reader.read}
    if reader.specialize is not None:
        functions["specialize"] = reader.specialize
    if reader.select is not None:
        functions["select"] = reader.select
    if reader.read_other is not None:
        functions["read_other"] = reader.read_other
    known = {name: other.read for name, other in _READERS.items()}
    check_registered("reader", reader.name, functions, known)
    _READERS[reader.name] = reader


def is_foreign(reader: Reader | None) -> bool:
    """Whether a reader is from outside this package, and so any program."""
    return reader is not None and not module_of(reader.read).startswith("hilc.")


def reader_of(data: bytes) -> Reader | None:
    """Return the reader that recognizes a model file's bytes; None for none."""
    return next((reader for reader in _READERS.values() if reader.recognizes(data)), None)
