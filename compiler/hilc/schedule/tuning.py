"""Logs of measured kernel costs on a board: written by ``hil tune``, used by the search.

A log belongs to one model, one core and one version of the compiler, and is refused for any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hilc.errors import InputError
from hilc.source import Source
from hilc.support.inputs import check_regular
from hilc.support.jsondata import decode, json_bytes, parse_json
from hilc.target import Cpu

#: Version of the log's format.
FORMAT = 1
_REMEDY = "give a log that `hil tune` wrote"


@dataclass(frozen=True)
class Measured:
    """A kernel that can compute a layer; ``count`` is its measured cost."""

    kernel: str
    count: int


@dataclass(frozen=True)
class TunedLayer:
    """A layer with its measured kernels in the order of candidates; empty where only one call is
    possible.
    """

    name: str
    op: str
    kernels: tuple[Measured, ...]


@dataclass(frozen=True)
class Tuning:
    """Measurement log; :meth:`to_json` and :func:`load_tuning` convert it to and from a file."""

    format: int
    model: str
    #: Digest of the model (:attr:`hilc.source.Source.digest`).
    digest: str
    cpu: str
    compiler: str
    board: str
    #: Unit of the counts: ``instructions`` or ``cycles``.
    counter: str
    layers: tuple[TunedLayer, ...]

    def to_json(self) -> bytes:
        return json_bytes(asdict(self))

    @property
    def counts(self) -> Mapping[str, tuple[Measured, ...]]:
        """Measured kernels, by the layer's name."""
        return {layer.name: layer.kernels for layer in self.layers}

    def check(self, source: Source, cpu: Cpu, compiler: str) -> None:
        """Raise :class:`~hilc.errors.InputError` for a log of another model, core or compiler
        version.
        """
        for what, own, wanted in (
            ("version of the compiler", self.compiler, compiler),
            ("core", self.cpu, cpu.name),
            ("model", (self.model, self.digest[:12]), (source.graph.name, source.digest[:12])),
        ):
            differs = self.digest != source.digest if what == "model" else own != wanted
            if differs:
                raise InputError(
                    f"the tuning log was made for another {what}: {_words(own)}, "
                    f"not {_words(wanted)}",
                    "measure again with `hil tune`, or compile without --tuning",
                )


def _words(value: str | tuple[str, str]) -> str:
    return value if isinstance(value, str) else f"{value[0]} ({value[1]}...)"


def load_tuning(path: str | Path) -> Tuning:
    """Return the log in a file; raise :class:`~hilc.errors.InputError` if it is invalid."""
    check_regular(path, _REMEDY)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"the tuning log {path} cannot be read: {error.strerror}", _REMEDY
        ) from None
    value = parse_json(data, str(path), _REMEDY)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else None
        raise InputError(
            f"{path} is not a tuning log of format {FORMAT}: its format is {found!r}",
            "write one with `hil tune`",
        )
    return decode(Tuning, value, str(path))
