"""Real boards other than ST's: registers, regions and images checked with what pyOCD knows of them.

The makers' own descriptions (CMSIS-SVD) that pyOCD brings cover nRF52, K64 and LPC55S69. What they
do not cover, RP2040, RP2350, nRF5340, SAM D5x/E5x and RA8M1, follows the documents that the ports
name.
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import models
import pytest
import svd
from campaigns import sampled
from elftools.elf.elffile import ELFFile
from environments import programs

import hilc
from hil.access import flashers
from hil.board import Board, board_names, load_board
from hil.build import Firmware, build
from hil.errors import InputError
from hil.firmware.formats import image_in
from hil.firmware.image import Segment, check_image, read_image

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
#: Boards with a RISC-V core.
RISCV_BOARDS = (
    "esp32-c3-devkitm-1",
    "esp32-c6-devkitc-1",
    "longan-nano",
    "raspberry-pi-pico-2-riscv",
    "xiao-esp32c3",
    "xiao-esp32c6",
)
BOARDS = (
    "nano-33-ble",
    "nano-rp2040-connect",
    "uno-r4-minima",
    "uno-r4-wifi",
    "xiao-nrf52840",
    "xiao-rp2040",
    "ek-ra8m1",
    "frdm-k64f",
    "lpc55s69-evk",
    "metro-m4",
    "microbit-v2",
    "nrf52840dk",
    "nrf52dk",
    "nrf5340dk",
    "raspberry-pi-pico",
    "raspberry-pi-pico-2",
    "same54-xpro",
)
# One a core.
KWS_BOARDS = ("nrf52dk", "nrf5340dk", "raspberry-pi-pico", "ek-ra8m1")

NRF52_SOC = {
    "TASKS_HFCLKSTART": "CLOCK.TASKS_HFCLKSTART",
    "EVENTS_HFCLKSTARTED": "CLOCK.EVENTS_HFCLKSTARTED",
    "NVMC_ICACHECNF": "NVMC.ICACHECNF",
}
NRF51_UART = {
    "TASKS_STARTRX": "UART0.TASKS_STARTRX",
    "TASKS_STARTTX": "UART0.TASKS_STARTTX",
    "EVENTS_RXDRDY": "UART0.EVENTS_RXDRDY",
    "EVENTS_TXDRDY": "UART0.EVENTS_TXDRDY",
    "INTENSET": "UART0.INTENSET",
    "ENABLE": "UART0.ENABLE",
    "RXD": "UART0.RXD",
    "TXD": "UART0.TXD",
    "BAUDRATE": "UART0.BAUDRATE",
    "GPIO_OUTSET(0)": "P0.OUTSET",
    "GPIO_DIRSET(0)": "P0.DIRSET",
}
P1 = {"GPIO_OUTSET(32)": "P1.OUTSET", "GPIO_DIRSET(32)": "P1.DIRSET"}
KINETIS_SOC = {
    "WDOG_STCTRLH": "WDOG.STCTRLH",
    "WDOG_UNLOCK": "WDOG.UNLOCK",
    **{f"MCG_{name}": f"MCG.{name}" for name in ("C1", "C2", "C5", "C6", "S")},
    "SIM_SCGC4": "SIM.SCGC4",
    "SIM_SCGC5": "SIM.SCGC5",
    "SIM_CLKDIV1": "SIM.CLKDIV1",
    "PORTB_PCR(16)": "PORTB.PCR16",
    "PORTB_PCR(17)": "PORTB.PCR17",
}
KINETIS_UART = {name: f"UART0.{name}" for name in ("BDH", "BDL", "C2", "S1", "D", "C4")}
LPC55_SOC = {
    **{
        name: f"SYSCON.{name}"
        for name in ("MAINCLKSELA", "MAINCLKSELB", "FCCLKSEL0", "AHBCLKDIV", "FMCCR")
    },
    "FRO192M_CTRL": "ANACTRL.FRO192M_CTRL",
    "IOCON_PIO0(29)": "IOCON.PIO0_29",
    "IOCON_PIO0(30)": "IOCON.PIO0_30",
    "FLEXCOMM0_PSELID": "FLEXCOMM0.PSELID",
}
LPC_USART = {
    **{
        name: f"USART0.{name}"
        for name in ("CFG", "STAT", "BRG", "FIFOCFG", "FIFOSTAT", "FIFOTRIG", "FIFOINTENSET")
    },
    "FIFOWR": "USART0.FIFOWR",
    "FIFORD": "USART0.FIFORD",
    "FRACTION": "SYSCON.FLEXFRG0CTRL",
}
# Board, maker's file, port, C name of a register: its name there.
REGISTERS = [
    ("nrf52dk", "nrf52.svd", "nrf52", NRF52_SOC),
    ("nrf52dk", "nrf52.svd", "nrf51_uart", NRF51_UART),
    ("microbit-v2", "nrf52833.svd", "nrf52", NRF52_SOC),
    ("microbit-v2", "nrf52833.svd", "nrf51_uart", NRF51_UART | P1),
    ("nrf52840dk", "nrf52840.svd", "nrf52", NRF52_SOC),
    ("nrf52840dk", "nrf52840.svd", "nrf51_uart", NRF51_UART | P1),
    ("frdm-k64f", "MK64F12.svd", "kinetis", KINETIS_SOC),
    ("frdm-k64f", "MK64F12.svd", "kinetis_uart", KINETIS_UART),
    ("lpc55s69-evk", "LPC55S69_cm33_core0.xml", "lpc55", LPC55_SOC),
    ("lpc55s69-evk", "LPC55S69_cm33_core0.xml", "lpc_usart", LPC_USART),
]
# Board: interrupt of its UART, by the maker's name.
INTERRUPTS = {
    "nrf52dk": ("nrf52.svd", "UARTE0_UART0"),
    "microbit-v2": ("nrf52833.svd", "UARTE0_UART0"),
    "nrf52840dk": ("nrf52840.svd", "UARTE0_UART0"),
    "frdm-k64f": ("MK64F12.svd", "UART0_RX_TX"),
    "lpc55s69-evk": ("LPC55S69_cm33_core0.xml", "FLEXCOMM0"),
}


def image(board: Board) -> tuple[Firmware, Segment]:
    """The firmware without a model, and its segment that begins the first flash region."""
    firmware = build([], board, warnings_as_errors=True)
    flash = board.regions("flash")[0]
    first = next(part for part in read_image(firmware.elf) if part.address == flash.origin)
    return firmware, first


def word(segment: Segment, offset: int) -> int:
    return int.from_bytes(segment.data[offset : offset + 4], "little")


def addresses(board: Board, port: str, expressions: Sequence[str], folder: Path) -> list[int]:
    """What the C compiler makes of a port's registers."""
    firmware = build([], board)
    ports = firmware.folder / "ports"
    name = next(port_.sources[0] for port_ in board.ports if port_.name == port)
    values = ",".join(f"(uintptr_t)&{expression}" for expression in expressions)
    source = folder / "addresses.c"
    source.write_text(
        f'#include "{ports / port / name}"\nconst uintptr_t addresses[] = {{{values}}};\n'
    )
    includes = [firmware.folder / "include", firmware.folder / "generated"]
    includes += sorted(path for path in ports.iterdir() if path.is_dir())
    target = folder / "addresses.o"
    command = ["arm-none-eabi-gcc", *board.cpu.cflags, "-masm-syntax-unified", "-c"]
    command += [*(f"-I{path}" for path in includes), "-o", str(target), str(source)]
    subprocess.run(command, check=True)
    with target.open("rb") as file:
        elf = ELFFile(file)
        table: Any = elf.get_section_by_name(".symtab")
        symbol = table.get_symbol_by_name("addresses")[0]
        data = elf.get_section(symbol["st_shndx"]).data()
        start, size = symbol["st_value"], symbol["st_size"]
    return [int.from_bytes(data[i : i + 4], "little") for i in range(start, start + size, 4)]


