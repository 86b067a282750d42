"""Recordings of current and voltage with a trigger, and the energy between its edges.

The trigger is high during an inference: the energy of one is the integral of voltage times current
from the sample at the rising edge to that at the falling edge, by the trapezoidal rule. An edge is
known to one sample, so energy and duration are wrong by one sample at each end at most.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.errors import InputError
from hil.results.bench import EnergyPerInference

Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
#: Fewer samples in an inference do not tell its energy.
_LEAST_SAMPLES = 10


@dataclass(frozen=True)
class Recording:
    """Samples of a supply: arrays of one dimension and equal length."""

    #: Seconds, ascending.
    time_s: Floats
    current_a: Floats
    voltage_v: Floats
    trigger: Bools
    #: For messages: a file or a device.
    source: str

    def __post_init__(self) -> None:
        arrays = (self.time_s, self.current_a, self.voltage_v, self.trigger)
        if any(array.shape != (len(self.time_s),) for array in arrays):
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise InputError(f"{self.source}: arrays of the shapes {shapes} are no samples")
        for name, values in (
            ("time", self.time_s),
            ("current", self.current_a),
            ("voltage", self.voltage_v),
        ):
            bad = np.flatnonzero(~np.isfinite(values))
            if bad.size:
                raise InputError(
                    f"{self.source}: sample {bad[0]} has no {name} ({values[bad[0]]})",
                    "record again; a meter that loses samples needs a faster computer",
                )
        back = np.flatnonzero(np.diff(self.time_s) <= 0)
        if back.size:
            raise InputError(
                f"{self.source}: the time of sample {back[0] + 1} is not after that of the one "
                "before",
                "sort the samples by time",
            )


@dataclass(frozen=True)
class Energy:
    """Energy of an inference, from the windows of a recording in which the trigger was high."""

    #: Source of the recording: a file or a device.
    source: str
    #: Energy of each window in joules, and its duration in seconds.
    windows: tuple[tuple[float, float], ...]
    #: Mean power outside of the windows in watts; None where the recording has no such samples.
    idle_w: float | None

    @property
    def per_inference_j(self) -> float:
        """Median over the windows."""
        return statistics.median(joules for joules, _ in self.windows)

    @property
    def duration_s(self) -> float:
        """Median over the windows."""
        return statistics.median(seconds for _, seconds in self.windows)

    def entry(self) -> EnergyPerInference:
        """Return the energy as results have it, in microjoules."""
        joules = [energy for energy, _ in self.windows]
        return EnergyPerInference(
            per_inference_uj=1e6 * self.per_inference_j,
            inferences=len(self.windows),
            source=self.source,
            min_uj=1e6 * min(joules),
            max_uj=1e6 * max(joules),
            duration_us=1e6 * self.duration_s,
            mean_power_mw=1e3 * self.per_inference_j / self.duration_s,
            idle_power_mw=None if self.idle_w is None else 1e3 * self.idle_w,
        )


def energy_of(recording: Recording) -> Energy:
    """Return the energy of the inferences in a recording.

    A window that is cut off by an end of the recording does not count. Raise
    :class:`~hil.errors.InputError` if there is no whole one, or the samples are too far apart.
    """
    edges = np.diff(recording.trigger.astype(np.int8))
    rising = np.flatnonzero(edges == 1) + 1
    falling = np.flatnonzero(edges == -1) + 1
    windows = _whole(rising, falling)
    if not windows:
        state = "always high" if recording.trigger.all() else "never high"
        if recording.trigger.any() and not recording.trigger.all():
            state = "not high from a rising to a falling edge"
        raise InputError(
            f"{recording.source}: in {len(recording.time_s):,} samples the trigger is {state}, so "
            "no inference is in it",
            "let a pin of the board be high during an inference, wire it to the meter's input, and "
            "record from before the first inference to after the last",
        )
    shortest = min(end - start for start, end in windows)
    if shortest < _LEAST_SAMPLES:
        raise InputError(
            f"{recording.source}: an inference has {shortest} samples only",
            "sample faster, or let the trigger be high for several inferences",
        )
    power = recording.current_a * recording.voltage_v
    outside = np.ones(len(power), dtype=bool)
    for start, end in windows:
        outside[start : end + 1] = False
    outside &= ~recording.trigger
    measured = tuple(
        (
            _integral(power[start : end + 1], recording.time_s[start : end + 1]),
            float(recording.time_s[end] - recording.time_s[start]),
        )
        for start, end in windows
    )
    idle_w = float(power[outside].mean()) if outside.any() else None
    return Energy(recording.source, measured, idle_w)


def _whole(
    rising: npt.NDArray[np.intp], falling: npt.NDArray[np.intp]
) -> Sequence[tuple[int, int]]:
    """Return the pairs of a rising edge and the falling one after it."""
    # Edges alternate; a recording may begin within a window, or end in one.
    if not rising.size:
        return []
    after = falling[np.searchsorted(falling, rising[0], side="right") :]
    return [(int(start), int(end)) for start, end in zip(rising, after, strict=False)]


def _integral(values: Floats, time_s: Floats) -> float:
    return float(np.sum((values[1:] + values[:-1]) * np.diff(time_s)) / 2)
