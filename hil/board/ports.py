"""Ports: folders of the firmware template, and what their ``port.toml`` says of them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hilc.support.resources import data_dir
from hilc.support.toml import tomllib

#: What the ports of a board together provide, each exactly once.
ROLES = ("core", "soc", "timer", "uart")


@dataclass(frozen=True)
class Port:
    """A folder of the firmware template with its role and the settings that a board gives it."""

    name: str
    roles: tuple[str, ...]
    #: Its C files.
    sources: tuple[str, ...]
    settings: Mapping[str, int]
    #: Further folders beside it whose headers it includes.
    uses: tuple[str, ...] = ()
    #: What a Renode platform that is made for a board has for it: ``model`` (a type of Renode's, ""
    #: where the core itself brings it), ``irq``, ``clock``. None where nothing is known.
    renode: Mapping[str, str] | None = None

    @property
    def macros(self) -> dict[str, int]:
        """The settings as the firmware sees them: ``base`` of a UART is ``HIL_UART_BASE``."""
        return {f"HIL_{self.roles[0]}_{key}".upper(): value for key, value in self.settings.items()}


@dataclass(frozen=True)
class Pins:
    """How a chip's pins are called, and which settings of the port say a UART's two pins."""

    #: A pin's name: its bank (a letter or a digit) and its number in the bank.
    pattern: re.Pattern[str]
    example: str
    #: Pins of a bank, where a setting counts them through all banks; 0 where ``bank`` has the bank.
    bank_pins: int
    bank: str
    rx_bank: str
    function: str
    rx_function: str

    def number(self, name: str) -> tuple[int, int] | None:
        """Bank and number of the pin ``name``; None where no pin can be called so."""
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        bank = int(match[1] or "0", 36) - (0 if not match[1] or match[1].isdigit() else 10)
        return bank, int(match[2]) + self.bank_pins * bank

    @property
    def settings(self) -> frozenset[str]:
        """The settings that follow from the names of the pins."""
        own = (self.bank, self.rx_bank, self.function, self.rx_function)
        return frozenset(("tx_pin", "rx_pin", *filter(None, own)))


@dataclass(frozen=True)
class Pll:
    """Which setting divides a board's clock to the rate that a chip's PLL is set up for."""

    #: Setting with the rate of the crystal or clock.
    source: str
    #: Rate of the internal oscillator, which serves where ``source`` is 0; 0: none does.
    internal_hz: int
    divider: str


def port_names() -> tuple[str, ...]:
    """The ports of the firmware template, sorted."""
    ports = data_dir("firmware_template") / "ports"
    return tuple(sorted(path.parent.name for path in ports.glob("*/port.toml")))


@functools.cache
def port_description(name: str) -> Mapping[str, Any]:
    """Return the content of ``port.toml`` of the port ``name``."""
    path = data_dir("firmware_template") / "ports" / name / "port.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def make_port(name: str, settings: Mapping[str, int]) -> Port:
    """The port ``name`` with the settings of a board."""
    about = port_description(name)
    provides, sources, uses = (tuple(about.get(k, ())) for k in ("provides", "sources", "uses"))
    return Port(name, provides, sources, settings, uses, about.get("renode"))


def port_pins(name: str) -> Pins | None:
    """Return how the port ``name`` has its pins named; None where it has no pins to choose."""
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
    """The PLL of the port ``name`` whose divider follows from the board's crystal, if any."""
    table = port_description(name).get("pll")
    return Pll(table["source"], table.get("internal_hz", 0), table["divider"]) if table else None


def board_settings(name: str) -> Iterator[str]:
    """The settings of the port ``name`` that a board says, not its chip."""
    for key, spec in port_description(name).get("settings", {}).items():
        if spec.get("board", False):
            yield key


def derived_settings(name: str) -> dict[str, str]:
    """The settings of the port ``name`` that follow from keys of the board, by that key."""
    pins, pll = port_pins(name), port_pll(name)
    derived = {key: "uart.tx and uart.rx" for key in (pins.settings if pins else ())}
    return {**derived, **({pll.divider: f"soc.{pll.source}"} if pll else {})}


def chip_settings(name: str) -> Iterator[str]:
    """The settings of the port ``name`` that a chip says."""
    derived = derived_settings(name)
    for key, spec in port_description(name).get("settings", {}).items():
        if key not in derived and not spec.get("board", False):
            yield key