def kws(board: Board) -> hilc.ModelLibrary:
    return hilc.compile(
        models.model_path("kws"), cpu=board.cpu.name, pools="external", io_in_pool=True
    )


def crc_32_mpeg_2(data: bytes) -> int:
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C1_1DB7 if crc >> 31 else 0)) & 0xFFFF_FFFF
    return crc


def test_the_list_of_boards_is_whole() -> None:
    """Each shipped board runs here, is ST's and checked in another file, or is in this one."""
    others = {n for n in board_names() if (b := load_board(n)).default_runner in b.flashers}
    # ST's names; what is ST's and named otherwise uses a port of ST's chips.
    st = {n for n in others if soc_of(load_board(n)).startswith("stm32")}
    assert others - st == {*BOARDS, *RISCV_BOARDS}
    assert {n for n in others if load_board(n).cpu.isa == "riscv"} == set(RISCV_BOARDS)


def test_the_check_value_of_the_checksum() -> None:
    assert crc_32_mpeg_2(b"123456789") == 0x0376_E6E7


@pytest.mark.parametrize("name", BOARDS)
def test_image_begins_as_the_core_expects(name: str) -> None:
    board = load_board(name)
    firmware, first = image(board)
    vectors = 0x100 if board.cpu.name == "cortex-m0plus" else 0
    stack, reset = word(first, vectors), word(first, vectors + 4)
    ram, flash = board.regions("ram")[0], board.regions("flash")[0]
    assert stack == ram.origin + board.stack_bytes + board.handler_stack_bytes
    assert reset & 1
    assert flash.origin <= reset < flash.origin + firmware.sizes.flash_bytes
    # What the architecture reserves is 0; on the LPC55S69 that is an image without checks.
    assert [word(first, vectors + 4 * n) for n in (8, 9, 10, 13)] == [0, 0, 0, 0]
    # Nothing lies beside the flash region: no option bytes, no user row, no configuration page.
    for part in read_image(firmware.elf):
        assert flash.origin <= part.address
        assert part.address + len(part.data) <= flash.end


