"""What kind of difference a layer has: its pattern in the tensor, and what causes such a pattern.

:func:`diagnose` compares the pairs of tensors, expected and got, of the first layer that differs.
It first looks at what a second run of the layer showed (:class:`Evidence`), then whether the
differences are confined to one channel, row, column or position, then whether one arithmetic
change explains all of them, and last how large and how many they are. Each test is exact or has
the tolerance of rounding that its docstring derives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

from hil.results.verify import Culprit, Diagnosis, Element
from hilc.artifact.library import Layer, TensorInfo
from hilc.ir import Array

#: Most pairs of one tensor that are kept for a diagnosis.
PAIRS_MAX = 8
#: Names of the axes of a tensor by its number of dimensions; the last one holds the channels.
_AXES = {1: "C", 2: "NC", 3: "NHC", 4: "NHWC", 5: "NDHWC"}
_NAMES = {"N": "batch", "D": "depth", "H": "row", "W": "column", "C": "channel"}
#: Highest probability at which differences that are spread at random would be so confined.
_CHANCE = 0.05
_CHANCE_OF_SOME = 1e-3
#: Least number of elements that support an arithmetic explanation.
_SUPPORT = 4
#: Highest rounding, relative to the median magnitude, at which a factor means something.
_COARSE = 0.5
#: Most indices of an axis in a sentence.
_LISTED = 8


class Kind(str, Enum):
    """Kinds of differences; the values are those of ``hil verify --json``."""

    OVERWRITTEN = "overwritten input"
    UNINITIALISED = "uninitialised memory"
    NOT_REPEATABLE = "varies between runs"
    NOT_A_NUMBER = "not a number"
    SATURATED = "saturated"
    NOT_CLAMPED = "not clamped"
    ONE_CHANNEL = "one channel"
    ONE_POSITION = "one position"
    ONE_ROW = "one row"
    ONE_COLUMN = "one column"
    CONSTANT = "constant"
    DISPLACED = "displaced"
    SHIFTED = "shifted zero point"
    SCALED = "scaled"
    CHANNEL_OFFSETS = "offset in each channel"
    ROUNDING = "rounding by 1"
    SOME_CHANNELS = "some channels"
    SOME_ROWS = "some rows"
    SOME_COLUMNS = "some columns"
    SCATTERED = "scattered"
    ALL_WRONG = "all wrong"


@dataclass(frozen=True)
class Pair:
    """A tensor of one sample that differs: the reference's and the board's, of equal shape."""

    sample: int
    expected: Array
    got: Array
    #: Which elements count as different; floats have a tolerance.
    different: Array


@dataclass(frozen=True)
class Evidence:
    """What further runs of a layer showed, on the first sample that differs.

    The masks have the tensor's shape; None where the model cannot be examined so.
    """

    #: Elements that depend on what was in memory before the layer ran.
    dependent: Array | None = None
    #: Those of them that keep what was there: nothing writes them.
    unwritten: Array | None = None
    #: Elements that differ between two runs on the same memory.
    varying: Array | None = None
    #: Name of an input that was right when it was computed and had changed when the layer began,
    #: and the index and name of the layer after which it had.
    overwritten: str | None = None
    overwriter: tuple[int, str] | None = None

    @property
    def shows_something(self) -> bool:
        """Whether the layer used more than its inputs, or other inputs than were computed."""
        masks = (self.dependent, self.varying)
        return self.overwritten is not None or any(m is not None and m.any() for m in masks)


NO_EVIDENCE = Evidence()


def axes_of(dimensions: int) -> str:
    """Return a letter for each axis; digits where a tensor has more than five."""
    return _AXES.get(dimensions, "0123456789abcdef"[:dimensions])


def diagnose(
    number: int,
    layer: Layer,
    tensor: TensorInfo,
    pairs: Sequence[Pair],
    evidence: Evidence = NO_EVIDENCE,
    uncompared: Sequence[str] = (),
) -> Diagnosis:
    """Return the diagnosis of layer ``number``, whose output ``tensor`` differs in ``pairs``.

    ``evidence`` is of the first pair's sample. At least one element differs in each pair.
    """
    seen = _Seen(tensor, pairs, evidence)
    kind, why = next(found for test in _TESTS if (found := test(seen)) is not None)
    return Diagnosis(
        layer=number,
        name=layer.name,
        op=layer.op,
        group=layer.group,
        tensor=tensor.name,
        shape=tensor.shape,
        axes=axes_of(len(tensor.shape)),
        dtype=tensor.dtype,
        scale=tensor.scale,
        zero_point=tensor.zero_point,
        kind=kind,
        sentence=_sentence(seen, kind, why),
        different=seen.count,
        size=seen.mask.size,
        samples=len(pairs),
        max_abs_diff=seen.largest_step if seen.is_integer else seen.max_abs_diff,
        max_abs_diff_real=seen.real_step(seen.max_abs_diff),
        confined=seen.confined,
        first=seen.element(int(np.argmax(seen.mask))),
        largest=seen.element(int(np.argmax(seen.magnitude))),
        culprit=Culprit(*evidence.overwriter) if evidence.overwriter else None,
        uncompared=tuple(uncompared),
    )


class _Seen:
    """The pairs of a tensor, stacked: axis 0 is the sample, the others are the tensor's."""

    def __init__(self, tensor: TensorInfo, pairs: Sequence[Pair], evidence: Evidence) -> None:
        self.tensor = tensor
        self.pairs = pairs
        self.evidence = evidence
        self.expected = np.stack([pair.expected for pair in pairs])
        self.got = np.stack([pair.got for pair in pairs])
        self.mask = np.stack([pair.different for pair in pairs])
        self.count = int(np.count_nonzero(self.mask))
        self.axes = axes_of(self.mask.ndim - 1)
        self.is_integer = bool(np.issubdtype(self.expected.dtype, np.integer))

    @cached_property
    def delta(self) -> Array:
        """Got minus expected; float64 holds every difference of types up to 32 bits."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self.got.astype(np.float64) - self.expected.astype(np.float64)

    @cached_property
    def magnitude(self) -> Array:
        """Absolute differences where elements count as different, infinite for NaN; else -1."""
        size = np.nan_to_num(np.abs(self.delta), nan=np.inf, posinf=np.inf)
        return np.where(self.mask, size, -1.0)

    @property
    def max_abs_diff(self) -> float:
        return float(self.magnitude.max())

    @property
    def largest_step(self) -> int:
        return int(self.max_abs_diff)

    def real_step(self, steps: float) -> float | None:
        return None if self.tensor.scale is None else steps * self.tensor.scale

    @cached_property
    def indices(self) -> tuple[Array, ...]:
        """For each axis of the tensor, the index of each different element."""
        return tuple(np.nonzero(self.mask)[1:])

    def size(self, axis: int) -> int:
        return int(self.mask.shape[axis + 1])

    def axis(self, letter: str) -> int | None:
        """Return the axis with this letter if the tensor has several indices along it."""
        at = self.axes.find(letter)
        return at if at >= 0 and self.size(at) > 1 else None

    @cached_property
    def used(self) -> tuple[Array, ...]:
        """For each axis of the tensor, the distinct indices with differences."""
        return tuple(np.unique(indices) for indices in self.indices)

    @cached_property
    def confined(self) -> dict[str, tuple[int, ...]]:
        return {
            letter: tuple(int(i) for i in used)
            for at, (letter, used) in enumerate(zip(self.axes, self.used, strict=True))
            if self.size(at) > 1 and 2 * len(used) <= self.size(at)
        }

    def is_one(self, letter: str) -> bool:
        """Return whether the differences share their index along an axis, and not by chance."""
        at = self.axis(letter)
        if at is None or len(self.used[at]) != 1:
            return False
        return float(self.size(at)) ** (1 - self.count) < _CHANCE

    def interior(self) -> Array:
        """Elements that neither side has at the end of its range, where results are clamped."""
        inside = np.ones(self.mask.shape, bool)
        for values in (self.expected, self.got):
            inside &= (values > values.min()) & (values < values.max())
        return inside

    def element(self, flat: int) -> Element:
        place = tuple(int(i) for i in np.unravel_index(flat, self.mask.shape))
        expected, got = self.expected[place].item(), self.got[place].item()
        return Element(
            self.pairs[place[0]].sample,
            place[1:],
            self.channel(place[-1]) if len(place) > 1 else None,
            expected,
            got,
            self._real(expected),
            self._real(got),
        )

    def channel(self, index: int) -> int:
        """Return a channel's number in the tensor of the model, of which this may be a part."""
        return index if self.tensor.channels is None else self.tensor.channels[index]

    def _real(self, value: float) -> float | None:
        scale, zero_point = self.tensor.scale, self.tensor.zero_point
        if scale is None or not self.is_integer:
            return None
        return (value - (zero_point or 0)) * scale


