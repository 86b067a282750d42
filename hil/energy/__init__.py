"""Energy of inferences: recordings of current and voltage, and the meters that make them."""

from __future__ import annotations

from hil.energy import joulescope, ppk2, trace
from hil.energy.recording import Energy, Recording, energy_of
from hil.energy.registry import Meter, Recorder, check_spec, opened_meter, register_meter

__all__ = [
    "Energy",
    "Meter",
    "Recorder",
    "Recording",
    "check_spec",
    "energy_of",
    "opened_meter",
    "register_meter",
]

register_meter(Meter("trace", trace.opened, trace.check, is_live=False))
register_meter(Meter("joulescope", joulescope.opened, joulescope.check))
register_meter(Meter("ppk2", ppk2.opened, ppk2.check))
