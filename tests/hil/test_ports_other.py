"""The ports of real boards other than ST's, run here on registers that answer as the chips' do.

What a port leaves in the registers is read back as the makers' documents say, independently of the
C: rate of the core, wait states before it, rate of the line, pins, interrupt. Then each UART sends
and receives.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from port_on_host import PortOnHost, Registers

from hil.board import Board, board_names, load_board
from hil.cli.render import shown_by

MHZ = 1_000_000
#: A cell that holds no byte of the transmitter.
NO_BYTE = 0xFFFF_FFFF


@dataclass(frozen=True)
class Rates:
    """What the registers say, in Hz."""

    core: float
    line: float


def word(registers: Registers, address: int, low: int = 0, width: int = 32) -> int:
    return registers.get((address, low, width))


def order(registers: Registers, *steps: tuple[int, int]) -> None:
    """Registers were given these values one after the other."""
    at = 0
    for step in steps:
        assert step in registers.writes[at:], f"{step[0]:#x} never became {step[1]:#x} there"
        at = registers.writes.index(step, at) + 1


# -- the chips ---------------------------------------------------------------------------------


def nrf52_answers(registers: Registers, _address: int) -> None:
    registers.put((0x4000_0100, 0, 32), word(registers, 0x4000_0000))


def nrf52_rates(registers: Registers, board: Board) -> Rates:
    assert word(registers, 0x4000_0558) == 0x5A, "the debug port closes"
    assert word(registers, 0x4001_E540) == 1, "no cache"
    assert word(registers, 0x4000_0000) == 1, "no crystal"
    assert word(registers, 0x4000_2500) == 4
    for name, pin in (("TX_PIN", 0x50C), ("RX_PIN", 0x514)):
        assert word(registers, 0x4000_2000 + pin) == board.macros[f"HIL_UART_{name}"]
    # The maker's value: nRF52840 Product Specification, UART, BAUDRATE.
    return Rates(64 * MHZ, {0x01D7_E000: 115_942}[word(registers, 0x4000_2524)])


def nrf53_answers(registers: Registers, _address: int) -> None:
    registers.put((0x5000_5100, 0, 32), word(registers, 0x5000_5000))


def nrf53_rates(registers: Registers, _board: Board) -> Rates:
    assert word(registers, 0x5000_6544) == word(registers, 0x5000_654C) == 0x50FA_50FA
    assert word(registers, 0x5000_1500) == 1, "no cache"
    assert word(registers, 0x5000_5000) == 1, "no crystal"
    assert word(registers, 0x5000_8500) == 8
    assert (word(registers, 0x5000_850C), word(registers, 0x5000_8514)) == (20, 22)
    assert word(registers, 0x5084_2518, 20, 1) == 1, "TX is no output"
    assert word(registers, 0x5084_2700 + 4 * 22) == 0xC, "RX floats"
    # The maker's value: nRF5340 Product Specification, UARTE, BAUDRATE.
    line = {0x01D6_0000: 115_108}[word(registers, 0x5000_8524)]
    return Rates(128 * MHZ >> word(registers, 0x5000_5558, 0, 2), line)


def k64_answers(registers: Registers, address: int) -> None:
    if address != 0x4006_4006:
        return
    clks, irefs = word(registers, 0x4006_4000, 6, 2), word(registers, 0x4006_4000, 2, 1)
    plls = word(registers, 0x4006_4005, 6, 1)
    registers.put((address, 2, 2), {0: 3 if plls else 0, 1: 1, 2: 2}[clks])
    registers.put((address, 4, 1), irefs)
    registers.put((address, 5, 2), 3 * plls)


def k64_rates(registers: Registers, _board: Board) -> Rates:
    order(registers, (0x4005_200E, 0xC520), (0x4005_200E, 0xD928), (0x4005_2000, 0x1D2))
    order(registers, (0x4004_8044, 0x0124_0000), (0x4006_4000, 0x38))  # dividers, then PLL
    assert word(registers, 0x4006_4006, 2, 2) == 3, "the core does not run from the PLL"
    reference = 50 * MHZ / (word(registers, 0x4006_4004, 0, 5) + 1)
    assert 2 * MHZ <= reference <= 4 * MHZ
    pll = reference * (word(registers, 0x4006_4005, 0, 5) + 24)
    core, bus, flexbus, flash = (
        pll / (word(registers, 0x4004_8044, low, 4) + 1) for low in (28, 24, 20, 16)
    )
    assert (bus, flexbus <= 50 * MHZ, flash) == (60 * MHZ, True, 24 * MHZ)
    assert word(registers, 0x4004_8034, 10, 1) == word(registers, 0x4004_8038, 10, 1) == 1
    assert word(registers, 0x4004_A040, 8, 3) == word(registers, 0x4004_A044, 8, 3) == 3
    whole = word(registers, 0x4006_A000, 0, 5) << 8 | word(registers, 0x4006_A001, 0, 8)
    return Rates(core, core / (16 * (whole + word(registers, 0x4006_A00A, 0, 5) / 32)))


def lpc55_rates(registers: Registers, _board: Board) -> Rates:
    # All of the SRAM has a clock; wait states before the faster clock.
    order(registers, (0x4000_0220, 15 << 3), (0x4000_0400, 0x8000), (0x4000_0280, 3))
    assert word(registers, 0x4000_0400, 12, 4) == 8  # up to 100 MHz
    assert word(registers, 0x4001_3010, 30, 1) == word(registers, 0x4001_3010, 14, 1) == 1
    assert word(registers, 0x4000_0284) == 0
    assert (0x4000_0224, 1 << 11) in registers.writes
    assert (0x4000_0144, 1 << 11) in registers.writes
    assert word(registers, 0x4000_1074) & 0x10F == word(registers, 0x4000_1078) & 0x10F == 0x101
    assert word(registers, 0x4008_6FF8, 0, 3) == 1
    assert word(registers, 0x4000_02B0) == 2
    divided = 12 * MHZ / (1 + word(registers, 0x4000_0320, 8, 8) / 256)
    line = divided / (word(registers, 0x4008_6020) + 1) / 16
    return Rates(96 * MHZ / (word(registers, 0x4000_0380, 0, 8) + 1), line)


def sam_answers(registers: Registers, _address: int) -> None:
    registers.put((0x4000_1010, 1, 1), word(registers, 0x4000_1018, 1, 1))
    registers.put((0x4000_1040, 0, 2), 3 * word(registers, 0x4000_1030, 1, 1))


def sam_rates(registers: Registers, board: Board) -> Rates:
    control = word(registers, 0x4000_1038)
    if board.macros["HIL_SOC_CRYSTAL_HZ"]:
        assert control >> 5 & 7 == 3
        reference = 12 * MHZ / (2 * ((control >> 16 & 0x7FF) + 1))
    else:
        assert control >> 5 & 7 == 0
        assert word(registers, 0x4000_1C84) == 1 | 1 << 6  # the PLL has generator 1
        assert word(registers, 0x4000_1C24, 0, 9) == 6 | 1 << 8  # which has the oscillator
        reference = 48 * MHZ / word(registers, 0x4000_1C24, 16, 16)
    assert 32_000 <= reference <= 3_200_000
    pll = reference * (word(registers, 0x4000_1034, 0, 13) + 1)
    core, line = (word(registers, 0x4000_1C20 + 4 * n) for n in (0, 2))
    assert core & 0x10F == line & 0x10F == 7 | 1 << 8
    macros, base = board.macros, board.macros["HIL_UART_BASE"]
    assert word(registers, 0x4000_1C80 + 4 * macros["HIL_SOC_UART_CHANNEL"]) == 2 | 1 << 6
    assert word(registers, 0x4000_0818, macros["HIL_SOC_UART_ENABLE_BIT"], 1) == 1
    group = 0x4100_8000 + 0x80 * macros["HIL_SOC_GPIO"]
    for pin in (macros["HIL_SOC_TX_PIN"], macros["HIL_SOC_RX_PIN"]):
        assert word(registers, group + 0x40 + pin, 0, 1) == 1
        function = word(registers, group + 0x30 + pin // 2, 4 * (pin % 2), 4)
        assert function == macros["HIL_SOC_PIN_FUNCTION"]
    assert word(registers, base) == 1 << 30 | 1 << 20 | 1 << 2 | 1 << 1
    assert word(registers, base + 4) == 3 << 16
    rate = pll / (line >> 16) / 16 * (1 - word(registers, base + 0xC, 0, 16) / 65536)
    return Rates(pll / (core >> 16), rate)


def rp2_answers(registers: Registers, _address: int) -> None:
    resets, clocks, xosc, pll = RP2[word(registers, 0)]
    registers.put((resets + 8, 0, 32), ~word(registers, resets) & 0xFFFF_FFFF)
    for ctrl, mask in ((0x30, 3), (0x3C, 1)):
        selected = 1 << (word(registers, clocks + ctrl) & mask)
        registers.put((clocks + ctrl + 8, 0, 32), selected)
    registers.put((xosc + 4, 31, 1), int(word(registers, xosc, 12, 12) == 0xFAB))
    registers.put((pll, 31, 1), int(word(registers, pll + 4) & 0x21 == 0))


# Chip: resets, clocks, crystal oscillator, PLL.
RP2 = {
    2040: (0x4000_C000, 0x4000_8000, 0x4002_4000, 0x4002_8000),
    2350: (0x4002_0000, 0x4001_0000, 0x4004_8000, 0x4005_0000),
}


def rp2_rates(registers: Registers, board: Board) -> Rates:
    chip = board.macros["HIL_SOC_CHIP"]
    _, clocks, _, pll = RP2[chip]
    assert word(registers, clocks + 0x3C) == 1, "the core does not run from the PLL"
    assert word(registers, clocks + 0x30) == 2
    assert word(registers, clocks + 0x48, 11, 1) == 1
    vco = 12 * MHZ * word(registers, pll + 8, 0, 12)
    assert 750 * MHZ <= vco <= 1600 * MHZ
    core = vco / word(registers, pll + 12, 16, 3) / word(registers, pll + 12, 12, 3)
    bank, pads = {2040: (0x4001_4000, 0x4001_C000), 2350: (0x4002_8000, 0x4003_8000)}[chip]
    for pin in (0, 1):
        assert word(registers, bank + 8 * pin + 4) == 2
        assert word(registers, pads + 4 * pin + 4) & (1 << 8 | 1 << 7 | 1 << 6) == 1 << 6
    base = board.macros["HIL_UART_BASE"]
    return Rates(
        core, core / 16 / (word(registers, base + 0x24) + word(registers, base + 0x28) / 64)
    )


def ra_answers(registers: Registers, _address: int) -> None:
    registers.put((0x4001_E03C, 3, 1), 1 - word(registers, 0x4001_E032, 0, 1))
    registers.put((0x4001_E03C, 5, 1), 1 - word(registers, 0x4001_E02A, 0, 1))


def ra_rates(registers: Registers, board: Board) -> Rates:
    # Flash and SRAM wait, the core is halved, dividers are set; then the PLL; then the whole rate.
    order(
        registers,
        (0x4001_C11C, 4),
        (0x4000_2008, 1),
        (0x4001_E024, 1),
        (0x4001_E020, 0x3112_2332),
        (0x4001_E026, 5),
        (0x4001_E024, 0),
    )
    assert (0x4001_E3FA, 0xA503) in registers.writes
    assert word(registers, 0x4001_E3FA) == 0xA500
    control = word(registers, 0x4001_E028, 0, 16)
    vco = 20 * MHZ / ((control & 3) + 1) * ((control >> 8) + 1)
    assert 640 * MHZ <= vco <= 1440 * MHZ
    pll = vco / (word(registers, 0x4001_E04C, 0, 4) + 1)
    fast, *slower = (pll / (1 << word(registers, 0x4001_E020, low, 4)) for low in (24, 12, 8, 28))
    assert (fast, slower) == (240 * MHZ, [120 * MHZ, 60 * MHZ, 60 * MHZ])
    assert word(registers, 0x4040_0800 + 0x40 * 10 + 4 * 14, 16, 13) == 5 << 8 | 1
    assert word(registers, 0x4040_0800 + 0x40 * 10 + 4 * 15, 16, 13) == 5 << 8 | 1
    assert word(registers, 0x4020_3004, 22, 1) == 0
    base = board.macros["HIL_UART_BASE"]
    assert word(registers, 0x4000_C300) == 0x163
    assert word(registers, base + 0x14) == 1 << 12 | 2 << 8 | 1 << 7
    assert word(registers, base + 0x10) & 0xFF == 0x30
    core = pll / (1 << word(registers, 0x4001_E024, 0, 4))
    return Rates(core, slower[0] / 8 / (word(registers, base + 0x10, 8, 8) + 1))


def ra4_answers(registers: Registers, _address: int) -> None:
    registers.put((0x4001_E03C, 0, 1), 1 - word(registers, 0x4001_E036, 0, 1))


def ra4_rates(registers: Registers, board: Board) -> Rates:
    # Slow, the wait state, dividers; then the whole rate.
    order(
        registers,
        (0x4001_E026, 1),
        (0x4001_E031, 1),
        (0x4001_E020, 0x1000_0100),
        (0x4001_E026, 0),
    )
    assert (0x4001_E3FE, 0xA503) in registers.writes
    assert word(registers, 0x4001_E3FE, 0, 16) == 0xA500
    assert word(registers, 0x4001_E0A0, 0, 2) == 0, "the voltage range allows 48 MHz"
    core, fast, slow, flash = (
        48 * MHZ >> word(registers, 0x4001_E020, low, 3) for low in (24, 12, 8, 28)
    )
    assert (fast, slow, flash) == (48 * MHZ, 24 * MHZ, 24 * MHZ)
    macros, base = board.macros, board.macros["HIL_UART_BASE"]
    assert word(registers, 0x4004_7000, macros["HIL_SOC_UART_STOP_BIT"], 1) == 0
    for pin in (macros["HIL_SOC_TX_PIN"], macros["HIL_SOC_RX_PIN"]):
        control = word(registers, 0x4004_0800 + 0x40 * macros["HIL_SOC_GPIO"] + 4 * pin)
        assert control & ~0x10 == macros["HIL_SOC_PIN_FUNCTION"] << 24 | 1 << 16
    assert word(registers, 0x4000_6300) == macros["HIL_UART_EVENT"]
    assert word(registers, base + 2, 0, 8) == 1 << 6 | 1 << 5 | 1 << 4
    assert word(registers, base + 7, 0, 8) == 1 << 6 | 1 << 4
    return Rates(core, fast / 8 / (word(registers, base + 1, 0, 8) + 1))


def esp_watchdogs_are_off(registers: Registers, groups: tuple[int, int], rtc: int) -> None:
    """Each written behind its key, and closed again."""
    for config, protect in [(g + 0x48, g + 0x64) for g in groups] + [(rtc, rtc + 0x18)]:
        assert word(registers, config) == 0, "a watchdog ends it"
        order(registers, (protect, 0x50D8_3AA1), (config, 0), (protect, 0))


def esp_line(registers: Registers, board: Board) -> float:
    if board.macros["HIL_UART_BASE"] != 0x6000_0000:
        # USB, which has no rate.
        assert word(registers, board.macros["HIL_UART_BASE"] + 0x10) == 1 << 2
        return 0
    divider = word(registers, 0x6000_0014)
    assert word(registers, 0x6000_0020, 0, 6) == 0b011100, "not 8 bits, no parity, 1 stop bit"
    assert word(registers, 0x6000_0024, 0, 8) == 1, "the interrupt does not come at each byte"
    assert word(registers, 0x6000_000C) == 1
    return 40 * MHZ / ((divider & 0xFFF) + (divider >> 20) / 16)


def esp32c3_answers(registers: Registers, _address: int) -> None:
    registers.put((0x6000_0080, 31, 1), 0)


def esp32c3_rates(registers: Registers, board: Board) -> Rates:
    esp_watchdogs_are_off(registers, (0x6001_F000, 0x6002_0000), 0x6000_8090)
    assert word(registers, 0x6000_80AC, 31, 1) == 1, "the super watchdog is not fed"
    order(registers, (0x6000_80B0, 0x8F1D_312A), (0x6000_80AC, 1 << 31), (0x6000_80B0, 0))
    if board.name == "esp32-c3-devkitm-1":
        assert (0x6000_0080, 1 << 31) in registers.writes, "the UART has the old rate"
        assert word(registers, 0x6000_0078, 20, 3) == 7, "the UART does not run from the crystal"
    assert word(registers, 0x6000_9054, 9, 1) == 1, "RX is no input"
    assert word(registers, 0x6000_9054, 12, 3) == word(registers, 0x6000_9058, 12, 3) == 0
    assert word(registers, 0x600C_0058, 10, 2) == 1, "the core does not run from the PLL"
    assert word(registers, 0x600C_0008, 2, 1) == 1, "the PLL does not have 480 MHz"
    core = {0: 80 * MHZ, 1: 160 * MHZ}[word(registers, 0x600C_0008, 0, 2)]
    return Rates(core, esp_line(registers, board))


def esp32c6_answers(registers: Registers, _address: int) -> None:
    registers.put((0x6000_0098, 0, 1), 0)


def esp32c6_rates(registers: Registers, board: Board) -> Rates:
    esp_watchdogs_are_off(registers, (0x6000_8000, 0x6000_9000), 0x600B_1C00)
    assert word(registers, 0x600B_1C1C, 18, 1) == 1, "the super watchdog is not fed"
    order(registers, (0x600B_1C20, 0x50D8_3AA1), (0x600B_1C1C, 1 << 18), (0x600B_1C20, 0))
    if board.name == "esp32-c6-devkitc-1":
        assert (0x6000_0098, 1) in registers.writes, "the UART has the old rate"
    assert word(registers, 0x6009_6000) == 1
    assert word(registers, 0x6009_6004) == 3 << 20 | 1 << 22, "it does not run from the crystal"
    assert word(registers, 0x6009_0048, 9, 1) == 1, "RX is no input"
    assert word(registers, 0x6009_0044, 12, 3) == word(registers, 0x6009_0048, 12, 3) == 0
    assert word(registers, 0x6009_6110, 16, 2) == 0, "the core does not run from the crystal"
    core = 40 * MHZ / (word(registers, 0x6009_6118, 0, 8) + 1)
    return Rates(core, esp_line(registers, board))


def gd32_answers(registers: Registers, _address: int) -> None:
    registers.put((0x4002_1000, 17, 1), word(registers, 0x4002_1000, 16, 1))
    registers.put((0x4002_1000, 25, 1), word(registers, 0x4002_1000, 24, 1))
    registers.put((0x4002_1004, 2, 2), word(registers, 0x4002_1004, 0, 2))


def gd32_rates(registers: Registers, _board: Board) -> Rates:
    assert word(registers, 0x4002_1004, 2, 2) == 2, "the core does not run from the PLL"
    assert word(registers, 0x4002_1004, 16, 1) == 1, "the PLL does not run from the crystal"
    before = 8 * MHZ / (word(registers, 0x4002_102C, 0, 4) + 1)
    factor = word(registers, 0x4002_1004, 18, 4) | word(registers, 0x4002_1004, 29, 1) << 4
    core = before * (factor + 1 if factor >= 16 else factor + 2)
    # AHB and APB2 undivided, APB1 at half.
    assert word(registers, 0x4002_1004, 4, 4) == word(registers, 0x4002_1004, 11, 3) == 0
    assert word(registers, 0x4002_1004, 8, 3) == 4
    assert word(registers, 0x4002_1018) & (1 << 2 | 1 << 14) == 1 << 2 | 1 << 14
    assert word(registers, 0x4001_0804, 4, 8) == 0x8B
    return Rates(core, core / word(registers, 0x4001_3808))


def nvic(registers: Registers, irq: int) -> None:
    assert word(registers, 0xE000_E100 + 4 * (irq // 32), irq % 32, 1) == 1


def esp_interrupt(matrix: int, control: int, priorities: int, threshold: int, mie: bool) -> Any:
    def check(registers: Registers, irq: int) -> None:
        line = word(registers, matrix + 4 * irq)
        assert 1 <= line <= 31
        assert line not in (3, 4, 7), "the C6 keeps it for itself"
        assert word(registers, control) == 1 << line
        assert word(registers, control + 4, line, 1) == 0, "it comes at an edge only"
        assert word(registers, priorities + 4 * line) > word(registers, threshold) >= 1
        assert word(registers, 0xFFFF_F304) == (1 << line if mie else 0)

    return check


def eclic(registers: Registers, irq: int) -> None:
    base = 0xD200_1000 + 4 * irq
    assert (word(registers, base + 1, 0, 8), word(registers, base + 2, 0, 8)) == (1, 0)
    assert word(registers, base + 3, 0, 8) == 0xFF


def nothing(_registers: Registers, _address: int) -> None:
    pass


@dataclass(frozen=True)
class Chip:
    answers: Callable[[Registers, int], None]
    rates: Callable[[Registers, Board], Rates]
    reset: dict[int, int]
    #: Checks that the controller lets the interrupt with a number through.
    interrupt: Callable[[Registers, int], None] = nvic


NRF52 = Chip(nrf52_answers, nrf52_rates, {})
SAM = Chip(sam_answers, sam_rates, {0x4000_1C20: 0x106, 0x4000_1030: 0x80})
RP2040 = Chip(rp2_answers, rp2_rates, {0: 2040, 0x4000_C000: 0x01FF_FFFF})
RP2350 = Chip(rp2_answers, rp2_rates, {0: 2350, 0x4002_0000: 0x1FFF_FFFF})
RA4 = Chip(ra4_answers, ra4_rates, {0x4001_E036: 1, 0x4004_7000: 0xFFFF_FFFF})
ESP32C3 = Chip(
    esp32c3_answers,
    esp32c3_rates,
    {
        **{0x6001_F048: 0x8004_C000, 0x6002_0048: 0x4C000, 0x6000_8090: 0x8001_3214},
        # 20 MHz from the crystal; the pins another function's.
        **{0x600C_0008: 0xC, 0x600C_0058: 1, 0x6000_9054: 2 << 12, 0x6000_9058: 2 << 12},
    },
    esp_interrupt(0x600C_2000, 0x600C_2104, 0x600C_2114, 0x600C_2194, mie=False),
)
ESP32C6 = Chip(
    esp32c6_answers,
    esp32c6_rates,
    {
        **{0x6000_8048: 0x8004_C000, 0x6000_9048: 0x4C000, 0x600B_1C00: 0x8001_3214},
        **{0x6009_6118: 1, 0x6009_0044: 2 << 12, 0x6009_0048: 2 << 12},
    },
    esp_interrupt(0x6001_0000, 0x2000_1000, 0x2000_1010, 0x2000_1090, mie=True),
)
CHIPS = {
    "esp32-c3-devkitm-1": ESP32C3,
    "esp32-c6-devkitc-1": ESP32C6,
    "xiao-esp32c3": ESP32C3,
    "xiao-esp32c6": ESP32C6,
    "longan-nano": Chip(gd32_answers, gd32_rates, {0x4002_1000: 0x83}, eclic),
    "raspberry-pi-pico-2-riscv": RP2350,
    "nano-33-ble": NRF52,
    "xiao-nrf52840": NRF52,
    "nano-rp2040-connect": RP2040,
    "xiao-rp2040": RP2040,
    "uno-r4-minima": RA4,
    "uno-r4-wifi": RA4,
    "ek-ra8m1": Chip(
        ra_answers,
        ra_rates,
        {0x4001_E032: 1, 0x4001_E02A: 1, 0x4001_E026: 1, 0x4020_3004: 0xFFFF_FFFF},
    ),
    "frdm-k64f": Chip(
        k64_answers,
        k64_rates,
        {0x4005_2000: 0x1D3, 0x4006_4000: 4, 0x4006_4001: 0x80, 0x4006_4006: 0x10},
    ),
    "lpc55s69-evk": Chip(nothing, lpc55_rates, {0x4000_0400: 0x2000, 0x4001_3010: 0x80_D01A}),
    "metro-m4": SAM,
    "microbit-v2": NRF52,
    "nrf52840dk": NRF52,
    "nrf52dk": NRF52,
    "nrf5340dk": Chip(nrf53_answers, nrf53_rates, {0x5000_5558: 1}),
    "raspberry-pi-pico": RP2040,
    "raspberry-pi-pico-2": RP2350,
    "same54-xpro": SAM,
}


def start(name: str, folder: Path) -> tuple[PortOnHost, Registers]:
    """The board's ports after their set-up."""
    chip = CHIPS[name]
    registers = Registers(dict(chip.reset), [])
    registers.on_use = lambda address: chip.answers(registers, address)
    port = PortOnHost(load_board(name), registers, folder)
    port.start()
    registers.settle()
    return port, registers


