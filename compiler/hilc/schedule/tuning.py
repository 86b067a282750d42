"""Logs of measured costs: written by ``hil tune``, used by the search.

A log belongs to one model, one core and one version of the compiler, and is refused for any other.
It is good for every board of the core: the one that it was measured on is named for the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hilc.errors import InputError
from hilc.lowering.choice import Group, KernelSelection
from hilc.support.counters import Counter
from hilc.support.inputs import check_regular
from hilc.support.jsondata import decode, json_bytes, parse_json
from hilc.support.suggest import nearest
from hilc.target import Cpu

#: Version of the log's format.
FORMAT = 3
#: The format that named kernels by their positions.
_FORMAT_OF_POSITIONS = 2
#: Goals whose code is shared among layers as that of another.
_SHARED_ALIKE = {"ram": "balanced"}
#: Above each count and size.
_LARGEST = 1 << 53
_REMEDY = "give a log that `hil tune` wrote"
_AGAIN = "measure again with `hil tune`, or compile without --tuning"
_NAMES_SHOWN = 3


@dataclass(frozen=True)
class Measured:
    """A kernel variant that can compute a layer; ``count`` is its measured cost."""

    variant: str
    count: int


@dataclass(frozen=True)
class TunedLayer:
    """A layer with its measured kernel variants, the one that is expected to be the fastest
    first.
    """

    name: str
    op: str
    kernels: tuple[Measured, ...]


@dataclass(frozen=True)
class TunedGroup:
    """A fused group of a program; ``count`` is its measured cost there."""

    group: Group
    count: int


@dataclass(frozen=True)
class TunedProgram:
    """A program that ran as a whole."""

    #: The goal whose sharing of code it was built with.
    sharing: str
    #: Kernel variants of single layers, as in :class:`hilc.lowering.choice.KernelSelection`.
    kernels: Mapping[str, str]
    groups: tuple[TunedGroup, ...]
    workspace_bytes: int
    #: Measured cost of an inference.
    count: int

    @property
    def choice(self) -> KernelSelection:
        """The kernel of each layer and the fused groups."""
        return KernelSelection(self.kernels, tuple(tuned.group for tuned in self.groups))


def sharing_of(optimize: str) -> str:
    """Return the representative of the goals that share code alike."""
    return _SHARED_ALIKE.get(optimize, optimize)


@dataclass(frozen=True)
class Tuning:
    """Measurement log; :meth:`to_json` and :func:`load_tuning` convert it to and from a file."""

    format: int
    model: str
    #: Digest of the model (:attr:`hilc.source.PreparedModel.digest`).
    digest: str
    cpu: str
    compiler: str
    #: Board of the measurement; the counts apply to any board with the core.
    board: str
    #: Unit of the counts: ``instructions`` of an emulator, or ``cycles`` of hardware.
    counter: Counter
    layers: tuple[TunedLayer, ...]
    programs: tuple[TunedProgram, ...]

    def to_json(self) -> bytes:
        """Return the tuning log as JSON."""
        return json_bytes(asdict(self))

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Measured costs, by the layer's name and the variant's."""
        return {
            layer.name: {measured.variant: measured.count for measured in layer.kernels}
            for layer in self.layers
        }

    @property
    def groups(self) -> Mapping[Group, int]:
        """Measured cost of each fused group of a program."""
        return {tuned.group: tuned.count for p in self.programs for tuned in p.groups}

    def shared_as(self, optimize: str) -> Iterator[TunedProgram]:
        """Yield the programs whose code is shared as the goal ``optimize`` shares it."""
        return (p for p in self.programs if p.sharing == sharing_of(optimize))

    def program(self, optimize: str, choice: KernelSelection) -> TunedProgram | None:
        """Return the program of a choice, built for a goal; None if it was not measured."""
        return next((p for p in self.shared_as(optimize) if p.choice == choice), None)

    def check(self, model: str, digest: str, cpu: Cpu, compiler: str) -> None:
        """Raise :class:`~hilc.errors.InputError` for a log of another digest, core or compiler
        version; ``model`` is the model's name.
        """
        for what, own, wanted in (
            ("version of the compiler", self.compiler, compiler),
            ("core", self.cpu, cpu.name),
            ("model", (self.model, self.digest[:12]), (model, digest[:12])),
        ):
            differs = self.digest != digest if what == "model" else own != wanted
            if differs:
                raise InputError(
                    f"the tuning log was made for another {what}: {_words(own)}, "
                    f"not {_words(wanted)}",
                    _AGAIN,
                )

    def check_layers(self, layers: Collection[str], variants: Callable[[str], list[str]]) -> None:
        """Raise :class:`~hilc.errors.InputError` for a log without effect: it names none of the
        model's ``layers``, or a kernel variant that its layer does not have.

        ``variants`` returns the names of the kernel variants of a layer.
        """
        named = [layer.name for layer in self.layers]
        if layers and named and not set(layers) & set(named):
            raise InputError(
                f"the tuning log names no layer of the model: it names {_some(named)}, and the "
                f"model has {_some(layers)}",
                _AGAIN,
            )
        measured = [(layer.name, each.variant) for layer in self.layers for each in layer.kernels]
        measured += [item for program in self.programs for item in program.kernels.items()]
        for layer, variant in measured:
            if layer in layers and variant not in (known := variants(layer)):
                raise InputError(
                    f"the tuning log names the kernel variant {variant!r}, which the layer "
                    f"{layer!r} does not have{nearest(variant, known)}: it has {', '.join(known)}",
                    _AGAIN,
                )


