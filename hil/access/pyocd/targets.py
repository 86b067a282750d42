"""Facts of a chip from pyOCD: its memory, its core, and its CMSIS pack.

Targets that come with pyOCD and those of installed packs are treated alike. Nothing is downloaded:
``pyocd pack install PART`` does that at the user's request.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hil.access.pyocd.library import NAME, OPTIONS, prepare
from hil.board.chip import Chip, ChipRegion
from hil.errors import InputError, ProbeError
from hilc.support.suggest import nearest
from hilc.target import cpu_names, get_cpu

if TYPE_CHECKING:
    from hil.board import Board
    from hil.board.settings import Value

# The description of the core precedes the first peripheral.
_SVD_HEAD_BYTES = 65536
_MAX_RAM_BYTES = 32 << 20
# Smaller regions are a chip's configuration or its storage of settings.
_MIN_FLASH_BYTES = 16 << 10
#: SRAM addresses of the architecture; beyond are peripherals and external memory.
_SRAM = (0x2000_0000, 0x4000_0000)
_SECURE_BIT = 1 << 28


def settings_of(board: Board) -> Mapping[str, Value]:
    """Return the board's settings of pyOCD; none for a board that pyOCD does not program."""
    return board.settings.get(NAME, {})


@functools.cache
def target_names() -> tuple[str, ...]:
    """Return the targets that pyOCD supports now: its own and those of installed packs."""
    from pyocd.target.builtin import BUILTIN_TARGETS
    from pyocd.target.pack.pack_target import ManagedPacks

    installed = {device.part_number.lower() for device in ManagedPacks.get_installed_targets()}
    return tuple(sorted({*BUILTIN_TARGETS, *installed}))


def check_target(board: Board) -> None:
    """Raise :class:`ProbeError` if pyOCD does not support the board's chip as it is installed."""
    settings = settings_of(board)
    if not settings or str(settings["target"]).lower() in target_names():
        return
    part = settings["pack"] or settings["target"]
    raise ProbeError(
        f"pyOCD has no target {settings['target']!r}, which {board.name} needs",
        f"install its CMSIS pack: pyocd pack install {part}",
    )


def read_chip(target: str) -> Chip:
    """Return pyOCD's facts of ``target``; raise :class:`InputError` if it has no such target."""
    from pyocd.core.session import Session
    from pyocd.coresight.coresight_target import CoreSightTarget
    from pyocd.probe.debug_probe import DebugProbe
    from pyocd.target import TARGET
    from pyocd.target.pack.pack_target import ManagedPacks

    prepare()
    name = target.lower()
    if name not in target_names():
        raise InputError(
            f"pyOCD has no target {target!r}{nearest(name, target_names())}",
            f"if a CMSIS pack has it: pyocd pack install {target}; `pyocd list --targets` has all",
        )
    if name not in TARGET:
        ManagedPacks.populate_target(name)
    # A probe without functions: only facts of the target are read.
    made: Any = TARGET[name](Session(DebugProbe(), options=OPTIONS, project_dir=os.getcwd()))
    cpu, note = _core(made)
    # A generic target has only the architecture's address map.
    memory, notes = ((), ()) if type(made) is CoreSightTarget else _memory(made.memory_map)
    family = next(
        (c.__name__ for c in reversed(type(made).__mro__) if ".target.family." in c.__module__), ""
    )
    notes = (note, *notes) if note else notes
    return Chip(name, str(made.vendor or ""), family, cpu, memory, notes)


