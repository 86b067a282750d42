"""``--energy ppk2:...``: Nordic's Power Profiler Kit II, through the package ppk2-api.

The kit samples the current 100,000 times a second, with its eight logic inputs; the voltage is the
one that it supplies (``source_mv``), or the one of the board's own supply (``supply_mv``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hil.energy.recording import Recording
from hil.energy.registry import settings_of, whole_setting
from hil.errors import DeviceError, InputError
from hilc.support import optional

SAMPLES_PER_S = 100_000
_NAME = "ppk2"
_SETTINGS = {
    "port": "its serial port, where several are connected",
    "source_mv": "supply the board with this voltage in mV",
    "supply_mv": "measure only; the voltage in mV of the board's own supply",
    "trigger": "the logic input D0 to D7 of the trigger, 0 to 7 (default: 0)",
}
_WRITE_LIMIT_S = 1.0
_POLL_S = 0.002
#: Time in which the samples that were on their way arrive.
_DRAIN_S = 0.1
#: Bytes of a sample.
_WORD = 4
#: More is no measurement but a forgotten one: an hour.
_MOST_BYTES = 3600 * SAMPLES_PER_S * _WORD


class Ppk2:
    """A connected kit, which supplies or watches the board."""

    def __init__(self, kit: Any, port: str, voltage_v: float, trigger: int) -> None:
        self._kit = kit
        self._port = port
        self._voltage_v = voltage_v
        self._trigger = trigger
        self._data = bytearray()
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Begin to record, in a thread of its own."""
        self._data.clear()
        self._error = None
        self._ended.clear()
        # A part of a sample that an earlier recording left.
        self._kit.remainder = {"sequence": b"", "len": 0}
        self._kit.start_measuring()
        self._reader = threading.Thread(target=self._read, name="hil-ppk2", daemon=True)
        self._reader.start()

    def stop(self) -> Recording:
        """Return the samples since :meth:`start`."""
        self._kit.stop_measuring()
        time.sleep(_DRAIN_S)
        self._ended.set()
        if self._reader is not None:
            self._reader.join()
            self._reader = None
        if self._error is not None:
            raise DeviceError(
                f"the PPK2 at {self._port} failed while it recorded: {self._error}",
                "check its cable, and connect it again",
            ) from None
        whole = len(self._data) // _WORD * _WORD
        if not whole:
            raise DeviceError(
                f"the PPK2 at {self._port} sent no samples", "disconnect it and connect it again"
            )
        # All at once: the package takes a part of a sample, or nothing, for a sample.
        micro_amperes, logic = self._kit.get_samples(bytes(self._data[:whole]))
        return recording_of(micro_amperes, logic, self._voltage_v, self._trigger, self._port)

    def _read(self) -> None:
        try:
            while not self._ended.is_set():
                self._data += self._kit.get_data()
                if len(self._data) > _MOST_BYTES:
                    raise OverflowError("an hour of samples was recorded")
                time.sleep(_POLL_S)
            self._data += self._kit.get_data()
        except Exception as error:  # of the package and of the serial port
            self._error = error


def recording_of(
    micro_amperes: Any, logic: Any, voltage_v: float, trigger: int, source: str
) -> Recording:
    """Return the recording of what the package's ``get_samples`` returned."""
    current_a = np.asarray(micro_amperes, dtype=np.float64) * 1e-6
    bits = np.asarray(logic, dtype=np.int64)
    return Recording(
        np.arange(len(current_a)) / SAMPLES_PER_S,
        current_a,
        np.full(len(current_a), voltage_v),
        (bits >> trigger & 1).astype(np.bool_),
        f"the PPK2 at {source}",
    )


def check(argument: str) -> None:
    """Raise for settings that are not valid, and without the package."""
    _chosen(argument)
    _package()


def _chosen(argument: str) -> tuple[dict[str, str], bool, int, int]:
    """Return the settings, whether the kit supplies the board, the voltage in mV, the input."""
    settings = settings_of(_NAME, argument, _SETTINGS)
    modes = [key for key in ("source_mv", "supply_mv") if key in settings]
    if len(modes) != 1:
        raise InputError(
            "the meter 'ppk2' needs either source_mv or supply_mv",
            "write ppk2:source_mv=3300 where it supplies the board, ppk2:supply_mv=3300 where the "
            "board has its own supply",
        )
    voltage = whole_setting(_NAME, settings, modes[0], None, 800, 5000)
    trigger = whole_setting(_NAME, settings, "trigger", 0, 0, 7)
    return settings, modes[0] == "source_mv", voltage, trigger


def _package() -> Any:
    return optional.require("ppk2_api.ppk2_api", "the meter 'ppk2'")


@contextmanager
def opened(argument: str) -> Iterator[Ppk2]:
    """Connect to the kit; the board's supply stays on when the context ends.

    Raise :class:`DeviceError` if the port cannot be opened or is not that of a kit.
    """
    settings, supplies, voltage_mv, trigger = _chosen(argument)
    package = _package()
    port = settings.get("port") or _only_port(package)
    try:
        kit = package.PPK2_API(
            port, timeout=_WRITE_LIMIT_S, write_timeout=_WRITE_LIMIT_S, exclusive=True
        )
    except (OSError, ValueError) as error:
        raise DeviceError(
            f"the PPK2 at {port} cannot be opened: {error}", "is another program using it?"
        ) from None
    try:
        if not kit.get_modifiers():
            raise DeviceError(
                f"the device at {port} does not answer like a PPK2",
                "check the port, and disconnect the kit and connect it again",
            )
        (kit.use_source_meter if supplies else kit.use_ampere_meter)()
        kit.set_source_voltage(voltage_mv)
        if supplies:
            kit.toggle_DUT_power("ON")
        yield Ppk2(kit, port, voltage_mv / 1000, trigger)
    finally:
        kit.ser.close()


def _only_port(package: Any) -> str:
    ports = sorted(package.PPK2_API.list_devices())
    # The newer firmware of the kit has two ports, of which the first takes commands.
    if not ports:
        raise DeviceError("no PPK2 is connected", "connect it, or give its port: ppk2:port=...")
    if len(ports) > 2:
        raise DeviceError(
            f"several PPK2 are connected: {', '.join(ports)}", "choose one: ppk2:port=..."
        )
    return str(ports[0])