@pytest.mark.parametrize(("name", "file", "port", "registers"), REGISTERS)
def test_registers_lie_where_the_maker_says(
    name: str, file: str, port: str, registers: dict[str, str], tmp_path: Path
) -> None:
    device = svd.builtin_device(file)
    found = addresses(load_board(name), port, list(registers), tmp_path)
    assert dict(zip(registers, found, strict=True)) == {
        ours: device.register(theirs).address for ours, theirs in registers.items()
    }


@pytest.mark.parametrize("name", INTERRUPTS)
def test_interrupt_has_the_makers_number(name: str) -> None:
    file, interrupt = INTERRUPTS[name]
    assert load_board(name).macros["HIL_UART_IRQ"] == svd.builtin_device(file).interrupts[interrupt]


#: A board with other flash than Raspberry Pi's own, whose size pyOCD takes for all.
OWN_FLASH = ("nano-rp2040-connect",)


@pytest.mark.parametrize("name", [n for n in BOARDS if n not in ("ek-ra8m1", *OWN_FLASH)])
def test_memory_is_what_pyocd_knows(name: str) -> None:
    from pyocd.target.builtin import BUILTIN_TARGETS

    board = load_board(name)
    pyocd = board.settings["pyocd"]
    if pyocd["pack"]:
        assert pyocd["target"] not in BUILTIN_TARGETS, "it has become a target of pyOCD's own"
        return
    regions = list(BUILTIN_TARGETS[pyocd["target"]].MEMORY_MAP)
    for region in board.memory:
        if name == "raspberry-pi-pico-2" and region.kind == "ram":
            continue  # pyOCD takes the RAM of the RP2350 for the RP2040's
        same = [r for r in regions if (r.is_flash, r.is_ram) == _kind(region.kind)]
        # What pyOCD has in parts may be one region here.
        covered = sum(
            max(0, min(r.end + 1, region.end) - max(r.start, region.origin)) for r in same
        )
        assert covered == region.size, region