def test_shown_by_registers() -> None:
    """`hil boards` says so of no other board; test_boards_stm32.py has ST's."""
    shown = {n for n in board_names() if "simulated registers" in shown_by(load_board(n))}
    st = {
        n
        for n in shown
        if any("soc" in p.roles and p.name.startswith("stm32") for p in load_board(n).ports)
    }
    assert shown - st <= set(CHIPS)
    assert "mps2-an386" not in shown


@cases("name", CHIPS, first=3)
def test_clocks_line_and_interrupt(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    _, registers = start(name, tmp_path)
    rates = CHIPS[name].rates(registers, board)
    assert rates.core == board.clock_hz
    assert rates.line == pytest.approx(board.macros.get("HIL_UART_BAUD", 0), rel=0.0075)
    CHIPS[name].interrupt(registers, board.macros["HIL_UART_IRQ"])


# -- the UARTs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Uart:
    """Offsets of status and data; bits for room, all sent, a byte there."""

    status: int
    ready: int
    received: int
    to_send: int
    to_read: int


UARTS = {
    "frdm-k64f": Uart(0x04, 0xC0, 5, 0x07, 0x07),
    "lpc55s69-evk": Uart(0xE04, 0x30, 6, 0xE20, 0xE30),
    "same54-xpro": Uart(0x18, 0x03, 2, 0x28, 0x28),
    "ek-ra8m1": Uart(0x48, 3 << 29, 31, 0x04, 0x00),
    "raspberry-pi-pico": Uart(0x18, 0, -4, 0x00, 0x00),
    # The number of bytes in its buffer.
    "esp32-c3-devkitm-1": Uart(0x1C, 0, 0, 0x00, 0x00),
    "xiao-esp32c6": Uart(0x04, 2, 2, 0x00, 0x00),
    "uno-r4-wifi": Uart(0x04, 0x84, 6, 0x03, 0x05),
}


@cases("name", UARTS, first=1)
def test_uart_sends_and_receives(name: str, tmp_path: Path) -> None:
    port, registers = start(name, tmp_path)
    uart, base = UARTS[name], load_board(name).macros["HIL_UART_BASE"]
    status, to_send, to_read = (base + at for at in (uart.status, uart.to_send, uart.to_read))
    sent: list[int] = []

    def transmit(address: int) -> None:
        if address == status:
            registers.put((status, 0, 32), uart.ready)
        if name == "lpc55s69-evk" and address == base + 8:
            registers.put((address, 3, 1), 1)  # the shifter is empty, too
        if registers.value(to_send) != NO_BYTE:
            sent.append(registers.value(to_send) & 0xFF)
            registers.put((to_send, 0, 32), NO_BYTE)

    registers.put((to_send, 0, 32), NO_BYTE)
    registers.on_use = transmit
    port.c.hil_uart_write(b"hello", ctypes.c_size_t(5))
    port.c.hil_uart_flush()
    assert bytes(sent) == b"hello"

    line = list(b"abc")

    def receive(address: int) -> None:
        if address == status:
            # A negative bit is one that is set while nothing is there.
            there = bool(line) == (uart.received >= 0)
            registers.put((status, abs(uart.received), 1), int(there))
        elif address == to_read and line:
            registers.put((to_read, 0, 32), line.pop(0))

    registers.on_use = receive
    port.c.hil_uart_receive()
    assert port.received == b"abc"


def test_ra_sci_goes_on_after_an_overrun(tmp_path: Path) -> None:
    port, registers = start("ek-ra8m1", tmp_path)
    base = load_board("ek-ra8m1").macros["HIL_UART_BASE"]
    registers.on_use = None
    registers.put((base + 0x68, 0, 32), 0)
    registers.put((base + 0x48, 24, 1), 1)
    registers.put((0x4000_C300, 16, 1), 1)
    port.c.hil_uart_receive()
    assert word(registers, base + 0x68, 24, 1) == 1
    assert word(registers, 0x4000_C300) == 0x163, "its interrupt comes once only"


def test_uarte_moves_buffers(tmp_path: Path) -> None:
    """By DMA: what the registers point to is looked at here, as the chip would."""
    port, registers = start("nrf5340dk", tmp_path)
    base = load_board("nrf5340dk").macros["HIL_UART_BASE"]
    near = ctypes.addressof(ctypes.c_uint8.in_dll(port.c, "hil_test_received"))
    sent: list[bytes] = []
    line = list(b"abc")

    def memory(register: int) -> int:
        """The registers hold 32 bits of an address; the others are those of the library."""
        low = registers.value(register)
        guesses = [(near >> 32) + step << 32 | low for step in (-1, 0, 1)]
        return min(guesses, key=lambda guess: abs(guess - near))

    def chip(address: int) -> None:
        if registers.value(base + 0x008):
            registers.put((base + 0x008, 0, 32), 0)
            size = registers.value(base + 0x548)
            sent.append(ctypes.string_at(memory(base + 0x544), size))
            registers.put((base + 0x120, 0, 32), 1)
        # One byte a start of the receiver.
        if address == base + 0x110 and registers.value(base + 0x000) and line:
            registers.put((base + 0x000, 0, 32), 0)
            assert registers.value(base + 0x538) == 1
            ctypes.memset(memory(base + 0x534), line.pop(0), 1)
            registers.put((base + 0x110, 0, 32), 1)

    registers.on_use = chip
    text = bytes(range(200))
    port.c.hil_uart_write(text, ctypes.c_size_t(len(text)))
    assert b"".join(sent) == text
    assert max(map(len, sent)) <= 64
    port.c.hil_uart_receive()
    assert port.received == b"abc"


def k64_line(registers: Registers, hz: float) -> float:
    whole = word(registers, 0x4006_A000, 0, 5) << 8 | word(registers, 0x4006_A001, 0, 8)
    return hz / (16 * (whole + word(registers, 0x4006_A00A, 0, 5) / 32))


def sam_line(registers: Registers, hz: float) -> float:
    boards = map(load_board, ("same54-xpro", "metro-m4"))
    bases = [board.macros["HIL_UART_BASE"] for board in boards]
    base = next(b for b in bases if word(registers, b + 0xC, 0, 16))
    # Generator 2, which the UART has, is on and takes the core's oscillator undivided.
    assert word(registers, 0x4000_1C28) == 6 | 1 << 8 | 1 << 16
    return hz / 16 * (1 - word(registers, base + 0xC, 0, 16) / 65536)


def pl011_line(registers: Registers, hz: float) -> float:
    base = next(b for b in (0x4003_4000, 0x4000_C000) if word(registers, b + 0x24))
    return hz / 16 / (word(registers, base + 0x24) + word(registers, base + 0x28) / 64)


def ra_line(registers: Registers, hz: float) -> float:
    base = load_board("ek-ra8m1").macros["HIL_UART_BASE"]
    assert word(registers, 0x4001_E020) == word(registers, 0x4001_E024, 0, 8) == 0
    return hz / 8 / (word(registers, base + 0x10, 8, 8) + 1)


def ra4_line(registers: Registers, hz: float) -> float:
    base = load_board("uno-r4-wifi").macros["HIL_UART_BASE"]
    assert word(registers, 0x4001_E020) == 0
    return hz / 8 / (word(registers, base + 1, 0, 8) + 1)


def esp_line_alone(registers: Registers, _hz: float) -> float:
    return esp_line(registers, load_board("esp32-c3-devkitm-1"))


def f1_line(registers: Registers, hz: float) -> float:
    return hz / word(registers, 0x4001_3808)


@dataclass(frozen=True)
class Dead:
    """A board whose crystal or PLL does not start: its oscillator, and what selects it."""

    hz: float
    switch: tuple[int, int, int]
    kept: int
    line: Callable[[Registers, float], float]
    reset: dict[int, int]
    #: How far the line may be off.
    rel: float = 0.01


DEAD = {
    # The dividers for the fast clock.
    "frdm-k64f": Dead(640 * 32_768, (0x4004_8044, 0, 32), 0, k64_line, CHIPS["frdm-k64f"].reset),
    "same54-xpro": Dead(48 * MHZ, (0x4000_1C20, 0, 4), 6, sam_line, SAM.reset),
    "metro-m4": Dead(48 * MHZ, (0x4000_1C20, 0, 4), 6, sam_line, SAM.reset),
    "raspberry-pi-pico": Dead(6_500_000, (0x4000_803C, 0, 1), 0, pl011_line, RP2040.reset),
    # Its divider has whole steps only.
    "ek-ra8m1": Dead(8 * MHZ, (0x4001_E026, 0, 3), 1, ra_line, CHIPS["ek-ra8m1"].reset, rel=0.04),
    "longan-nano": Dead(8 * MHZ, (0x4002_1004, 0, 2), 0, f1_line, {0x4002_1000: 0x83}),
    # Its own oscillator: of the RA4M1, that of 8 MHz.
    "uno-r4-wifi": Dead(
        8 * MHZ, (0x4001_E026, 0, 3), 1, ra4_line, {0x4001_E036: 1, 0x4001_E026: 1}, rel=0.04
    ),
    # The ROM has left the PLL off: the crystal, undivided.
    "esp32-c3-devkitm-1": Dead(
        40 * MHZ,
        (0x600C_0058, 0, 12),
        0,
        esp_line_alone,
        {0x600C_0058: 1, 0x6000_8000: 1 << 6 | 1 << 8 | 1 << 10},
    ),
    # The crystal without the PLL: bypassed, undivided.
    "lm3s6965evb": Dead(8 * MHZ, (0x400F_E060, 11, 1), 1, pl011_line, {0x400F_E060: 0x078E_3AD1}),
    "stm32vldiscovery": Dead(8 * MHZ, (0x4002_1004, 0, 2), 0, f1_line, {0x4002_1000: 0x83}),
}


@cases("name", DEAD, first=2)
def test_a_dead_crystal_leaves_a_board_that_answers(name: str, tmp_path: Path) -> None:
    """It never takes a PLL that does not run, and the line has its rate from what does."""
    dead, board = DEAD[name], load_board(name)
    registers = Registers(dict(dead.reset), [])
    port = PortOnHost(board, registers, tmp_path)
    assert port.start() == dead.hz
    registers.settle()
    assert registers.get(dead.switch) == dead.kept
    line = dead.line(registers, dead.hz)
    assert line == pytest.approx(board.macros["HIL_UART_BAUD"], rel=dead.rel)


def test_a_pico_without_pll_lock_runs_from_its_crystal(tmp_path: Path) -> None:
    def answers(registers: Registers, address: int) -> None:
        rp2_answers(registers, address)
        registers.put((0x4002_8000, 31, 1), 0)

    registers = Registers(dict(RP2040.reset), [])
    registers.on_use = lambda address: answers(registers, address)
    port = PortOnHost(load_board("raspberry-pi-pico"), registers, tmp_path)
    assert port.start() == 12 * MHZ
    registers.settle()
    assert registers.get((0x4000_803C, 0, 1)) == 0
    assert pl011_line(registers, 12 * MHZ) == pytest.approx(115_200, rel=0.01)


# -- a UART that does not answer as it should ----------------------------------------------------


@dataclass(frozen=True)
class Stuck:
    """Of a UART port, offsets and values of a status that never changes."""

    board: str
    #: All that the transmitter says, when it has no room.
    sending: tuple[int, int]
    #: There is always one byte more.
    receiving: tuple[int, int]


STUCK = {
    "cmsdk_uart": Stuck("mps2-an386", (0x04, 1), (0x04, 2)),
    "kinetis_uart": Stuck("frdm-k64f", (0x04, 0), (0x04, 1 << 5)),
    "lpc_usart": Stuck("lpc55s69-evk", (0xE04, 0), (0xE04, 1 << 6)),
    "ns16550": Stuck("riscv-virt", (0x05, 0), (0x05, 1)),
    "nrf51_uart": Stuck("microbit", (0x11C, 0), (0x108, 1)),
    "nrf_uarte": Stuck("nrf5340dk", (0x120, 0), (0x110, 1)),
    "pl011": Stuck("raspberry-pi-pico", (0x18, 0x28), (0x18, 0)),
    "ra_sci_b": Stuck("ek-ra8m1", (0x48, 0), (0x48, 1 << 31)),
    "esp_uart": Stuck("esp32-c3-devkitm-1", (0x1C, 0x80 << 16), (0x1C, 1)),
    "esp_usb_serial": Stuck("xiao-esp32c3", (0x04, 0), (0x04, 4)),
    "ra_sci": Stuck("uno-r4-minima", (0x04, 0), (0x04, 1 << 6)),
    "sam_sercom": Stuck("same54-xpro", (0x18, 0), (0x18, 4)),
    "stm32_usart": Stuck("nucleo-f446re", (0x00, 0), (0x00, 1 << 5)),
    "stm32_usart_v2": Stuck("nucleo-h743zi", (0x1C, 0), (0x1C, 1 << 5)),
}


def test_every_uart_is_checked() -> None:
    uarts = {p.name for n in board_names() for p in load_board(n).ports if "uart" in p.roles}
    # `rtl_soc` is a model of this project's, which runs in the tests of its boards.
    assert uarts - {"native", "rtl_soc", "rtt"} == set(STUCK)


@cases("uart", STUCK, first=3)
def test_a_stuck_uart_does_not_hold_the_core(uart: str, tmp_path: Path) -> None:
    """Without its clock, say. Each loop ends by itself, long before this ends it."""
    stuck = STUCK[uart]
    board = load_board(stuck.board)
    base = board.macros["HIL_UART_BASE"]
    registers = Registers({}, [])
    port = PortOnHost(board, registers, tmp_path)
    uses: list[int] = []

    def hold(offset: int, value: int, most: int) -> Callable[[int], None]:
        def use(address: int) -> None:
            uses.append(address)
            if address == base + offset:
                # Far beyond what it may look, let it go.
                registers.put((address, 0, 32), value if len(uses) < 2 * most else ~value)

        return use

    registers.put((base + stuck.sending[0], 0, 32), stuck.sending[1])
    registers.on_use = hold(*stuck.sending, 500)
    port.c.hil_uart_write(bytes(100), ctypes.c_size_t(100))
    port.c.hil_uart_flush()
    # What is not taken is not waited for again, byte by byte.
    assert len(uses) <= 20

    uses.clear()
    most = 4 * board.rx_max  # registers used, four for a byte
    registers.on_use = hold(*stuck.receiving, most)
    port.c.hil_uart_receive()
    assert board.rx_max <= len(uses) <= most + 4


# -- behind a boot loader ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["portenta-h7", "giga-r1"])
def test_an_h7_behind_a_boot_loader_keeps_its_supply(name: str, tmp_path: Path) -> None:
    """Through what the core is supplied, only the loader knows: taking the other of the two, once
    it is written, leaves a board that does not start any more.
    """
    rcc, smps = 0x5802_4400, 1 << 2
    # As a loader leaves it: PLL 1 on and in use, at other settings.
    registers = Registers({rcc: 3 << 24 | 5, rcc + 0x10: 3 << 3 | 3, 0x5802_480C: smps}, [])
    running: list[int] = []

    def answers(address: int) -> None:
        registers.put((rcc + 0x10, 3, 3), word(registers, rcc + 0x10, 0, 3))
        registers.put((rcc, 25, 1), word(registers, rcc, 24, 1))
        registers.put((rcc, 2, 1), word(registers, rcc, 0, 1))
        registers.put((0x5802_4804, 13, 3), 7)
        if address == rcc + 0x30:
            running.append(word(registers, rcc, 24, 1))

    registers.on_use = answers
    board = load_board(name)
    port = PortOnHost(board, registers, tmp_path)
    uart_hz = port.start()
    registers.settle()
    assert word(registers, 0x5802_480C) == smps
    assert 0x5802_480C not in [address for address, _ in registers.writes]
    assert running == [0], "the PLL's settings change while it runs"
    assert word(registers, rcc + 0x10, 0, 3) == 3
    source = 64 * MHZ / word(registers, rcc + 0x28, 4, 6)
    vco = source * (word(registers, rcc + 0x30, 0, 9) + 1)
    assert vco / (word(registers, rcc + 0x30, 9, 7) + 1) == board.clock_hz
    assert uart_hz / word(registers, 0x4001_100C) == pytest.approx(115_200, rel=0.0075)
    assert word(registers, rcc + 0xF0, 4, 1) == 1
    for gpio, pin in {"portenta-h7": [(0, 9), (0, 10)], "giga-r1": [(0, 9), (1, 7)]}[name]:
        bank = 0x5802_0000 + 0x400 * gpio
        assert word(registers, bank, 2 * pin, 2) == 2
        assert word(registers, bank + 0x20 + 4 * (pin // 8), 4 * (pin % 8), 4) == 7


# -- a counter of 32 bits, extended ------------------------------------------------------------


def esp_timer(name: str, folder: Path) -> tuple[PortOnHost, Registers, Any]:
    """The board's timer after its start, and what sets the time in cycles of the core.

    The core stands still while it sleeps: ``slept`` cycles are the timer's alone.
    """
    board = load_board(name)
    base, rate = board.macros["HIL_TIMER_BASE"], board.clock_hz // MHZ
    now = {"cycles": 0xFFFF_0000, "slept": 0}

    def answers(address: int) -> None:
        if address == 0xFFFF_F7E2:
            registers.put((address, 0, 32), now["cycles"] & 0xFFFF_FFFF)
        registers.put((base + 4, 29, 1), word(registers, base + 4, 30, 1))
        time = (now["cycles"] + now["slept"]) * 16 // rate
        registers.put((base + 0x40, 0, 32), time >> 32)
        registers.put((base + 0x44, 0, 32), time & 0xFFFF_FFFF)

    registers = Registers({}, [])
    registers.on_use = answers
    port = PortOnHost(board, registers, folder, ("soc", "timer", "uart"))
    port.c.hil_ticks.restype = ctypes.c_uint64
    port.c.hil_timer_init()

    def pass_time(cycles: int, slept: int = 0) -> int:
        now["cycles"] += cycles
        now["slept"] += slept
        return int(port.c.hil_ticks())

    return port, registers, pass_time


@pytest.mark.parametrize("name", ["esp32-c3-devkitm-1", "esp32-c6-devkitc-1"])
def test_esp_time_base_counts_cycles_beyond_32_bits(name: str, tmp_path: Path) -> None:
    _, registers, pass_time = esp_timer(name, tmp_path)
    assert word(registers, 0xFFFF_F7E0) == word(registers, 0xFFFF_F7E1) == 1
    total = pass_time(0)
    for cycles in (1, 0x0001_0000, 100, 1 << 31, (1 << 32) - 3, (1 << 32) + 5, 7 * (1 << 32) + 9):
        before, total = total, pass_time(cycles)
        assert total - before == cycles
    # The sleep of the core, of up to 10 ms at a time, adds nothing to a measurement.
    for _ in range(50):
        before, total = total, pass_time(1000, slept=1_600_000)
        assert total - before == 1000


@pytest.mark.parametrize("name", ["esp32-c3-devkitm-1", "esp32-c6-devkitc-1"])
def test_esp_timer_wakes_within_10_ms(name: str, tmp_path: Path) -> None:
    port, registers, pass_time = esp_timer(name, tmp_path)
    base = load_board(name).macros["HIL_TIMER_BASE"]
    pass_time(1 << 36)
    time = word(registers, base + 0x40) << 32 | word(registers, base + 0x44)
    port.c.hil_timer_wake()
    registers.settle()
    alarm = word(registers, base + 0x1C) << 32 | word(registers, base + 0x20)
    assert 0 < alarm - time <= 160_000
    assert word(registers, base + 0x34) == 0, "the alarm is not of unit 0"
    order(registers, (base + 0x50, 1), (base + 0x64, 1))
    port.c.hil_timer_quiet()
    registers.settle()
    assert word(registers, base + 0x64) == 0
    assert word(registers, base + 0x6C) == 1
    assert word(registers, base) & (1 << 31 | 1 << 30 | 1 << 24) == 1 << 31 | 1 << 30 | 1 << 24
    irq = load_board(name).macros["HIL_TIMER_IRQ"]
    CHIPS[name].interrupt(registers, irq)
