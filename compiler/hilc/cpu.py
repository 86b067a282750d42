"""The processor cores that the compiler knows: features for kernel choice, flags for gcc."""

from __future__ import annotations

from dataclasses import dataclass

from hilc.errors import InputError


@dataclass(frozen=True)
class Cpu:
    """A core. ``features`` are those that kernels ask for: ``thumb2``, ``dsp``, ``mve``,
    ``fpu``, ``div``."""

    name: str
    arch: str
    features: frozenset[str]
    cflags: tuple[str, ...]


def _arm(name: str, arch: str, features: str, fpu: str = "") -> Cpu:
    float_flags = ("-mfloat-abi=hard", f"-mfpu={fpu}") if fpu else ("-mfloat-abi=soft",)
    cflags = (f"-mcpu={name}", "-mthumb", *float_flags)
    return Cpu(name, arch, frozenset(features.split()), cflags)


_CPUS = {
    cpu.name: cpu
    for cpu in (
        Cpu("host", "host", frozenset({"fpu", "div"}), ()),
        _arm("cortex-m0", "armv6-m", ""),
        _arm("cortex-m0plus", "armv6-m", ""),
        _arm("cortex-m3", "armv7-m", "thumb2 div"),
        _arm("cortex-m4", "armv7e-m", "thumb2 div dsp fpu", "fpv4-sp-d16"),
        # Many have single precision only, and code for it runs on all.
        _arm("cortex-m7", "armv7e-m", "thumb2 div dsp fpu", "fpv5-sp-d16"),
        _arm("cortex-m33", "armv8-m.main", "thumb2 div dsp fpu", "fpv5-sp-d16"),
        # -mfpu=auto takes the unit from -mcpu: double precision and Helium.
        _arm("cortex-m55", "armv8.1-m.main", "thumb2 div dsp fpu mve", "auto"),
    )
}


def cpu_names() -> tuple[str, ...]:
    return tuple(_CPUS)


def get_cpu(name: str) -> Cpu:
    """The core called ``name``; :class:`~hilc.errors.InputError` for one it does not know."""
    try:
        return _CPUS[name]
    except KeyError:
        raise InputError(f"unknown CPU {name!r}", f"choose one of {', '.join(_CPUS)}") from None