def _kind(kind: str) -> tuple[bool, bool]:
    return (kind == "flash", kind == "ram")


def test_kinetis_configuration_leaves_the_chip_open() -> None:
    """As pyOCD would have it: it changes what would lock the chip, and has nothing to change."""
    from pyocd.target.family.flash_kinetis import Flash_Kinetis

    _, first = image(load_board("frdm-k64f"))
    field = first.data[0x400:0x410]
    assert field == b"\xff" * 12 + b"\xfe\xff\xff\xff"
    kept = Flash_Kinetis.override_security_bits(None, 0, tuple(first.data))
    assert bytes(kept) == first.data
    locked = first.data[:0x40C] + b"\xff" + first.data[0x40D:]
    assert bytes(Flash_Kinetis.override_security_bits(None, 0, tuple(locked))) != locked


def test_lpc55_image_avoids_the_protected_flash() -> None:
    device = svd.builtin_device("LPC55S69_cm33_core0.xml")
    protected = min(p.base for n, p in device.peripherals.items() if n.startswith("FLASH_C"))
    assert load_board("lpc55s69-evk").regions("flash")[0].end <= protected


def test_rp2040_second_stage_has_a_valid_checksum() -> None:
    _, first = image(load_board("raspberry-pi-pico"))
    expected = crc_32_mpeg_2(first.data[:252])
    assert word(first, 252) == expected, f"write {expected:#010X} into ports/rp2/boot.c"
    assert first.address == 0x1000_0000


def test_rp2350_image_says_that_it_is_one() -> None:
    """A block loop of one block in the first 4 KB: data sheet, chapter 5.9."""
    _, first = image(load_board("raspberry-pi-pico-2"))
    start = first.data.index((0xFFFF_DED3).to_bytes(4, "little"))
    assert start % 4 == 0
    assert start + 20 <= 4096
    item, last, link, end = (word(first, start + offset) for offset in (4, 8, 12, 16))
    assert item & 0xFF == 0x42  # image type
    items_words = item >> 8 & 0xFF
    flags = item >> 16
    assert flags & 0xF == 1  # executable
    assert flags >> 4 & 3 == 2  # secure
    assert flags >> 8 & 7 == 0  # Arm
    assert flags >> 12 & 7 == 1  # RP2350
    assert last == 0xFF | items_words << 8
    assert link == 0
    assert end == 0xAB12_3579


def soc_of(board: Board) -> str:
    return next(port.name for port in board.ports if "soc" in port.roles)


def one_board_a_soc() -> list[str]:
    """The boards that a probe can give a line, which so far are Arm's."""
    boards: dict[str, str] = {}
    for name in board_names():
        board = load_board(name)
        if board.runners == board.flashers and "pyocd" in board.flashers:
            boards[soc_of(board)] = name
    return sorted(boards.values())


@pytest.mark.parametrize("name", one_board_a_soc())
def test_line_through_the_probe(name: str) -> None:
    """Without its UART, of which a chip's set-up must then ask nothing; ST's boards, too."""
    assert build([], load_board(name).over_rtt(), warnings_as_errors=True).elf.is_file()


@pytest.mark.parametrize("name", sampled(KWS_BOARDS, keep=["nrf52dk", "raspberry-pi-pico"]))
def test_kws_fits(name: str) -> None:
    board = load_board(name)
    sizes = build([kws(board)], board).sizes
    assert sizes.flash_bytes < board.regions("flash")[0].size


def test_documents_say_what_was_not_run() -> None:
    page = ROOT / "docs" / "reference" / "board-files.md"
    text = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
    assert "have not run on silicon" in text
    assert not any(load_board(name).proven for name in BOARDS)


# -- images as their loaders' tools read them back ---------------------------------------------


