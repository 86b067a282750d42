"""Ports: folders of the firmware template, and their ``port.toml``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hilc.support.resources import data_dir
from hilc.support.toml import tomllib

#: Roles that the ports of a board provide, each exactly once.
ROLES = ("core", "soc", "timer", "uart")


@dataclass(frozen=True)
class Port:
    """A folder of the firmware template with its role and a board's settings."""

    name: str
    roles: tuple[str, ...]
    #: Its C files.
    sources: tuple[str, ...]
    settings: Mapping[str, int]
    #: Further folders beside it with headers that it includes.
    uses: tuple[str, ...] = ()
    #: Its peripheral in a generated Renode platform: ``model`` (a Renode type, "" if the core
    #: provides it), ``irq``, ``clock``. None if unknown.
    renode: Mapping[str, str] | None = None

    @property
    def macros(self) -> dict[str, int]:
        """Settings as macros of the firmware: ``base`` of a UART is ``HIL_UART_BASE``."""
        return {f"HIL_{self.roles[0]}_{key}".upper(): value for key, value in self.settings.items()}


@dataclass(frozen=True)
class Pins:
    """Names of a chip's pins, and the settings of the port for a UART's two pins."""

    #: Pattern of a pin's name: its bank (a letter or a digit) and its number in the bank.
    pattern: re.Pattern[str]
    example: str
    #: Pins per bank, if a setting counts them through all banks; 0 if ``bank`` has the bank.
    bank_pins: int
    bank: str
    rx_bank: str
    function: str
    rx_function: str

    def number(self, name: str) -> tuple[int, int] | None:
        """Return bank and number of the pin ``name``; None if it is not a pin."""
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        bank = int(match[1] or "0", 36) - (0 if not match[1] or match[1].isdigit() else 10)
        return bank, int(match[2]) + self.bank_pins * bank

    @property
    def settings(self) -> frozenset[str]:
        """Settings that follow from the names of the pins."""
        own = (self.bank, self.rx_bank, self.function, self.rx_function)
        return frozenset(("tx_pin", "rx_pin", *filter(None, own)))


@dataclass(frozen=True)
class Pll:
    """Setting that divides a board's clock to the input rate of the chip's PLL."""

    #: Setting with the rate of the crystal or clock.
    source: str
    #: Rate of the internal oscillator, used if ``source`` is 0; 0 for none.
    internal_hz: int
    divider: str


def port_names() -> tuple[str, ...]:
    """Return the ports of the firmware template, sorted."""
    ports = data_dir("firmware_template") / "ports"
    return tuple(sorted(path.parent.name for path in ports.glob("*/port.toml")))


@functools.cache
def port_description(name: str) -> Mapping[str, Any]:
    """Return the content of ``port.toml`` of the port ``name``."""
    path = data_dir("firmware_template") / "ports" / name / "port.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def make_port(name: str, settings: Mapping[str, int]) -> Port:
    """Return the port ``name`` with a board's settings."""
    about = port_description(name)
    provides, sources, uses = (tuple(about.get(k, ())) for k in ("provides", "sources", "uses"))
    return Port(name, provides, sources, settings, uses, about.get("renode"))


def port_pins(name: str) -> Pins | None:
    """Return the pin names of the port ``name``; None if its pins are fixed."""
    table = port_description(name).get("pins")
    if table is None:
        return None
    names = ("bank", "rx_bank", "function", "rx_function")
    return Pins(
        re.compile(table["pattern"]),
        table["example"],
        table.get("bank_pins", 0),
        *(table.get(key, "") for key in names),
    )


def port_pll(name: str) -> Pll | None:
    """Return the PLL of the port ``name`` whose divider follows from the board's crystal; None for
    none.
    """
    table = port_description(name).get("pll")
    return Pll(table["source"], table.get("internal_hz", 0), table["divider"]) if table else None


def board_settings(name: str) -> Iterator[str]:
    """Yield the settings of the port ``name`` that belong to the board, not its chip."""
    for key, spec in port_description(name).get("settings", {}).items():
        if spec.get("board", False):
            yield key


def derived_settings(name: str) -> dict[str, str]:
    """Return the settings of the port ``name`` that follow from keys of the board, by that key."""
    pins, pll = port_pins(name), port_pll(name)
    derived = {key: "uart.tx and uart.rx" for key in (pins.settings if pins else ())}
    return {**derived, **({pll.divider: f"soc.{pll.source}"} if pll else {})}


def chip_settings(name: str) -> Iterator[str]:
    """Yield the settings of the port ``name`` that belong to the chip."""
    derived = derived_settings(name)
    for key, spec in port_description(name).get("settings", {}).items():
        if key not in derived and not spec.get("board", False):
            yield key
