"""STM32 boards without the boards: the ports' C runs here on registers that answer as the chip's.

What it leaves in them is read back as the reference manuals say, independently of the C: core and
bus clocks, flash wait states, voltage, pins, baud rate, interrupt. Where pyOCD brings the maker's
description of the chip (CMSIS-SVD), every register and bit that was written must be in it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import models
import pytest
import svd
from campaigns import sampled
from elftools.elf.elffile import ELFFile
from port_on_host import Field, PortOnHost, Registers

import hilc
from hil.access.connection import ProbeInfo
from hil.access.probes import choose_probe
from hil.board import MemoryRegion, board_names, load_board
from hil.build import build
from hilc.support.resources import data_dir
from hilc.support.toml import tomllib

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

MHZ = 1_000_000
NVIC_ENABLE, CCR = 0xE000_E100, 0xE000_ED14
#: A cell that holds no byte of the transmitter.
NO_BYTE = 0xFFFF_FFFF


@dataclass(frozen=True)
class Clocks:
    """What the registers say, in Hz, and which wait states and further voltage are set."""

    core: int
    apb1: int
    apb2: int
    wait_states: int
    pll_input: int
    vco: int


@dataclass(frozen=True)
class Family:
    """A family's registers (of which manual, the ports say) and how its clocks come about."""

    reset: dict[int, int]
    follows: list[tuple[Field, Field]]
    #: Clocks as the final registers say, given the crystal's rate.
    clocks: Callable[[Registers, int], Clocks]
    gpio_base: int
    #: Register that enables GPIO port A in bit 0.
    gpio_enable: int
    rcc: int
    #: Rates that the PLL takes and makes.
    pll_input: tuple[int, int]
    vco: tuple[int, int]


@dataclass(frozen=True)
class Chip:
    """What data sheet and manual say of a board's chip: highest rates, and MHz a wait state."""

    family: str
    core_mhz: int
    apb1_mhz: int
    apb2_mhz: int
    wait_state_mhz: int
    #: Peripheral, its interrupt, its clock's register and bit, the pins' port, number, function.
    uart: str
    irq: int
    enable: tuple[int, int]
    tx: tuple[str, int]
    rx: tuple[str, int]
    #: Fields that must have a value at the end: power, caches.
    also: tuple[tuple[Field, int], ...] = ()
    #: The maker's description in pyOCD: of this chip, or of one with the same registers.
    svd: str = ""


def bits(*places: tuple[int, int, int]) -> list[tuple[Field, Field]]:
    """Status bits of a register that follow control bits of the same: (register, status, on)."""
    return [((register, status, 1), (register, on, 1)) for register, status, on in places]


def divider(code: int) -> int:
    """Of an APB: 0xx 1, 100 2, 101 4, 110 8, 111 16."""
    return 1 if code < 4 else 1 << (code - 3)


