"""Logs of what kernels were measured to cost on a board: written by ``hil tune``, used here.

A log belongs to one model, one core and one version of the compiler; for any other it is refused,
since its figures would be somebody else's.
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

#: Of the log's form.
FORMAT = 1
_REMEDY = "give a log that `hil tune` wrote"


@dataclass(frozen=True)
class Measured:
    """One kernel that can compute a layer; ``count`` is what it took."""

    kernel: str
    count: int


@dataclass(frozen=True)
class TunedLayer:
    """A layer with its kernels in the order of ``emit``; none where only one call can do it."""

    name: str
    op: str
    kernels: tuple[Measured, ...]


@dataclass(frozen=True)
class Tuning:
    """A log; :meth:`to_json` and :func:`load_tuning` are its form in a file."""

    format: int
    model: str
    #: The model's digest (:attr:`hilc.source.Source.digest`).
    digest: str
    cpu: str
    compiler: str
    board: str
    #: What was counted: ``instructions`` or ``cycles``.
    counter: str
    layers: tuple[TunedLayer, ...]

    def to_json(self) -> bytes:
        return json_bytes(asdict(self))

    @property
    def counts(self) -> Mapping[str, tuple[Measured, ...]]:
        """The measured kernels by the layer's name."""
        return {layer.name: layer.kernels for layer in self.layers}

    def check(self, source: Source, cpu: Cpu, compiler: str) -> None:
        """Refuse a log that was made for something else."""
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
    """The log in a file; :class:`~hilc.errors.InputError` where it is none."""
    check_regular(path, _REMEDY)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"the tuning log {path} cannot be read: {error.strerror}") from None
    value = parse_json(data, str(path), _REMEDY)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else None
        raise InputError(
            f"{path} is no tuning log of format {FORMAT}: its format is {found!r}",
            "write one with `hil tune`",
        )
    return decode(Tuning, value, str(path))
