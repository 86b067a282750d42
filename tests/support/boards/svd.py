"""Makers' own descriptions of chips (CMSIS-SVD) that pyOCD brings, to check boards with."""

from __future__ import annotations

import functools
import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from xml.etree import ElementTree


@dataclass(frozen=True)
class Register:
    address: int
    reset_value: int
    #: Mask of each field.
    fields: Mapping[str, int]

    @property
    def known_bits(self) -> int:
        """Every bit that belongs to a field."""
        return functools.reduce(int.__or__, self.fields.values(), 0)

    def field(self, name: str) -> int:
        """Mask of ``name``; some files have a field for each bit of it: ``name0``, ``name1``..."""
        parts = (mask for key, mask in self.fields.items() if re.fullmatch(name + r"_?\d*", key))
        return self.fields.get(name) or functools.reduce(int.__or__, parts, 0)


@dataclass(frozen=True)
class Peripheral:
    base: int
    registers: Mapping[str, Register]


@dataclass(frozen=True)
class Device:
    peripherals: Mapping[str, Peripheral]
    interrupts: Mapping[str, int]

    def register(self, name: str) -> Register:
        """The register called ``PERIPHERAL.REGISTER``."""
        peripheral, register = name.split(".")
        return self.peripherals[peripheral].registers[register]

    def at_base(self, base: int) -> str:
        """Name of the peripheral whose registers begin at ``base``; KeyError for none."""
        for name, peripheral in self.peripherals.items():
            if peripheral.base == base:
                return name
        raise KeyError(f"no peripheral at {base:#x}")

    def by_address(self) -> dict[int, Register]:
        return {
            register.address: register
            for peripheral in self.peripherals.values()
            for register in peripheral.registers.values()
        }


@functools.cache
def builtin_names() -> frozenset[str]:
    """The files that pyOCD brings."""
    with zipfile.ZipFile(io.BytesIO(_archive())) as archive:
        return frozenset(archive.namelist())


@functools.cache
def builtin_device(name: str) -> Device:
    """The device in pyOCD's file ``name``, such as ``STM32L4x5.svd``."""
    with zipfile.ZipFile(io.BytesIO(_archive())) as archive:
        return read_device(archive.read(name))


@functools.cache
def _archive() -> bytes:
    return files("pyocd").joinpath("debug/svd/svd_data.zip").read_bytes()


def read_device(text: bytes) -> Device:
    """The device that an SVD file describes; clusters of registers are left out."""
    root = ElementTree.fromstring(text)
    elements = {_text(element, "name"): element for element in root.iter("peripheral")}
    peripherals: dict[str, Peripheral] = {}
    interrupts: dict[str, int] = {}
    for name, element in elements.items():
        base = _number(element, "baseAddress")
        described = element
        while "derivedFrom" in described.attrib and described.find("registers") is None:
            described = elements[described.attrib["derivedFrom"]]
        registers = {
            _text(register, "name").removeprefix(f"{name}_"): _register(register, base)
            for register in described.iterfind("registers/register")
        }
        peripherals[name] = Peripheral(base, registers)
        for interrupt in element.iterfind("interrupt"):
            interrupts[_text(interrupt, "name")] = _number(interrupt, "value")
    return Device(peripherals, interrupts)


def _register(element: ElementTree.Element, base: int) -> Register:
    fields = {_text(field, "name"): _mask(field) for field in element.iterfind("fields/field")}
    return Register(
        address=base + _number(element, "addressOffset"),
        reset_value=_number(element, "resetValue"),
        fields=fields,
    )


def _mask(field: ElementTree.Element) -> int:
    if field.find("bitRange") is not None:
        high, low = map(int, _text(field, "bitRange").strip("[]").split(":"))
    elif field.find("lsb") is not None:
        low, high = _number(field, "lsb"), _number(field, "msb")
    else:
        low = _number(field, "bitOffset")
        width = _number(field, "bitWidth") if field.find("bitWidth") is not None else 1
        high = low + width - 1
    return (1 << (high + 1)) - (1 << low)


def _text(element: ElementTree.Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def _number(element: ElementTree.Element, tag: str) -> int:
    text = _text(element, tag) or "0"
    return int(text, 16 if text.lower().startswith("0x") else 10)