# -- tests in the order of their precedence ----------------------------------------------------

_Found = tuple[Kind, str] | None


def _overwritten(seen: _Seen) -> _Found:
    evidence = seen.evidence
    if evidence.overwritten is None:
        return None
    by = ""
    if evidence.overwriter is not None:
        number, name = evidence.overwriter
        by = f" since layer {number} {name!r} ran, which writes outside of its output"
    return Kind.OVERWRITTEN, f"its input {evidence.overwritten!r} had changed{by}"


def _uninitialised(seen: _Seen) -> _Found:
    dependent, unwritten = seen.evidence.dependent, seen.evidence.unwritten
    if dependent is None or not dependent.any():
        return None
    count = int(np.count_nonzero(dependent))
    why = f"{count} depend on what was in memory before"
    if unwritten is not None and (never := int(np.count_nonzero(unwritten))):
        why += f", and {never} of them are never written"
    return Kind.UNINITIALISED, why + _where(seen, dependent)


def _not_repeatable(seen: _Seen) -> _Found:
    varying = seen.evidence.varying
    if varying is None or not varying.any():
        return None
    count = int(np.count_nonzero(varying))
    return (
        Kind.NOT_REPEATABLE,
        f"{count} differ between two runs on the same memory, as with an interrupt, another core, "
        "or memory outside of the workspace that nothing has written",
    )


