"""Settings of a quantization, checked on construction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.support.suggest import listed


@dataclass(frozen=True)
class Activations:
    """A type of activations, and how ranges become quantizations of it."""

    #: The least and the largest number.
    low: int
    high: int
    #: Whether the zero point is 0, so that no kernel adds one.
    symmetric: bool = False

    @property
    def shares(self) -> tuple[float, int]:
        """The scale and the zero point of numbers from 0 to 1."""
        return (1 / (self.high + 1), 0) if self.symmetric else (1 / 256, self.low)

    def reach(self, count: int) -> float:
        """Return the least distance of the other scores from the largest of ``count`` at which
        their softmax sums to half a step.
        """
        return math.log(2 * count / self.shares[0])


#: Types of activations.
ACTIVATIONS: Mapping[str, Activations] = {
    "int8": Activations(-128, 127),
    "uint8": Activations(0, 255),
    "int16": Activations(-32768, 32767, symmetric=True),
}
#: Scores up to this one, which a mask sets, are as good as minus infinity for a softmax.
MASKED = -1e4
#: Methods that find ranges of activations from samples.
CALIBRATORS: Mapping[str, str] = {
    "minmax": "all values",
    "entropy": "the range whose quantized distribution is nearest (onnxruntime, 8 bits)",
    "percentile": "all but the outermost values",
    "mse": "the range of the least squared error (torchao)",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a quantizer. Raises :class:`~hilc.errors.InputError` for unknown ones."""

    #: One of :data:`CALIBRATORS`.
    calibrator: str = "minmax"
    #: For the calibrator `percentile`: share of values inside the range, in percent
    #: (:attr:`share` where it is None).
    percentile: float | None = None
    #: One of :data:`ACTIVATIONS`.
    activations: str = "int8"
    #: Weights have a scale for each output channel, or one for all.
    per_channel: bool = True
    #: Nodes that stay in floats, by name.
    exclude: tuple[str, ...] = ()
    #: The samples are one sequence: states are reset before the first only.
    keep_state: bool = False

    @property
    def share(self) -> float:
        """The share of values inside of the range, in percent, of the calibrator `percentile`."""
        return 99.999 if self.percentile is None else self.percentile

    def __post_init__(self) -> None:
        for what, value, known in (
            ("calibrator", self.calibrator, CALIBRATORS),
            ("type of activations", self.activations, ACTIVATIONS),
        ):
            if value not in known:
                raise InputError(
                    f"{value!r} is no {what}", f"choose {listed(map(str, known), 'or')}"
                )
        if self.calibrator == "entropy" and self.activations == "int16":
            raise InputError(
                "the calibrator 'entropy' chooses ranges for the levels of 8 bits, which cut off "
                "more than 16 bits have to",
                "choose minmax or percentile for activations of int16",
            )
        if self.percentile is not None and self.calibrator != "percentile":
            raise InputError(
                f"the percentile {self.percentile} was given, and the calibrator "
                f"{self.calibrator!r} has none",
                "choose the calibrator percentile as well (--calibrator percentile, in Python "
                "calibrator='percentile'), or leave out the percentile",
            )
        if not 50 < self.share <= 100:
            raise InputError(
                f"the percentile {self.percentile!r} is not above 50 and at most 100",
                "give the share of the values inside of the range: 99.99",
            )

    def require_calibrator(self, known: Iterable[str], quantizer: str) -> None:
        """Raise :class:`~hilc.errors.InputError` unless a quantizer has the calibrator."""
        names = list(known)
        if self.calibrator not in names:
            raise InputError(
                f"{quantizer} has no calibrator {self.calibrator!r}",
                f"choose {listed(names, 'or')}",
            )