def _core(made: Any) -> tuple[str, str]:
    """Return the name of the core in the target's SVD, and a remark on it."""
    location = made._svd_location
    file = getattr(location, "filename", None)
    if file is None:
        return "", ""
    if isinstance(file, str):
        with open(file, "rb") as stream:
            head = stream.read(_SVD_HEAD_BYTES)
    else:
        head = file.read(_SVD_HEAD_BYTES)
    text = head.decode("utf-8", "replace").partition("<peripherals>")[0]
    block = re.search(r"<cpu>(.*?)</cpu>", text, re.DOTALL)
    word = re.search(r"<name>\s*(.*?)\s*</name>", block[1]) if block else None
    if block is None or word is None:
        return "", ""
    known = map(get_cpu, cpu_names())
    core = next((core for core in known if word[1].upper() in core.debug.svd), None)
    if core is None:
        return "", f"the core {word[1]} is not one of ours: choose the nearest with --cpu"
    has_fpu = re.search(r"<fpuPresent>\s*(true|1)\s*</fpuPresent>", block[1], re.IGNORECASE)
    if core.debug.without_fpu and not has_fpu:
        smaller = core.debug.without_fpu
        return smaller, f"a {core.title} without FPU: compiled as {smaller}"
    return core.name, ""


def _memory(regions: Any) -> tuple[tuple[ChipRegion, ...], tuple[str, ...]]:
    """Return the regions that a firmware may use as they are after reset."""
    has_aliases = any(region.is_secure or region.name.endswith("_ns") for region in regions)
    kept: list[ChipRegion] = []
    notes: list[str] = []

    def leave_out(region: Any, why: str) -> None:
        notes.append(f"left out {region.name} at {region.start:#x}: {why}")

    for region in sorted(regions, key=lambda region: int(region.start)):
        if not (region.is_flash or region.is_ram):
            continue
        if region.alias or (has_aliases and _is_secure_alias(region, regions)):
            leave_out(region, "another address of the same memory")
        elif region.is_ram and region.start >= _SRAM[1]:
            leave_out(region, "external or a peripheral's, which must be set up first")
        elif region.is_ram and region.length > _MAX_RAM_BYTES:
            leave_out(region, f"{region.length >> 20} MB of addresses, not of memory")
        else:
            kept.append(_region(region))
    merged = [part for region in _merged(kept) for part in _split(region)]
    large = [r for r in merged if not r.is_flash or r.size >= _MIN_FLASH_BYTES]
    notes += [
        f"left out {r.name} at {r.origin:#x}: flash of {r.size} bytes, not for code"
        for r in merged
        if r not in large
    ]
    large.sort(key=_preference)
    return tuple(large), tuple(notes)


def _region(region: Any) -> ChipRegion:
    name = re.sub(r"\W", "_", region.name.lower()).lstrip("_0123456789") or "memory"
    return ChipRegion(name, region.start, region.length // 8 * 8, bool(region.is_flash))


def _merged(regions: list[ChipRegion]) -> list[ChipRegion]:
    """Return neighbours of one kind merged: pyOCD has a region for each sector size or bank."""
    merged: list[ChipRegion] = []
    for region in regions:
        last = merged[-1] if merged else None
        same_kind = last is not None and last.is_flash == region.is_flash
        if last is not None and same_kind and last.origin + last.size == region.origin:
            merged[-1] = replace(last, size=last.size + region.size)
        else:
            merged.append(region)
    return merged


def _split(region: ChipRegion) -> list[ChipRegion]:
    """Return RAM on both sides of the SRAM's start as two regions: no access may cross that
    address.
    """
    below = _SRAM[0] - region.origin
    if region.is_flash or not 0 < below < region.size:
        return [region]
    upper = ChipRegion(f"{region.name}_upper", _SRAM[0], region.size - below, False)
    return [replace(region, size=below), upper]


def _preference(region: ChipRegion) -> tuple[bool, bool, int]:
    """Return a sort key: flash by address; RAM at SRAM addresses first, the largest first."""
    if region.is_flash:
        return False, False, region.origin
    return True, not _SRAM[0] <= region.origin < _SRAM[0] + _SECURE_BIT, -region.size


def _is_secure_alias(region: Any, regions: Any) -> bool:
    """Return whether a region is the secure alias that Armv8-M chips have of each memory."""
    return bool(region.start & _SECURE_BIT) and any(
        other.start == region.start & ~_SECURE_BIT and other.length == region.length
        for other in regions
    )