def _where(seen: _Seen, mask: Array) -> str:
    """Return the rows and channels of ``mask`` in words, where they are few."""
    said = []
    for letter in ("D", "H", "W", "C"):
        at = seen.axis(letter)
        if at is None:
            continue
        used = np.unique(np.nonzero(mask)[at])
        if 2 * len(used) <= seen.size(at):
            said.append(_indices(seen, letter, used))
    return f" ({', '.join(said)})" if said else ""


def _not_a_number(seen: _Seen) -> _Found:
    if seen.is_integer or seen.got.dtype == np.bool_:
        return None
    strange = seen.mask & ~np.isfinite(seen.got) & np.isfinite(seen.expected)
    if not strange.any():
        return None
    return Kind.NOT_A_NUMBER, f"{int(np.count_nonzero(strange))} are NaN or infinite"


def _one_place(seen: _Seen) -> _Found:
    if seen.is_one("C"):
        return Kind.ONE_CHANNEL, _all_in(seen, "C") + _manner(seen)
    if seen.is_one("H") and seen.is_one("W"):
        return Kind.ONE_POSITION, f"{_all_in(seen, 'H')}, {_indices(seen, 'W', seen.used[-2])}"
    if seen.is_one("H"):
        return Kind.ONE_ROW, _all_in(seen, "H") + _manner(seen)
    if seen.is_one("W"):
        return Kind.ONE_COLUMN, _all_in(seen, "W") + _manner(seen)
    return None


def _all_in(seen: _Seen, letter: str) -> str:
    at = seen.axes.index(letter)
    return f"all in {_indices(seen, letter, seen.used[at])} of {seen.size(at)}"


def _manner(seen: _Seen) -> str:
    """Return how the elements of one place differ, where that is simple; empty otherwise."""
    delta = seen.delta[seen.mask]
    if not seen.is_integer or len(delta) < 2:
        return ""
    if np.all(delta == delta[0]):
        return f", each by {delta[0]:+.0f}"
    if np.abs(delta).max() <= 1:
        return ", by 1 at most"
    return ""


def _constant(seen: _Seen) -> _Found:
    value = seen.got.flat[0]
    if seen.got[0].size < _SUPPORT or not np.all(seen.got == value):
        return None
    return Kind.CONSTANT, f"every element is {value}"


