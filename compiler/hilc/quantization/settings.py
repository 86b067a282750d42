"""What the user chooses of a quantization, checked when it is stated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.support.suggest import listed

#: Types of activations: the least and the largest number.
ACTIVATIONS: Mapping[str, tuple[int, int]] = {"int8": (-128, 127), "uint8": (0, 255)}
#: How ranges of activations are found from samples.
CALIBRATORS: Mapping[str, str] = {
    "minmax": "all values",
    "entropy": "the range whose quantized distribution is nearest (onnxruntime)",
    "percentile": "all but the outermost values",
    "mse": "the range of the least squared error (torchao)",
}


@dataclass(frozen=True)
class Settings:
    """Settings of a quantizer. Raises :class:`~hilc.errors.InputError` for unknown ones."""

    #: One of :data:`CALIBRATORS`.
    calibrator: str = "minmax"
    #: Of the calibrator `percentile`: the share of values inside of the range, in percent.
    percentile: float = 99.999
    #: One of :data:`ACTIVATIONS`.
    activations: str = "int8"
    #: Weights have a scale for each output channel, or one for all.
    per_channel: bool = True
    #: Nodes that stay in floats, by name.
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for what, value, known in (
            ("calibrator", self.calibrator, CALIBRATORS),
            ("type of activations", self.activations, ACTIVATIONS),
        ):
            if value not in known:
                raise InputError(
                    f"{value!r} is no {what}", f"choose {listed(map(str, known), 'or')}"
                )
        if not 50 < self.percentile <= 100:
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
