"""``--energy joulescope:...``: a Joulescope, through its package joulescope.

It samples current and voltage, and its general purpose inputs with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from hil.energy.recording import Recording
from hil.energy.registry import settings_of, whole_setting
from hil.errors import DeviceError, InputError
from hilc.support import optional

_NAME = "joulescope"
_SETTINGS = {
    "serial": "its serial number, where several are connected",
    "trigger": "the general purpose input of the trigger, 0 or 1 (default: 0)",
    "rate": "samples a second (default: 200000)",
    "seconds": "the longest recording in seconds (default: 30)",
}
#: The rates that the package knows.
_RATES = [step * 10**power for power in range(3, 6) for step in (1, 2, 5)] + [1_000_000]
#: The package's names of the inputs: they took the place of the lowest bits of the first model.
_INPUTS = ("current_lsb", "voltage_lsb")


class Joulescope:
    """An open Joulescope."""

    def __init__(self, device: Any, trigger: int) -> None:
        self._device = device
        self._trigger = trigger

    def start(self) -> None:
        """Begin to record into the package's buffer."""
        self._device.start()

    def stop(self) -> Recording:
        """Return the samples since :meth:`start`."""
        self._device.stop()
        buffer = self._device.stream_buffer
        first, end = buffer.sample_id_range
        if first is None or end <= first:
            raise DeviceError(f"{self._device} sent no samples", "connect it again")
        if end - first >= len(buffer) - 1:
            raise InputError(
                f"{self._device} recorded more than its buffer holds",
                "measure fewer inferences (--runs), or give it more seconds or a lower rate",
            )
        field = _INPUTS[self._trigger]
        samples = buffer.samples_get(first, end, fields=["current", "voltage", field])
        return recording_of(samples, field, str(self._device))


def recording_of(samples: Mapping[str, Any], field: str, source: str) -> Recording:
    """Return the recording in what the package's ``samples_get`` returned."""
    signals = samples["signals"]
    current = np.asarray(signals["current"]["value"], dtype=np.float64)
    voltage = np.asarray(signals["voltage"]["value"], dtype=np.float64)
    rate = samples["time"]["output_sampling_frequency"]["value"]
    # The first samples of a stream may be missing, which the package marks by NaN.
    known = np.flatnonzero(np.isfinite(current) & np.isfinite(voltage))
    first = int(known[0]) if known.size else 0
    return Recording(
        np.arange(len(current) - first) / rate,
        current[first:],
        voltage[first:],
        np.asarray(signals[field]["value"])[first:] > 0,
        source,
    )


def check(argument: str) -> None:
    """Raise for settings that are not valid, and without the package."""
    _chosen(argument)
    _package()


def _chosen(argument: str) -> tuple[str | None, int, int, int]:
    """Return the serial number, the input, the rate and the seconds."""
    settings = settings_of(_NAME, argument, _SETTINGS)
    rate = whole_setting(_NAME, settings, "rate", 200_000, _RATES[0], _RATES[-1])
    if rate not in _RATES:
        known = ", ".join(map(str, _RATES))
        raise InputError(f"a Joulescope does not sample at {rate} a second", f"choose {known}")
    return (
        settings.get("serial"),
        whole_setting(_NAME, settings, "trigger", 0, 0, 1),
        rate,
        whole_setting(_NAME, settings, "seconds", 30, 1, 3600),
    )


def _package() -> Any:
    return optional.require("joulescope", "the meter 'joulescope'")


@contextmanager
def opened(argument: str) -> Iterator[Joulescope]:
    """Open the Joulescope; the current flows through it also when the context has ended.

    Raise :class:`DeviceError` if it cannot be opened.
    """
    serial, trigger, rate, seconds = _chosen(argument)
    device = _chosen_device(_package().scan(config="auto"), serial)
    try:
        device.parameter_set("buffer_duration", seconds)
        device.parameter_set("sampling_frequency", rate)
        device.open()
    except Exception as error:  # of the package and of its driver
        raise DeviceError(
            f"{device} cannot be opened: {error}", "is another program using it?"
        ) from None
    try:
        if device.model == "js110":
            for name, source in zip(_INPUTS, ("gpi0", "gpi1"), strict=True):
                device.parameter_set(name, source)
        yield Joulescope(device, trigger)
    finally:
        device.close()


def _chosen_device(devices: list[Any], serial: str | None) -> Any:
    """Return the only device, or the one with the serial number."""
    fitting = [d for d in devices if serial in (None, d.serial_number)]
    found = ", ".join(map(str, devices))
    if not fitting:
        what = f"no Joulescope with the serial number {serial!r}" if serial else "no Joulescope"
        raise DeviceError(
            f"{what} is connected", f"there are {found}" if found else "connect it, or free it"
        )
    if len(fitting) > 1:
        raise DeviceError(
            f"several Joulescopes are connected: {found}", "choose one: joulescope:serial=..."
        )
    return fitting[0]