def f4_clocks(registers: Registers, hse_hz: int) -> Clocks:
    get = registers.get
    assert get((0x4002_3808, 2, 2)) == 2, "the core does not run from the PLL"
    source = hse_hz if get((0x4002_3804, 22, 1)) else 16 * MHZ
    pll_input = source // get((0x4002_3804, 0, 6))
    vco = pll_input * get((0x4002_3804, 6, 9))
    core = vco // (2 * get((0x4002_3804, 16, 2)) + 2)
    assert get((0x4002_3808, 4, 4)) == 0, "AHB is divided"
    apb1, apb2 = (core // divider(get((0x4002_3808, low, 3))) for low in (10, 13))
    return Clocks(core, apb1, apb2, get((0x4002_3C00, 0, 4)), pll_input, vco)


def l4_clocks(registers: Registers, _hse_hz: int) -> Clocks:
    get = registers.get
    assert get((0x4002_1008, 2, 2)) == 3, "the core does not run from the PLL"
    assert get((0x4002_1008, 4, 10)) == 0, "AHB or an APB is divided"
    assert get((0x4002_100C, 0, 2)) == 2
    assert get((0x4002_100C, 24, 1)) == 1
    pll_input = 16 * MHZ // (get((0x4002_100C, 4, 4)) + 1)
    vco = pll_input * get((0x4002_100C, 8, 7))
    core = vco // (2 * get((0x4002_100C, 25, 2)) + 2)
    return Clocks(core, core, core, get((0x4002_2000, 0, 4)), pll_input, vco)


def g0_clocks(registers: Registers, _hse_hz: int) -> Clocks:
    get = registers.get
    assert get((0x4002_1008, 3, 3)) == 2, "the core does not run from the PLL"
    assert get((0x4002_1008, 8, 7)) == 0, "AHB or APB is divided"
    assert get((0x4002_100C, 0, 2)) == 2
    assert get((0x4002_100C, 28, 1)) == 1
    pll_input = 16 * MHZ // (get((0x4002_100C, 4, 3)) + 1)
    vco = pll_input * get((0x4002_100C, 8, 7))
    core = vco // (get((0x4002_100C, 29, 3)) + 1)
    return Clocks(core, core, core, get((0x4002_2000, 0, 3)), pll_input, vco)


def h7_clocks(registers: Registers, hse_hz: int) -> Clocks:
    get = registers.get
    rcc = 0x5802_4400
    assert get((rcc + 0x10, 3, 3)) == 3, "the core does not run from the PLL"
    source = {0: 64 * MHZ, 2: hse_hz}[get((rcc + 0x28, 0, 2))]
    pll_input = source // get((rcc + 0x28, 4, 6))
    assert get((rcc + 0x2C, 2, 2)) == rge(pll_input)
    assert get((rcc + 0x2C, 16, 1)) == 1
    vco = pll_input * (get((rcc + 0x30, 0, 9)) + 1)
    core = vco // (get((rcc + 0x30, 9, 7)) + 1) // {0: 1, 8: 2}[get((rcc + 0x18, 8, 4))]
    bus = core // {0: 1, 8: 2}[get((rcc + 0x18, 0, 4))]
    assert bus <= 240 * MHZ
    assert bus // divider(get((rcc + 0x18, 4, 3))) <= 120 * MHZ, "APB3"
    assert bus // divider(get((rcc + 0x20, 4, 3))) <= 120 * MHZ, "APB4"
    apb1, apb2 = (bus // divider(get((rcc + 0x1C, low, 3))) for low in (4, 8))
    delay = get((0x5200_2000, 4, 2))
    assert delay == (0 if bus <= 70 * MHZ else 1 if bus <= 185 * MHZ else 2), "programming delay"
    return Clocks(core, apb1, apb2, get((0x5200_2000, 0, 4)), pll_input, vco)


def rge(pll_input: int) -> int:
    """Code of the range of a PLL's input: 1 to 2, 2 to 4, 4 to 8, 8 to 16 MHz."""
    return next(code for code in range(4) if pll_input < 2 * MHZ << code or code == 3)


def u5_clocks(registers: Registers, _hse_hz: int) -> Clocks:
    get = registers.get
    rcc = 0x4602_0C00
    assert get((rcc + 0x1C, 2, 2)) == 3, "the core does not run from the PLL"
    assert get((rcc + 0x20, 0, 12)) == 0, "AHB or an APB is divided"
    assert get((rcc + 0x28, 0, 2)) == 2
    assert get((rcc + 0x28, 18, 1)) == 1
    assert get((rcc + 0x28, 12, 4)) == 0, "the booster's clock is divided"
    pll_input = 16 * MHZ // (get((rcc + 0x28, 8, 4)) + 1)
    assert get((rcc + 0x28, 2, 2)) == (3 if pll_input >= 8 * MHZ else 0)
    vco = pll_input * (get((rcc + 0x34, 0, 9)) + 1)
    core = vco // (get((rcc + 0x34, 24, 7)) + 1)
    return Clocks(core, core, core, get((0x4002_2000, 0, 4)), pll_input, vco)


def h5_clocks(registers: Registers, hse_hz: int) -> Clocks:
    get = registers.get
    rcc = 0x4402_0C00
    assert get((rcc + 0x1C, 3, 2)) == 3, "the core does not run from the PLL"
    assert get((rcc + 0x20, 0, 15)) == 0, "AHB or an APB is divided"
    source = {1: 32 * MHZ, 3: hse_hz}[get((rcc + 0x28, 0, 2))]
    pll_input = source // get((rcc + 0x28, 8, 6))
    assert get((rcc + 0x28, 2, 2)) == rge(pll_input)
    assert get((rcc + 0x28, 16, 1)) == 1
    vco = pll_input * (get((rcc + 0x34, 0, 9)) + 1)
    core = vco // (get((rcc + 0x34, 9, 7)) + 1)
    assert get((0x4002_2000, 4, 2)) == min(2, (core - 1) // (84 * MHZ)), "programming delay"
    return Clocks(core, core, core, get((0x4002_2000, 0, 4)), pll_input, vco)


FAMILIES = {
    "f4": Family(
        reset={0x4002_3800: 0x83, 0x4002_3804: 0x2400_3010, 0x4000_7000: 0x8000},
        follows=[
            *bits((0x4002_3800, 17, 16), (0x4002_3800, 25, 24), (0x4002_3800, 1, 0)),
            ((0x4002_3808, 2, 2), (0x4002_3808, 0, 2)),
            ((0x4000_7004, 16, 2), (0x4000_7000, 16, 2)),
        ],
        clocks=f4_clocks,
        gpio_base=0x4002_0000,
        gpio_enable=0x4002_3830,
        rcc=0x4002_3800,
        pll_input=(1 * MHZ, 2 * MHZ),
        vco=(192 * MHZ, 432 * MHZ),
    ),
    "l4": Family(
        reset={0x4002_1000: 0x63, 0x4002_2000: 0x600, 0x4000_7000: 0x200, 0x4000_7080: 0x100},
        follows=[
            *bits((0x4002_1000, 10, 8), (0x4002_1000, 25, 24)),
            ((0x4002_1008, 2, 2), (0x4002_1008, 0, 2)),
        ],
        clocks=l4_clocks,
        gpio_base=0x4800_0000,
        gpio_enable=0x4002_104C,
        rcc=0x4002_1000,
        pll_input=(2_660_000, 16 * MHZ),
        vco=(96 * MHZ, 344 * MHZ),
    ),
    "g0": Family(
        reset={0x4002_1000: 0x500, 0x4002_2000: 0x4_0600},
        follows=[
            *bits((0x4002_1000, 10, 8), (0x4002_1000, 25, 24)),
            ((0x4002_1008, 3, 3), (0x4002_1008, 0, 3)),
        ],
        clocks=g0_clocks,
        gpio_base=0x5000_0000,
        gpio_enable=0x4002_1034,
        rcc=0x4002_1000,
        pll_input=(2_660_000, 16 * MHZ),
        vco=(96 * MHZ, 344 * MHZ),
    ),
    "h7": Family(
        reset={0x5802_4400: 0x25, 0x5802_480C: 0x6, 0x5802_4818: 0x4000, 0x5200_2000: 0x37},
        follows=[
            *bits((0x5802_4400, 2, 0), (0x5802_4400, 17, 16), (0x5802_4400, 25, 24)),
            ((0x5802_4410, 3, 3), (0x5802_4410, 0, 3)),
            ((0x5802_4804, 13, 1), (0x5802_480C, 1, 1)),
            ((0x5802_4804, 14, 2), (0x5802_4818, 14, 2)),
        ],
        clocks=h7_clocks,
        gpio_base=0x5802_0000,
        gpio_enable=0x5802_44E0,
        rcc=0x5802_4400,
        pll_input=(2 * MHZ, 16 * MHZ),
        vco=(192 * MHZ, 836 * MHZ),
    ),
    "u5": Family(
        reset={0x4602_0C00: 0x35, 0x4602_0C34: 0x0101_0280, 0x4602_080C: 0x8000},
        follows=[
            *bits((0x4602_0C00, 10, 8), (0x4602_0C00, 25, 24), (0x4602_080C, 14, 18)),
            ((0x4602_0C1C, 2, 2), (0x4602_0C1C, 0, 2)),
        ],
        clocks=u5_clocks,
        gpio_base=0x4202_0000,
        gpio_enable=0x4602_0C8C,
        rcc=0x4602_0C00,
        pll_input=(4 * MHZ, 16 * MHZ),
        vco=(128 * MHZ, 544 * MHZ),
    ),
    "h5": Family(
        reset={0x4402_0C00: 0x2B, 0x4402_0C34: 0x0101_0280, 0x4402_0814: 0x2008, 0x4002_2000: 0x13},
        follows=[
            *bits((0x4402_0C00, 17, 16), (0x4402_0C00, 25, 24)),
            ((0x4402_0C1C, 3, 2), (0x4402_0C1C, 0, 2)),
            ((0x4402_0814, 14, 2), (0x4402_0810, 4, 2)),
        ],
        clocks=h5_clocks,
        gpio_base=0x4202_0000,
        gpio_enable=0x4402_0C8C,
        rcc=0x4402_0C00,
        pll_input=(2 * MHZ, 16 * MHZ),
        vco=(192 * MHZ, 836 * MHZ),
    ),
}

VOS_SCALE_1 = (((0x4000_7000, 14, 2), 3),)
F40_SCALE_1 = (((0x4000_7000, 14, 2), 1),)  # which has one bit for it
OVER_DRIVE = (((0x4000_7000, 14, 4), 0b1111),)  # with scale 1
F4_CACHES = (((0x4002_3C00, 8, 3), 7),)
F7 = (*OVER_DRIVE, ((0x4002_3C00, 8, 2), 3), ((CCR, 16, 2), 3))
L4_RANGE_1 = (((0x4000_7000, 9, 2), 1), ((0x4002_2000, 8, 3), 7))
BOOST = (*L4_RANGE_1, ((0x4000_7080, 8, 1), 0))
ICACHE = ((0x4003_0400, 0, 1), 1)
VDDIO2 = ((0x4000_7004, 9, 1), 1)

#: For USART2 on PA2 and PA3, and USART3 on PD8 and PD9, of most families.
A2, A3, D8, D9 = ("A2", 7), ("A3", 7), ("D8", 7), ("D9", 7)
CHIPS = {
    "netduinoplus2": Chip(
        "f4", 168, 42, 84, 30, "USART6", 71, (0x44, 5), ("C6", 8), ("C7", 8),
        (*F40_SCALE_1, *F4_CACHES), "STM32F429x.svd",
    ),
    "nucleo-f401re": Chip(
        "f4", 84, 42, 84, 30, "USART2", 38, (0x40, 17), A2, A3,
        (((0x4000_7000, 14, 2), 2), *F4_CACHES), "STM32F41x.svd",
    ),
    "nucleo-f411re": Chip(
        "f4", 100, 50, 100, 30, "USART2", 38, (0x40, 17), A2, A3,
        (*VOS_SCALE_1, *F4_CACHES), "STM32F41x.svd",
    ),
    "nucleo-f412zg": Chip(
        "f4", 100, 50, 100, 30, "USART3", 39, (0x40, 18), D8, D9,
        (*VOS_SCALE_1, *F4_CACHES), "STM32F41x.svd",
    ),
    "nucleo-f446re": Chip(
        "f4", 180, 45, 90, 30, "USART2", 38, (0x40, 17), A2, A3,
        (*OVER_DRIVE, *F4_CACHES), "STM32F429x.svd",
    ),
    "nucleo-f429zi": Chip(
        "f4", 180, 45, 90, 30, "USART3", 39, (0x40, 18), D8, D9,
        (*OVER_DRIVE, *F4_CACHES), "STM32F429x.svd",
    ),
    "disco-f429zi": Chip(
        "f4", 180, 45, 90, 30, "USART1", 37, (0x44, 4), ("A9", 7), ("A10", 7),
        (*OVER_DRIVE, *F4_CACHES), "STM32F429x.svd",
    ),
    "stm32f4-discovery": Chip(
        "f4", 168, 42, 84, 30, "USART2", 38, (0x40, 17), A2, A3,
        (*F40_SCALE_1, *F4_CACHES), "STM32F429x.svd",
    ),
    "nucleo-f746zg": Chip("f4", 216, 54, 108, 30, "USART3", 39, (0x40, 18), D8, D9, F7),
    "disco-f746ng": Chip("f4", 216, 54, 108, 30, "USART1", 37, (0x44, 4), ("A9", 7), ("B7", 7), F7),
    "nucleo-l476rg": Chip(
        "l4", 80, 80, 80, 16, "USART2", 38, (0x58, 17), A2, A3, L4_RANGE_1, "STM32L4x5.svd"
    ),
    "disco-l475vg-iot01a": Chip(
        "l4", 80, 80, 80, 16, "USART1", 37, (0x60, 14), ("B6", 7), ("B7", 7), L4_RANGE_1,
        "STM32L4x5.svd",
    ),
    "nucleo-l432kc": Chip(
        "l4", 80, 80, 80, 16, "USART2", 38, (0x58, 17), A2, ("A15", 3), L4_RANGE_1,
        "STM32L4x2.svd",
    ),
    "nucleo-l433rc-p": Chip(
        "l4", 80, 80, 80, 16, "LPUART1", 70, (0x5C, 0), ("A2", 8), ("A3", 8), L4_RANGE_1,
        "STM32L4x2.svd",
    ),
    "nucleo-l4r5zi": Chip(
        "l4", 120, 120, 120, 20, "LPUART1", 70, (0x5C, 0), ("G7", 8), ("G8", 8), (*BOOST, VDDIO2)
    ),
    "nucleo-l552ze-q": Chip(
        "l4", 110, 110, 110, 20, "LPUART1", 66, (0x5C, 0), ("G7", 8), ("G8", 8),
        (((0x4000_7000, 9, 2), 0), ICACHE, VDDIO2),
    ),
    "nucleo-g474re": Chip("l4", 170, 170, 170, 34, "USART2", 38, (0x58, 17), A2, A3, BOOST),
    "nucleo-g0b1re": Chip(
        "g0", 64, 64, 64, 24, "USART2", 28, (0x3C, 17), ("A2", 1), ("A3", 1),
        (((0x4002_2000, 8, 2), 3), ((0x4002_2000, 18, 1), 1)),
    ),
    # Wait states go with the bus, at half of the core's rate.
    "nucleo-h743zi": Chip(
        "h7", 400, 100, 100, 140, "USART3", 39, (0xE8, 18), D8, D9,
        (((0x5802_480C, 0, 3), 2), ((CCR, 16, 2), 3), ((0x5802_44DC, 29, 3), 7)),
    ),
    "portenta-h7": Chip(
        "h7", 400, 100, 100, 140, "USART1", 37, (0xF0, 4), ("A9", 7), ("A10", 7),
        (((CCR, 16, 2), 3), ((0x5802_44DC, 29, 3), 7)),
    ),
    "giga-r1": Chip(
        "h7", 400, 100, 100, 140, "USART1", 37, (0xF0, 4), ("A9", 7), ("B7", 7),
        (((CCR, 16, 2), 3), ((0x5802_44DC, 29, 3), 7)),
    ),
    "nucleo-u575zi": Chip(
        "u5", 160, 160, 160, 32, "USART1", 61, (0xA4, 14), ("A9", 7), ("A10", 7),
        (((0x4602_080C, 16, 3), 7), ICACHE),
    ),
    "nucleo-h563zi": Chip(
        "h5", 250, 250, 250, 42, "USART3", 60, (0x9C, 18), D8, D9,
        (((0x4402_0810, 4, 2), 3), ICACHE),
    ),
}  # fmt: skip
UART_BASES = {
    "USART1": {"f4": 0x4001_1000, "h7": 0x4001_1000, "": 0x4001_3800},
    "USART2": {"": 0x4000_4400},
    "USART3": {"": 0x4000_4800},
    "USART6": {"f4": 0x4001_1400},
    "LPUART1": {"": 0x4000_8000},
}
#: Bits that the makers' descriptions leave out, by file and register.
NOT_DESCRIBED = {
    ("STM32F41x.svd", 0x4000_7000): 3 << 14,  # VOS of PWR_CR: RM0368, RM0383
}
#: Bytes of the first RAM that follow what pyOCD has there, at another address of the same memory.
SECOND_ADDRESS = {"nucleo-l432kc": 16 * 1024}  # SRAM2: RM0394


def start(name: str, folder: Path) -> tuple[PortOnHost, Registers]:
    """The board's ports after their set-up."""
    family = FAMILIES[CHIPS[name].family]
    registers = Registers(dict(family.reset), family.follows)
    port = PortOnHost(load_board(name), registers, folder)
    port.start()
    registers.settle()
    return port, registers


@pytest.mark.parametrize("name", CHIPS)
def test_clocks_and_power(name: str, tmp_path: Path) -> None:
    board, chip = load_board(name), CHIPS[name]
    family = FAMILIES[chip.family]
    _, registers = start(name, tmp_path)
    clocks = family.clocks(registers, board.macros.get("HIL_SOC_HSE_HZ", 0))
    assert clocks.core == board.clock_hz == chip.core_mhz * MHZ, "not the chip's full speed"
    assert clocks.apb1 <= chip.apb1_mhz * MHZ
    assert clocks.apb2 <= chip.apb2_mhz * MHZ
    assert family.pll_input[0] <= clocks.pll_input <= family.pll_input[1]
    assert family.vco[0] <= clocks.vco <= family.vco[1]
    flash_hz = clocks.core // 2 if chip.family == "h7" else clocks.core
    assert clocks.wait_states >= (flash_hz - 1) // (chip.wait_state_mhz * MHZ)
    for where, value in chip.also:
        assert registers.get(where) == value, f"{where[0]:#x} bits from {where[1]}"


@pytest.mark.parametrize("name", CHIPS)
def test_uart_and_pins(name: str, tmp_path: Path) -> None:
    board, chip = load_board(name), CHIPS[name]
    family = FAMILIES[chip.family]
    _, registers = start(name, tmp_path)
    clocks = family.clocks(registers, board.macros.get("HIL_SOC_HSE_HZ", 0))
    base = board.macros["HIL_UART_BASE"]
    assert base == UART_BASES[chip.uart].get(chip.family, UART_BASES[chip.uart].get(""))
    register, bit = chip.enable
    assert registers.get((family.rcc + register, bit, 1)) == 1, "the UART has no clock"
    second_bus = {"f4": (0x44,), "l4": (0x60,), "h7": (0xF0,), "u5": (0xA4,), "h5": (0xA4,)}
    on_apb2 = register in second_bus.get(chip.family, ())
    clock_hz = clocks.apb2 if on_apb2 else clocks.apb1
    is_old = any(port.name == "stm32_usart" for port in board.ports)
    rate = registers.value(base + (0x08 if is_old else 0x0C))
    scale = 256 if chip.uart == "LPUART1" else 1
    assert abs(clock_hz * scale / rate / board.macros["HIL_UART_BAUD"] - 1) < 0.005
    # On, transmitter, receiver, interrupt on reception; nothing else.
    control, expected = (0x0C, 1 << 13 | 0x2C) if is_old else (0x00, 0x2D)
    assert registers.value(base + control) == expected
    irq = board.macros["HIL_UART_IRQ"]
    assert irq == chip.irq
    assert registers.value(NVIC_ENABLE + 4 * (irq // 32)) == 1 << irq % 32
    gpio_base = board.macros.get("HIL_SOC_GPIO_BASE", family.gpio_base)
    assert gpio_base == (0x4202_0000 if name == "nucleo-l552ze-q" else family.gpio_base)
    for (pin_name, function), is_input in ((chip.tx, False), (chip.rx, True)):
        number, pin = ord(pin_name[0]) - ord("A"), int(pin_name[1:])
        gpio = gpio_base + 0x400 * number
        assert registers.get((family.gpio_enable, number, 1)) == 1, "the port has no clock"
        assert registers.get((gpio, 2 * pin, 2)) == 2, "not an alternate function"
        assert registers.get((gpio + 0x20 + 4 * (pin // 8), 4 * (pin % 8), 4)) == function
        if is_input:
            assert registers.get((gpio + 0x0C, 2 * pin, 2)) == 1, "an open line is not idle"


@pytest.mark.parametrize("name", [name for name in CHIPS if CHIPS[name].svd])
def test_maker_knows_every_bit_that_is_written(name: str, tmp_path: Path) -> None:
    board, chip = load_board(name), CHIPS[name]
    device = svd.builtin_device(chip.svd)
    known = device.by_address()
    _, registers = start(name, tmp_path)
    written = {address for address, _ in registers.writes if address < 0xE000_0000}
    assert len(written) > 8
    for address in sorted(written):
        assert address in known, f"{chip.svd} has no register at {address:#x}"
        unknown = registers.value(address) & ~known[address].known_bits
        unknown &= ~known[address].reset_value & ~NOT_DESCRIBED.get((chip.svd, address), 0)
        assert unknown == 0, f"{address:#x}: no field has the bits {unknown:#x}"
    # The numbers of the description, by the maker's names.
    peripheral = device.at_base(board.macros["HIL_UART_BASE"])
    assert peripheral == chip.uart
    numbers = {key.removesuffix("_IRQ"): value for key, value in device.interrupts.items()}
    assert numbers[peripheral] == board.macros["HIL_UART_IRQ"]
    enable = known[FAMILIES[chip.family].rcc + chip.enable[0]]
    assert enable.field(f"{peripheral}EN") == 1 << chip.enable[1]


def test_the_maker_has_the_same_clock_fields() -> None:
    """So that the clocks above are the chip's, not this file's idea of them."""
    f4, l4 = svd.builtin_device("STM32F429x.svd"), svd.builtin_device("STM32L4x5.svd")
    expected = [
        (f4, "RCC.PLLCFGR", {"PLLM": (0, 6), "PLLN": (6, 9), "PLLP": (16, 2), "PLLSRC": (22, 1)}),
        (f4, "RCC.CFGR", {"SW": (0, 2), "SWS": (2, 2), "HPRE": (4, 4), "PPRE1": (10, 3)}),
        (f4, "RCC.CFGR", {"PPRE2": (13, 3)}),
        (f4, "RCC.CR", {"HSEON": (16, 1), "HSERDY": (17, 1), "HSEBYP": (18, 1), "PLLRDY": (25, 1)}),
        (f4, "FLASH.ACR", {"PRFTEN": (8, 1), "ICEN": (9, 1), "DCEN": (10, 1)}),
        (l4, "RCC.PLLCFGR", {"PLLSRC": (0, 2), "PLLM": (4, 3), "PLLN": (8, 7), "PLLR": (25, 2)}),
        (l4, "RCC.PLLCFGR", {"PLLREN": (24, 1)}),
        (l4, "RCC.CFGR", {"SW": (0, 2), "SWS": (2, 2), "HPRE": (4, 4), "PPRE1": (8, 3)}),
        (l4, "RCC.CFGR", {"PPRE2": (11, 3)}),
        (l4, "RCC.CR", {"HSION": (8, 1), "HSIRDY": (10, 1), "PLLON": (24, 1), "PLLRDY": (25, 1)}),
        (l4, "PWR.CR1", {"VOS": (9, 2)}),
        (l4, "PWR.SR2", {"VOSF": (10, 1)}),
    ]
    for device, register, fields in expected:
        for name, (low, width) in fields.items():
            assert device.register(register).field(name) == ((1 << width) - 1) << low, name


@pytest.mark.parametrize("name", ["nucleo-f446re", "nucleo-l4r5zi", "nucleo-h743zi"])
def test_uart_sends_and_receives(name: str, tmp_path: Path) -> None:
    port, registers = start(name, tmp_path)
    base = load_board(name).macros["HIL_UART_BASE"]
    is_old = name == "nucleo-f446re"
    status = base if is_old else base + 0x1C
    to_send = base + 4 if is_old else base + 0x28
    to_read = base + 4 if is_old else base + 0x24
    sent: list[int] = []

    # Sending: the transmitter takes a byte whenever it is asked.
    def transmit(address: int) -> None:
        if address == status:
            registers.put((status, 6, 2), 3)  # complete, and ready for another
        if registers.value(to_send) != NO_BYTE:
            sent.append(registers.value(to_send))
            registers.put((to_send, 0, 32), NO_BYTE)

    registers.put((to_send, 0, 32), NO_BYTE)
    registers.on_use = transmit
    port.c.hil_uart_write(b"hello", ctypes.c_size_t(5))
    port.c.hil_uart_flush()
    assert bytes(sent) == b"hello"

    # Receiving: three bytes, then an overrun without one, which must end too.
    line = list(b"abc")

    def receive(address: int) -> None:
        if address == status:
            registers.put((status, 5, 1), int(bool(line)))
            if line:
                registers.put((to_read, 0, 32), line[0])
        elif address == to_read:
            if line:
                line.pop(0)
            elif is_old:
                registers.put((status, 3, 1), 0)
        elif address == base + 0x20 and not line:
            registers.put((status, 3, 1), 0)

    registers.put((status, 3, 1), 1)
    registers.on_use = receive
    port.c.hil_uart_receive()
    received = port.received
    assert received[:3] == b"abc"
    assert registers.get((status, 3, 1)) == 0
    if not is_old:
        assert received == b"abc", "what no byte came with was handed on"


@pytest.mark.parametrize(
    "name", ["nucleo-f446re", "disco-f746ng", "nucleo-h743zi", "nucleo-h563zi"]
)
def test_internal_oscillator_stands_in_for_the_crystal(name: str, tmp_path: Path) -> None:
    """At the same speed, so that the baud rate is right and the board answers."""
    family = FAMILIES[CHIPS[name].family]
    hse_ready = (family.rcc, 17, 1)
    follows = [rule for rule in family.follows if rule[0] != hse_ready]
    registers = Registers(dict(family.reset), follows)
    port = PortOnHost(load_board(name), registers, tmp_path)
    port.c.hil_soc_init()
    registers.settle()
    # No rate for the crystal: were it the PLL's source, all rates would be 0.
    assert family.clocks(registers, 0).core == load_board(name).clock_hz


@dataclass(frozen=True)
class AfterReset:
    """Of a chip whose PLL does not start: its core's oscillator, and how to tell."""

    hz: int
    #: Field that selects the core's clock, and its value after reset.
    switch: Field
    selected: int
    #: Field of the flash's wait states.
    latency: Field
    #: Dividers of core and buses: registers that are 0.
    undivided: tuple[Field, ...]


F4_AFTER_RESET = AfterReset(
    16 * MHZ, (0x4002_3808, 0, 2), 0, (0x4002_3C00, 0, 4), ((0x4002_3808, 4, 12),)
)
L4 = ((0x4002_1008, 0, 2), (0x4002_2000, 0, 4), ((0x4002_1008, 4, 10),))
AFTER_RESET = {
    "nucleo-f446re": F4_AFTER_RESET,
    "nucleo-f429zi": F4_AFTER_RESET,
    "disco-f746ng": F4_AFTER_RESET,
    "nucleo-l476rg": AfterReset(4 * MHZ, L4[0], 0, *L4[1:]),
    "nucleo-l4r5zi": AfterReset(4 * MHZ, L4[0], 0, *L4[1:]),
    "nucleo-g474re": AfterReset(16 * MHZ, L4[0], 1, *L4[1:]),
    "nucleo-g0b1re": AfterReset(
        16 * MHZ, (0x4002_1008, 0, 3), 0, (0x4002_2000, 0, 3), ((0x4002_1008, 8, 7),)
    ),
    "nucleo-h743zi": AfterReset(
        64 * MHZ, (0x5802_4410, 0, 3), 0, (0x5200_2000, 0, 4),
        ((0x5802_4418, 0, 12), (0x5802_441C, 4, 7), (0x5802_4420, 4, 3)),
    ),
    "nucleo-u575zi": AfterReset(
        4 * MHZ, (0x4602_0C1C, 0, 2), 0, (0x4002_2000, 0, 4), ((0x4602_0C20, 0, 12),)
    ),
    "nucleo-h563zi": AfterReset(
        32 * MHZ, (0x4402_0C1C, 0, 2), 0, (0x4002_2000, 0, 4), ((0x4402_0C20, 0, 15),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AFTER_RESET)
def test_a_pll_that_fails_leaves_an_answering_board(name: str, tmp_path: Path) -> None:
    """Whatever step of it fails: the core has its oscillator, the line has its rate."""
    board, family, expected = load_board(name), FAMILIES[CHIPS[name].family], AFTER_RESET[name]
    switch = expected.switch[0], expected.switch[1], 2
    reset = {switch[0]: 0x5} if name == "nucleo-g474re" else {}

    def without(*status: Field) -> Registers:
        follows = [rule for rule in family.follows if rule[0] not in status]
        return Registers({**family.reset, **reset}, follows)

    broken = {
        "PLL": without((family.rcc, 25, 1)),
        "all": Registers({**family.reset, **reset}, []),
        "wait states": without(),
        "switch": without(*(s for s, control in family.follows if control == expected.switch)),
    }
    registers = broken["wait states"]

    def keep_slow(address: int) -> None:
        if address == expected.latency[0]:
            registers.put(expected.latency, 15 >> (4 - expected.latency[2]))

    registers.on_use = keep_slow
    port = PortOnHost(board, registers, tmp_path)
    base = board.macros["HIL_UART_BASE"]
    is_old = any(port.name == "stm32_usart" for port in board.ports)
    for what, registers in broken.items():
        port.attach(registers)
        assert port.start() == expected.hz, what
        registers.settle()
        assert registers.get(expected.switch) == expected.selected, what
        assert not any(registers.get(where) for where in expected.undivided), what
        scale = 256 if CHIPS[name].uart == "LPUART1" else 1
        rate = expected.hz * scale / registers.value(base + (0x08 if is_old else 0x0C))
        assert rate == pytest.approx(board.macros["HIL_UART_BAUD"], rel=0.01), what


#: Families of chips, and a maker's description that has all of their UARTs.
FAMILY_UARTS = [("stm32f4", "STM32F429x.svd"), ("stm32l4", "STM32L4x2.svd")]


@pytest.mark.parametrize(("family", "file"), FAMILY_UARTS)
def test_the_uarts_of_a_family_are_the_makers(family: str, file: str) -> None:
    """Those that no board uses, too: address, interrupt, and the bit that enables them."""
    device = svd.builtin_device(file)
    path = data_dir("targets") / "families" / f"{family}.toml"
    uarts = tomllib.loads(path.read_text(encoding="utf-8"))["uarts"]
    for name, uart in uarts.items():
        assert device.at_base(uart["base"]) == name.upper()
        assert device.interrupts[name.upper()] == uart["irq"]
        soc = uart["soc"]
        offset = soc.get("uart_enable_register") or {1: 0x40, 2: 0x44}[soc["uart_bus"]]
        rcc = device.peripherals["RCC"]
        register = next(r for r in rcc.registers.values() if r.address == rcc.base + offset)
        assert register.field(f"{name.upper()}EN") == 1 << soc["uart_enable_bit"], name


STM32_BOARDS = [
    name
    for name in board_names()
    if any(p.name.startswith("stm32") and "soc" in p.roles for p in load_board(name).ports)
]


def pyocd_of(name: str) -> dict[str, object]:
    """The board's settings of the flasher; empty for a board that it does not program."""
    return dict(load_board(name).settings.get("pyocd", {}))


def test_every_stm32_board_is_checked() -> None:
    assert set(STM32_BOARDS) - {"stm32vldiscovery"} == set(CHIPS)


@pytest.mark.parametrize(
    "name", [n for n in STM32_BOARDS if (known := pyocd_of(n)) and not known["pack"]]
)
def test_pyocd_knows_the_regions(name: str) -> None:
    """What pyOCD has of a region is all of it; of the flash and the first RAM it has something."""
    from pyocd.target.builtin import BUILTIN_TARGETS

    board = load_board(name)
    known = BUILTIN_TARGETS[str(pyocd_of(name)["target"])].MEMORY_MAP

    def covered(region: MemoryRegion) -> int:
        """Bytes from the region's start on that pyOCD's regions of its kind cover."""
        at = region.origin
        spans = [(r.start, r.end + 1) for r in known if r.is_flash == (region.kind == "flash")]
        while at < region.end and (end := max((e for s, e in spans if s <= at < e), default=0)):
            at = end
        return at - region.origin

    flash, *rams = board.memory
    assert covered(flash) >= flash.size
    assert covered(rams[0]) == rams[0].size - SECOND_ADDRESS.get(name, 0)
    for region in rams[1:]:
        assert covered(region) in (0, region.size)


@pytest.mark.parametrize("name", [n for n in STM32_BOARDS if pyocd_of(n)])
def test_pyocd_target_is_that_of_the_board(name: str) -> None:
    """pyOCD's table of boards names the same chip, so that its probe is found."""
    from pyocd.board.board_ids import BOARD_ID_TO_INFO
    from pyocd.target.builtin import BUILTIN_TARGETS

    board = load_board(name)
    pyocd = pyocd_of(name)
    assert (pyocd["target"] in BUILTIN_TARGETS) != bool(pyocd["pack"])
    names = {info.name.lower(): info.target for info in BOARD_ID_TO_INFO.values()}
    listed = {"stm32f4-discovery": "disco-f407vg"}.get(name, name)
    if listed not in names:
        # Arduino's have no probe of their own.
        lacking = {"nucleo-u575zi", "portenta-h7", "giga-r1"}
        assert name in lacking, "pyOCD's table lacks it; others must be found"
    else:
        chip = board.description.split("(")[1].split(")")[0].lower()
        assert names[listed].startswith(chip[:9])
        assert str(pyocd["target"]).startswith(chip[:9])


@pytest.mark.parametrize(
    "name", ["nucleo-f746zg", "nucleo-l4r5zi", "nucleo-h743zi", "nucleo-l432kc"]
)
def test_probe_of_the_board_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name that pyOCD's table gives the board, whatever it calls the chip."""
    from pyocd.board.board_ids import BOARD_ID_TO_INFO

    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    listed = next(info for info in BOARD_ID_TO_INFO.values() if info.name.lower() == name)
    probes = [
        ProbeInfo("0669FF30", "STLINK-V2-1", "NUCLEO-F446RE", "stm32f446retx"),
        ProbeInfo("003A0018", "STLINK-V3", listed.name, listed.target or ""),
    ]
    assert choose_probe(load_board(name), None, probes).uid == "003A0018"


@pytest.mark.parametrize(
    "name",
    sampled(
        ["nucleo-l4r5zi", "nucleo-f746zg", "nucleo-g0b1re", "nucleo-u575zi"],
        keep=["nucleo-l4r5zi", "nucleo-g0b1re"],
    ),
)
def test_kws_image_begins_as_the_core_expects(name: str) -> None:
    """At the start of flash: stack in the first RAM, reset in flash, and the UART's interrupt."""
    board = load_board(name)
    ram, flash = board.regions("ram")[0], board.regions("flash")[0]
    elf = build([kws(board.cpu.name)], board, warnings_as_errors=True).elf
    with elf.open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text")
        assert text is not None
        assert text["sh_addr"] == flash.origin
        words = memoryview(text.data()[: 4 * (16 + board.macros["HIL_UART_IRQ"] + 1)]).cast("I")
    assert words[0] == ram.origin + board.stack_bytes + board.handler_stack_bytes <= ram.end
    assert flash.origin <= words[1] < flash.end
    assert words[1] % 2 == 1
    assert words[-1] not in (words[3], 0), "the UART's interrupt goes to the fault handler"


def kws(cpu: str) -> hilc.ModelLibrary:
    return hilc.compile(models.model_path("kws"), cpu=cpu, pools="external", io_in_pool=True)