def _some(names: Collection[str]) -> str:
    """Return the first names, and how many there are beyond them."""
    shown = ", ".join(map(repr, list(names)[:_NAMES_SHOWN]))
    return shown + f" and {len(names) - _NAMES_SHOWN} more" * (len(names) > _NAMES_SHOWN)


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
    if isinstance(value, dict) and value.get("format") == _FORMAT_OF_POSITIONS:
        raise InputError(
            f"{path} is a tuning log of format {_FORMAT_OF_POSITIONS}, which states kernels by "
            f"position; format {FORMAT} states the names of kernel variants",
            "measure again with `hil tune`",
        )
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else None
        raise InputError(
            f"{path} is not a tuning log of format {FORMAT}: its format is {found!r}",
            "write one with `hil tune`",
        )
    try:
        log = decode(Tuning, value, str(path))
    except InputError as error:
        raise InputError(error.fact, _REMEDY) from None
    _check(log, str(path))
    return log


def _check(log: Tuning, label: str) -> None:
    """Raise for values that have valid types but cannot be measurements."""

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise InputError(f"{label}: {what}", _REMEDY)

    counts = [kernel.count for layer in log.layers for kernel in layer.kernels]
    names = [layer.name for layer in log.layers]
    require(bool(names), "it has no layers")
    require(len(set(names)) == len(names), "a layer is there twice")
    for layer in log.layers:
        variants = [measured.variant for measured in layer.kernels]
        require(len(set(variants)) == len(variants), f"{layer.name!r} has a kernel variant twice")
    for program in log.programs:
        counts += [program.count, *(tuned.count for tuned in program.groups)]
        require(0 <= program.workspace_bytes < _LARGEST, "a program has no such workspace")
        for tuned in program.groups:
            nodes, kernels = tuned.group.nodes, tuned.group.kernels
            require(len(nodes) > 0, "a group has no layers")
            require(0 < tuned.group.rows < _LARGEST, f"a group of {tuned.group.rows} rows")
            require(len(kernels) in (0, len(nodes)), "a group has not one kernel a layer")
            sliced = tuned.group.sliced
            require(0 <= sliced < _LARGEST, f"a group of slices of {sliced} channels")
    for count in counts:
        require(0 <= count < _LARGEST, f"a count is {str(count)[:20]}, which nothing measures")