def uf2_blocks(data: bytes) -> list[tuple[int, bytes, int]]:
    """Address, bytes and family of each block: Microsoft's specification of UF2."""
    assert len(data) % 512 == 0
    found = []
    for at in range(0, len(data), 512):
        block = data[at : at + 512]
        first, second, flags, address, size, number, count, family = struct.unpack(
            "<8I", block[:32]
        )
        assert (first, second, block[508:]) == (0x0A32_4655, 0x9E5D_5157, b"\x30\x6f\xb1\x0a")
        assert flags == 0x2000, "no family is stated"
        assert (number, count) == (at // 512, len(data) // 512)
        found.append((address, block[32 : 32 + size], family))
    return found


#: The numbers of https://github.com/microsoft/uf2/blob/master/utils/uf2families.json.
UF2_FAMILIES = {
    "metro-m4": 0x5511_4460,
    "nano-rp2040-connect": 0xE48B_FF56,
    "raspberry-pi-pico": 0xE48B_FF56,
    "raspberry-pi-pico-2": 0xE48B_FF59,
    "raspberry-pi-pico-2-riscv": 0xE48B_FF5A,
    "xiao-nrf52840": 0xADA5_2840,
    "xiao-rp2040": 0xE48B_FF56,
}


def test_every_uf2_board_is_read_back() -> None:
    assert {n for n in board_names() if "uf2" in load_board(n).flashers} == set(UF2_FAMILIES)


@pytest.mark.parametrize("name", UF2_FAMILIES)
def test_uf2_has_the_chips_family_in_the_flash(name: str, tmp_path: Path) -> None:
    board = load_board(name)
    elf = build([], board).elf
    family = flashers()["uf2"].uf2_family(board)
    blocks = uf2_blocks(image_in(elf, "uf2", tmp_path, family).read_bytes())
    assert {number for _, _, number in blocks} == {UF2_FAMILIES[name]}
    flash = board.regions("flash")[0]
    assert all(flash.origin <= at and at + len(part) <= flash.end for at, part, _ in blocks)
    memory = b"".join(part for _, part, _ in blocks)
    for segment in read_image(elf):
        start = segment.address - flash.origin
        assert memory[start : start + len(segment.data)] == segment.data


def esptool(*words: object) -> str:
    command = [str(programs("esp") / "esptool"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: Chip, and the RAM that its ROM uses itself while it loads (the linker scripts of ESP-IDF's boot
#: loader).
ESP_BOARDS = {
    "esp32-c3-devkitm-1": ("esp32c3", 0x3FCC_AE00),
    "esp32-c6-devkitc-1": ("esp32c6", 0x4086_E000),
    "xiao-esp32c3": ("esp32c3", 0x3FCC_AE00),
    "xiao-esp32c6": ("esp32c6", 0x4086_E000),
}


def test_every_esp_board_is_read_back() -> None:
    assert {n for n in board_names() if "esptool" in load_board(n).flashers} == set(ESP_BOARDS)


@pytest.mark.parametrize("model", ["", "kws"])
@pytest.mark.parametrize("name", ESP_BOARDS)
def test_esptool_reads_an_image_that_the_rom_can_load(
    name: str, model: str, tmp_path: Path
) -> None:
    board = load_board(name)
    chip, held = ESP_BOARDS[name]
    assert board.settings["esptool"]["chip"] == chip
    libraries = [kws(board)] if model else []
    elf = build(libraries, board, warnings_as_errors=True).elf
    image = tmp_path / "image.bin"
    esptool("--chip", chip, "elf2image", "-o", image, elf)
    text = esptool("--chip", chip, "image-info", image)
    assert "Checksum: " in text
    assert text.count("(valid)") == 2
    entry = int(re.search(r"Entry point: (0x[0-9a-f]+)", text)[1], 16)  # type: ignore[index]
    segments = [
        (int(at, 16), int(size, 16), kinds)
        for size, at, kinds in re.findall(
            r"^ +\d+ +(0x[0-9a-f]+) +(0x[0-9a-f]+) +0x[0-9a-f]+ +(.*)$", text, re.MULTILINE
        )
    ]
    code = board.regions("flash")[0]
    fetched = code.origin if code.fetch_origin is None else code.fetch_origin
    assert entry == fetched
    loaded = 0
    for at, size, kinds in segments:
        assert "RAM" in kinds, "the ROM fills RAM only"
        # At whichever address, it is the same memory.
        start = at - fetched + code.origin if fetched <= at < fetched + code.size else at
        assert code.origin <= start
        assert start + size <= min(code.end, held)
        loaded += size
    assert loaded >= sum(len(segment.data) for segment in read_image(elf))


def test_rp2350_image_for_risc_v_has_an_entry() -> None:
    """As for Arm, with the item of the entry point: data sheet, chapter 5.9.3.5."""
    board = load_board("raspberry-pi-pico-2-riscv")
    firmware, first = image(board)
    start = first.data.index((0xFFFF_DED3).to_bytes(4, "little"))
    assert start % 4 == 0
    assert start + 32 <= 4096
    item, entry_item, entry, stack, last, link, end = (
        word(first, start + 4 * n) for n in range(1, 8)
    )
    assert item == 0x42 | 1 << 8 | (1 | 1 << 8 | 1 << 12) << 16  # executable, RISC-V, RP2350
    assert entry_item == 0x44 | 3 << 8
    assert last == 0xFF | (1 + 3) << 8
    assert (link, end) == (0, 0xAB12_3579)
    ram = board.regions("ram")[0]
    assert stack == ram.origin + board.stack_bytes + board.handler_stack_bytes
    with firmware.elf.open("rb") as file:
        elf = ELFFile(file)
        assert elf["e_entry"] == entry == first.address
        assert elf.get_machine_arch() == "RISC-V"


def test_longan_image_leaves_the_alias_of_its_flash() -> None:
    """The chip starts at address 0, where the flash is seen, too. Code that is linked for the flash
    finds nothing from there: by its distance it is elsewhere.
    """
    firmware, first = image(load_board("longan-nano"))
    assert first.address == 0x0800_0000
    text = subprocess.run(
        ["riscv64-unknown-elf-objdump", "-d", "--no-show-raw-insn", str(firmware.elf)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    begin = text.partition("<hil_reset_handler>:")[2].splitlines()[1:8]
    before = [line.split("\t", 1)[1] for line in begin if "\t" in line]
    jump = next(n for n, line in enumerate(before) if line.startswith("jr\t"))
    assert not any(line.startswith(("auipc", "jal", "call")) for line in before[:jump])
    assert before[jump - 2].split()[:2] == ["lui", "t0,0x8000"]


@pytest.mark.parametrize("name", ["longan-nano", "raspberry-pi-pico-2-riscv"])
def test_digits_fits_a_riscv_board(name: str) -> None:
    board = load_board(name)
    library = hilc.compile(ROOT / "examples" / "digits" / "digits.tflite", cpu=board.cpu.name)
    sizes = build([library], board, warnings_as_errors=True).sizes
    for use, region in zip(sizes.regions, board.memory, strict=True):
        assert use.used <= region.size, use


#: A board with a boot loader, and one whose firmware would overwrite it.
LOADERS = {
    "giga-r1": "nucleo-h743zi",
    "nano-33-ble": "nrf52840dk",
    "portenta-h7": "nucleo-h743zi",
    "xiao-nrf52840": "nano-33-ble",
}


@pytest.mark.parametrize("name", LOADERS)
def test_an_image_over_a_boot_loader_is_refused(name: str) -> None:
    board = load_board(name)
    with pytest.raises(InputError, match=f"where {name} has no memory"):
        check_image(board, build([], load_board(LOADERS[name])).elf)
    check_image(board, build([], board).elf)


def test_an_image_at_the_end_of_the_xiaos_flash() -> None:
    """Data and boot loader begin at 0xED000 there."""
    flash = load_board("xiao-nrf52840").regions("flash")[0]
    assert (flash.origin, flash.end) == (0x2_7000, 0xE_D000)