def _displaced(seen: _Seen) -> _Found:
    """Test whether the tensor is the expected one, moved by one index along an axis."""
    for at, letter in enumerate(seen.axes):
        if seen.axis(letter) is None or letter == "N":
            continue
        ahead = tuple([slice(None)] * (at + 1) + [slice(1, None)])
        behind = tuple([slice(None)] * (at + 1) + [slice(None, -1)])
        for step, to, source in ((1, ahead, behind), (-1, behind, ahead)):
            moved, stayed = seen.expected[source], seen.expected[to]
            support = int(np.count_nonzero(moved != stayed))
            if support >= 2 * _SUPPORT and np.array_equal(seen.got[to], moved):
                axis = _NAMES.get(letter, f"index of axis {letter}")
                return Kind.DISPLACED, f"the values are those expected one {axis} {_way(step)}"
    return None


def _way(step: int) -> str:
    return "before" if step > 0 else "behind"


def _saturated(seen: _Seen) -> _Found:
    """Test whether clamping the expected values gives what was got, or the reverse."""
    if not seen.is_integer:
        return None
    # What is cut off differs by more than a step, and not in an element or two.
    if seen.count < _SUPPORT or seen.largest_step <= 1:
        return None
    for kind, ours, theirs, verb in (
        (Kind.SATURATED, seen.got, seen.expected, "end at"),
        (Kind.NOT_CLAMPED, seen.expected, seen.got, "should end at"),
    ):
        low, high = ours.min(), ours.max()
        if low == high or not np.array_equal(ours, np.clip(theirs, low, high)):
            continue
        if len(np.unique(theirs[seen.mask])) < 2:
            continue
        ends = [low] * bool(theirs.min() < low) + [high] * bool(theirs.max() > high)
        return kind, f"the values {verb} {' and '.join(str(end) for end in ends)}"
    return None


def _shifted(seen: _Seen) -> _Found:
    """Test whether one offset explains all elements that are not clamped.

    The zero point of the output is added after rounding: the offset is exact. Where it is added
    before (an input's), rounding changes it by one step.
    """
    if not seen.is_integer or seen.mask.size < _SUPPORT:
        return None
    # The ends of an activation's range move with the zero point.
    is_everywhere = bool(np.all(seen.delta == seen.delta.flat[0]))
    delta = seen.delta if is_everywhere else seen.delta[seen.interior()]
    if delta.size < _SUPPORT:
        return None
    offset = float(np.median(delta))
    tolerance = 1.0 if abs(offset) >= 3 else 0.0
    if abs(offset) < 1 or np.abs(delta - offset).max() > tolerance:
        return None
    # Clamped elements move less, and never the other way.
    along = seen.delta * np.sign(offset)
    if along.min() < 0 or along.max() > abs(offset) + tolerance:
        return None
    return Kind.SHIFTED, f"the values lie {offset:+.0f} from the expected ones{_zero_point(seen)}"


def _zero_point(seen: _Seen) -> str:
    zero_point = seen.tensor.zero_point
    return "" if zero_point is None else f", whose zero point is {zero_point}"


def _scaled(seen: _Seen) -> _Found:
    """Test whether one factor explains all elements that are not clamped.

    Of ``got = round(f x)`` and ``expected = round(x)`` the first lies within ``0.5 + 0.5 |f|`` of
    ``f`` times the second.
    """
    inside = seen.interior()
    zero_point = seen.tensor.zero_point or 0
    expected = seen.expected[inside].astype(np.float64) - zero_point
    got = seen.got[inside].astype(np.float64) - zero_point
    if len(expected) < 2 * _SUPPORT or len(np.unique(expected)) < _SUPPORT:
        return None
    if not np.all(np.isfinite(expected) & np.isfinite(got)):
        return None
    factor = float(expected @ got) / max(float(expected @ expected), 1e-30)
    if seen.is_integer:
        tolerance = 0.5 + 0.5 * abs(factor) + 1e-3
        effect = abs(factor - 1) * np.abs(expected).max()
    else:
        tolerance = 1e-4 * float(np.abs(got).max())
        # In the unit of integers' steps, of which two are asked for.
        effect = abs(factor - 1) * 1e3
    # Values of a few steps, or one that outweighs all others, would fit any factor. Of those that
    # are the same whatever the factor, as zeros behind an activation, there may be any number.
    moved = np.abs(got[got != expected])
    if effect < 2 or len(moved) < 2 * _SUPPORT or tolerance > _COARSE * float(np.median(moved)):
        return None
    if np.abs(got - factor * expected).max() > tolerance:
        return None
    return Kind.SCALED, f"the values are {factor:.4g} times the expected ones"


def _channel_offsets(seen: _Seen) -> _Found:
    """Test whether each channel has one offset, up to rounding, where it is not clamped.

    A bias and an input's zero point are added to sums: a wrong one moves a channel's results by
    the same amount everywhere, up to one step of rounding.
    """
    channel = seen.axis("C")
    if channel is None or not seen.is_integer:
        return None
    inside = seen.interior()
    offsets, support = set(), 0
    for index in range(seen.size(channel)):
        delta = seen.delta[..., index][inside[..., index]]
        if not len(delta):
            continue
        offset = float(np.median(delta))
        if np.abs(delta - offset).max() > 1:
            return None
        offsets.add(round(offset))
        support += len(delta) - 1
    if support < _SUPPORT or max(map(abs, offsets)) < 2 or len(seen.used[channel]) == 1:
        return None
    return (
        Kind.CHANNEL_OFFSETS,
        f"each channel lies at an offset of its own ({min(offsets):+d} to {max(offsets):+d}), as "
        "with a wrong bias or a wrong zero point of the input",
    )


def _few_of_one_channel(seen: _Seen) -> _Found:
    """Test whether the few differences share their channel, which chance does not rule out."""
    channel = seen.axis("C")
    if channel is None or len(seen.used[channel]) != 1:
        return None
    return Kind.ONE_CHANNEL, _all_in(seen, "C") + _manner(seen)


def _rounding(seen: _Seen) -> _Found:
    if not seen.is_integer or seen.largest_step > 1:
        return None
    return Kind.ROUNDING, "none differs by more than 1"


def _some(seen: _Seen) -> _Found:
    """Test whether the differences leave most indices of an axis alone, and not by chance."""
    kinds = {"C": Kind.SOME_CHANNELS, "H": Kind.SOME_ROWS, "W": Kind.SOME_COLUMNS}
    for letter, kind in kinds.items():
        at = seen.axis(letter)
        if at is None or letter not in seen.confined:
            continue
        size, used = seen.size(at), len(seen.used[at])
        if comb(size, used) * (used / size) ** seen.count < _CHANCE_OF_SOME:
            return kind, _all_in(seen, letter)
    return None


def _rest(seen: _Seen) -> _Found:
    if 2 * seen.count < seen.mask.size:
        return Kind.SCATTERED, "without a pattern"
    return Kind.ALL_WRONG, "everywhere in the tensor"


_TESTS: tuple[Callable[[_Seen], _Found], ...] = (
    _overwritten,
    _not_repeatable,
    _uninitialised,
    _not_a_number,
    # Only some channels may reach the ends of a range.
    _saturated,
    _one_place,
    _constant,
    _displaced,
    _shifted,
    _scaled,
    _channel_offsets,
    _few_of_one_channel,
    _rounding,
    _some,
    _rest,
)


# -- words ---------------------------------------------------------------------------------------


def _indices(seen: _Seen, letter: str, used: Iterable[Any]) -> str:
    """Return ``channel 3``, ``rows 4 to 7`` or ``columns 1, 5, 9``."""
    listed = [seen.channel(int(i)) if letter == "C" else int(i) for i in used]
    name = _NAMES.get(letter, f"index of axis {letter}")
    if len(listed) == 1:
        return f"{name} {listed[0]}"
    if listed == list(range(listed[0], listed[-1] + 1)):
        return f"{name}s {listed[0]} to {listed[-1]}"
    shown = ", ".join(map(str, listed[:_LISTED]))
    return f"{name}s {shown}" + (", ..." if len(listed) > _LISTED else "")


def _sentence(seen: _Seen, kind: Kind, why: str) -> str:
    samples = len(seen.pairs)
    of = f" in {samples} samples" if samples > 1 else ""
    if np.isinf(seen.max_abs_diff):
        by = ""
    elif seen.is_integer:
        real = seen.real_step(seen.max_abs_diff)
        by = f", by up to {seen.largest_step}" + ("" if real is None else f" ({real:.4g})")
    elif seen.got.dtype == np.bool_:
        by = ""
    else:
        by = f", by up to {seen.max_abs_diff:.4g}"
    differ = "differs" if seen.count == 1 else "differ"
    return f"{kind.value}: {seen.count:,} of {seen.mask.size:,} elements{of} {differ}{by}; {why}"
