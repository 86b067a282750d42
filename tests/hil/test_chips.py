"""Boards, chips and families: each fact stands in one file, and errors name the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from descriptions import description_text

from hil.board import Board, board_names, load_board
from hil.board.description import chip_names
from hil.build import build
from hil.cli import main
from hil.errors import BoardError
from hilc.support.resources import data_dir
from hilc.support.toml import tomllib
from hilc.target import get_cpu

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
PAGE = (ROOT / "docs" / "reference" / "board-files.md").read_text(encoding="utf-8")
PORTS = (ROOT / "docs" / "reference" / "ports.md").read_text(encoding="utf-8")
TARGETS = data_dir("targets")
FAMILIES = sorted(path.stem for path in (TARGETS / "families").glob("*.toml"))


def values(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def chip_values(chip: str) -> list[dict[str, Any]]:
    """What the chip's file says, and its family's."""
    own = values(TARGETS / "chips" / f"{chip}.toml")
    family = own.pop("family", None)
    return [own, *([values(TARGETS / "families" / f"{family}.toml")] if family else [])]


def leaves(table: Mapping[str, Any], where: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{where}{key}.")
        elif key == "memory":
            yield from (f"memory[].{inner}" for region in value for inner in region)
        elif key in ("runner", "flasher"):
            yield from (f"{key}.{inner}" for entry in value for inner in entry)
        else:
            yield f"{where}{key}"


def documented(kind: str) -> set[str]:
    """The keys and settings of ports that the page gives to a ``board`` or a ``chip``."""
    rows = re.findall(r"^\| `([\w.\[\]]+)` \| ([a-z, ]+) \|", PAGE, re.MULTILINE)
    keys = {key for key, kinds in rows if kind in kinds.split(", ")}
    role = ""
    for line in PORTS.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0]:
            role = cells[1].partition(",")[0]
        elif len(cells) == 6 and cells[3] == kind:
            keys.add(f"{role}.{cells[2]}")
    return keys


@pytest.mark.parametrize("name", board_names())
def test_a_board_says_nothing_of_its_chip(name: str) -> None:
    said = values(TARGETS / f"{name}.toml")
    keys = set(leaves(said))
    assert keys <= documented("board")
    chip = chip_values(said["chip"])
    # Regions are told apart by their names; a chip says nothing of a board's own.
    of_chip = {key for table in chip for key in leaves(table)} - documented("board")
    assert not keys & of_chip
    names = [r["name"] for table in (said, *chip) for r in table.get("memory", ())]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", chip_names())
def test_a_chip_states_neither_board_nor_family(name: str) -> None:
    wanted = documented("chip") | {"uarts.NAME"}
    uart_settings = {key.replace("uart.", "uarts.NAME.") for key in wanted if "uart." in key}
    soc_settings = {key.replace("soc.", "uarts.NAME.soc.") for key in wanted if "soc." in key}
    tables = chip_values(name)
    for table in tables:
        keys = {re.sub(r"^uarts\.\w+", "uarts.NAME", key) for key in leaves(table)}
        keys = {key.partition("pin_functions.")[0] + "pin_functions" if "pin_functions." in key
                else key for key in keys}  # fmt: skip
        assert keys <= wanted | uart_settings | soc_settings
    counts = Counter(key for table in tables for key in leaves(table) if "[]" not in key)
    assert set(counts.values()) <= {1}


def test_every_chip_has_a_board() -> None:
    used = Counter(values(TARGETS / f"{name}.toml")["chip"] for name in board_names())
    assert set(used) == set(chip_names())
    files = (TARGETS / "chips" / f"{name}.toml" for name in chip_names())
    families = Counter(family for file in files if (family := values(file).get("family")))
    assert sorted(families) == FAMILIES
    assert min(families.values()) >= 2


def test_no_two_chips_are_the_same() -> None:
    """Two boards of one chip name one file."""
    seen: dict[str, str] = {}
    for name in chip_names():
        facts = repr(chip_values(name))
        assert facts not in seen, f"{name} and {seen[facts]} say the same"
        seen[facts] = name


# -- boards of a user --------------------------------------------------------------------------

#: Lines of a board of a chip that ships: a crystal, a UART and its pins.
TEN_LINES = """\
description = "A board of mine (STM32F429ZI)"
chip = "stm32f429zi"
flasher = { name = "pyocd" }

[soc]
hse_hz = 25_000_000

[uart]
instance = "usart1"
tx = "PA9"
rx = "PB7"
"""

EMULATED = """\
description = "MPS2 as I use it"
chip = "mps2-an386"

[uart]
instance = "uart0"

[runner]
name = "qemu"
machine = "mps2-an386"
icount_shift = 7
"""

CHIP = """\
family = "stm32f4"
clock_hz = 96_000_000

[[memory]]
name = "flash"
kind = "flash"
origin = 0x0800_0000
size = "512K"

[[memory]]
name = "ram"
kind = "ram"
origin = 0x2000_0000
size = "128K"

[soc]
pll_n = 384
pll_p = 4
pll_q = 8
apb1_div = 2
apb2_div = 1
flash_wait_states = 3

[uarts]
usart1.clock_hz = 96_000_000

[flashers.pyocd]
target = "stm32f411ce"
"""


def write(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def lines(text: str) -> int:
    return len([line for line in text.splitlines() if line.strip()])


def test_ten_lines_are_a_board_of_a_known_chip(tmp_path: Path) -> None:
    assert lines(TEN_LINES) <= 10
    board = load_board(write(tmp_path, TEN_LINES))
    same = load_board("nucleo-f429zi")
    assert (board.cpu, board.clock_hz, board.memory) == (same.cpu, same.clock_hz, same.memory)
    assert board.macros["HIL_SOC_PLL_M"] == 25
    assert (board.macros["HIL_SOC_GPIO"], board.macros["HIL_SOC_RX_GPIO"]) == (0, 1)
    assert board.macros["HIL_UART_CLOCK_HZ"] == 90_000_000
    # The port's static assertions check the clocks, too.
    firmware = build([], board, warnings_as_errors=True)
    assert firmware.elf.is_file()


def test_ten_lines_run_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(EMULATED) <= 10
    path = write(tmp_path, EMULATED)
    assert main(["verify", str(DIGITS), "--board", str(path), "--samples", "2"]) == 0
    assert "digits on mine: match" in capsys.readouterr().out


def test_a_chip_of_the_users_beside_the_board(tmp_path: Path) -> None:
    text = TEN_LINES.replace('"stm32f429zi"', '"chips/f411ce.toml"')
    chip = write(tmp_path, CHIP, "chips/f411ce")
    board = load_board(write(tmp_path, text))
    assert (board.clock_hz, board.stack_bytes) == (96_000_000, 8192)
    assert board.chip_files == (TARGETS / "families" / "stm32f4.toml", chip)
    assert board.settings["pyocd"]["target"] == "stm32f411ce"
    assert build([], board).elf.is_file()


def test_a_core_of_the_users_beside_the_chip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path is relative to the file that has it, whichever of the three."""
    monkeypatch.setattr("hilc.target.cores._ADDED", {})
    core = tmp_path / "chips" / "cores" / "my-m4.toml"
    core.parent.mkdir(parents=True)
    core.write_bytes(get_cpu("cortex-m4").path.read_bytes())
    for named, chip in (("cores/my-m4.toml", CHIP), ("chips/cores/my-m4.toml", None)):
        if chip is None:
            text = description_text("nucleo-f429zi").replace('"cortex-m4"', f'"{named}"')
        else:
            family = (TARGETS / "families" / "stm32f4.toml").read_text(encoding="utf-8")
            own = family.replace('"cortex-m4"', f'"{named}"')
            write(tmp_path, own, "chips/f4")
            write(tmp_path, chip.replace('"stm32f4"', '"f4.toml"'), "chips/mine")
            text = TEN_LINES.replace("stm32f429zi", "chips/mine.toml")
        board = load_board(write(tmp_path, text))
        assert board.cpu.arch == get_cpu("cortex-m4").arch
        assert board.cpu.name == "my-m4"


def test_a_board_that_uses_the_probe_as_its_line(tmp_path: Path) -> None:
    text = TEN_LINES.partition("[soc]")[0].replace("stm32f429zi", "nrf52840")
    board = load_board(write(tmp_path, text + '[uart]\nport = "rtt"\nup_bytes = 2048\n'))
    assert board.is_over_rtt
    assert board.macros["HIL_UART_UP_BYTES"] == 2048


def test_a_board_has_its_own_sizes_and_memory(tmp_path: Path) -> None:
    more = """
[rpc]
frame_max = 1024

[[memory]]
name = "sdram"
kind = "ram"
origin = 0xD000_0000
size = "8M"
"""
    text = TEN_LINES.replace("flasher", 'stack_bytes = "4K"\nboot_loader_bytes = "32K"\nflasher')
    board = load_board(write(tmp_path, text + more))
    same = load_board("nucleo-f429zi")
    assert (board.stack_bytes, board.handler_stack_bytes) == (4096, same.handler_stack_bytes)
    assert (board.frame_max, board.rx_max) == (1024, same.rx_max)
    assert [region.name for region in board.memory] == ["flash", "ram", "ccm", "sdram"]
    flash = same.memory[0]
    assert board.memory[0] == replace(
        flash, origin=flash.origin + (32 << 10), size=flash.size - (32 << 10)
    )


def test_the_internal_oscillator_is_no_crystal(tmp_path: Path) -> None:
    board = load_board(write(tmp_path, TEN_LINES.replace("25_000_000", "0")))
    assert board.macros["HIL_SOC_PLL_M"] == 16


#: What is wrong: (file, replaced, by, file that is named, its key, further words).
MISTAKES = {
    "unknown chip": ("board", '"stm32f429zi"', '"stm32f429"', "board", "chip", "did you mean stm"),
    "chip of another type": ("board", '"stm32f429zi"', "429", "board", "chip", "429 is not the na"),
    "missing chip file": ("board", '"stm32f429zi"', '"./x.toml"', "board", "chip", "no file"),
    "chip's key": ("board", "flasher", "clock_hz = 1\nflasher", "board", "clock_hz", "the chip's"),
    "chip's memory": (
        "board", "[soc]",
        '[[memory]]\nname = "more"\nkind = "ram"\norigin = 0x2000_0000\nsize = "1K"\n[soc]',
        "board", "memory[0].origin", "overlaps 'ram'",
    ),
    "chip's setting": ("board", "hse_hz", "pll_n = 1\nhse_hz", "board", "soc.pll_n", "the chip's"),
    "divider": ("board", "hse_hz", "pll_m = 1\nhse_hz", "board", "soc.pll_m", "follows from soc."),
    "pin": ("board", "hse_hz", "tx_pin = 1\nhse_hz", "board", "soc.tx_pin", "follows from uart.tx"),
    "pin in chip": ("chip", "pll_n", "gpio = 1\npll_n", "chip", "soc.gpio", "follows from uart.tx"),
    "chip's UART": ("board", "tx =", "base = 1\ntx =", "board", "uart.base", "the chip's"),
    "chip's target": (
        "board", '"pyocd" }', '"pyocd", target = "x" }', "chip", "flashers.pyocd.target",
        "duplicate of flasher.target",
    ),
    "chip's emulator": (
        "board", "[soc]", '[renode]\nplatform = "x"\n[soc]', "board", "renode", "[[runner]] with"
    ),
    "unknown key": ("board", "flasher", "defualt = true\nflasher", "board", "defualt", "mean defa"),
    "unknown setting": ("board", "hse_hz", "hse_hx", "board", "soc.hse_hx", "did you mean hse_hz"),
    "missing setting": ("board", "hse_hz = 25_000_000", "", "board", "soc.hse_hz", "is missing"),
    "unknown UART": ("board", "usart1", "usart9", "board", "uart.instance", "no UART 'usart9'"),
    "no UART": ("board", 'instance = "usart1"', "", "board", "uart.instance", "choose one of usa"),
    "UART by its port": ("board", 'instance = "usart1"\ntx = "PA9"\nrx = "PB7"',
                         'port = "stm32_usart"', "board", "uart.port", "belong to the chip"),
    "RTT with pins": ("board", 'instance = "usart1"\ntx = "PA9"\nrx = "PB7"', 'port = "rtt"',
                      "board", "uart.port", "stm32f4 of the chip sets up the pins of a UART"),
    "no pin": ("board", 'rx = "PB7"', "", "board", "uart.rx", "add the pin, such as 'PD8'"),
    "bad pin": ("board", '"PB7"', '"B7"', "board", "uart.rx", "'B7' is not a pin"),
    "pin out of range": ("board", '"PB7"', '"PB17"', "board", "uart.rx", "17 is not within"),
    "odd crystal": ("board", "25_000_000", "25_500_000", "board", "soc.hse_hz", "not a multiple"),
    "crystal in words": ("board", "25_000_000", '"25 MHz"', "board", "soc.hse_hz", "an integer"),
    "table for value": ("board", "hse_hz = 25_000_000", "hse_hz = {}", "board", "soc.hse_hz", "{}"),
    "value for table": ("board", "[soc]\nhse_hz = 25_000_000", "soc = 1", "board", "soc", "table"),
    "boot loader": (
        "board", "flasher", 'boot_loader_bytes = "2M"\nflasher', "board", "boot_loader_bytes", "bel"
    ),
    "no runner's table": (
        "board", "[soc]", 'runner = {name = "renode"}\n[soc]', "board", "runner.platform",
        "Renode model",
    ),
    "no flasher's table": (
        "chip", '[flashers.pyocd]\ntarget = "stm32f411ce"', "", "board", "flasher.target",
        "the key is missing",
    ),
    "unknown family": ("chip", '"stm32f4"', '"stm32f5"', "chip", "family", "did you mean stm32f4"),
    "board's key": ("chip", "family", "runner = []\nfamily", "chip", "runner",
                    "belongs to a board"),
    "board's setting": ("chip", "pll_n", "hse_hz = 1\npll_n", "chip", "soc.hse_hz", "to a board's"),
    "unknown chip key": ("chip", "family", "famly = 1\nfamily", "chip", "famly", "did you mean"),
    "missing in chip": ("chip", "pll_n = 384", "", "chip", "soc.pll_n", "the key is missing"),
    "missing clock": ("chip", "clock_hz = 96_000_000\n\n[[", "\n[[", "chip", "clock_hz", "missing"),
    "missing in UART": ("chip", "usart1.clock_hz = 96_000_000", "usart1 = {}", "chip",
                        "uarts.usart1.clock_hz", "the key is missing"),
    "wrong in UART": ("chip", "usart1.clock_hz = 96_000_000", "usart1.clock_hz = 1", "chip",
                      "uarts.usart1.clock_hz", "1 is not within"),
    "unknown in UART": ("chip", "usart1.clock_hz", "usart1.clok_hz", "chip",
                        "uarts.usart1.clok_hz", "did you mean clock_hz"),
    "stated twice": ("chip", "family", 'cpu = "cortex-m4"\nfamily', "chip", "cpu",
                     "duplicate of cpu in"),
    "UART stated twice": ("chip", "usart1.clock_hz", "usart1.irq = 1\nusart1.clock_hz", "chip",
                          "uarts.usart1.irq", "duplicate of"),
    "region twice": ("chip", 'name = "ram"', 'name = "flash"', "chip", "memory[1].name", "earlier"),
    "region too small": ("chip", '"128K"', '"4K"', "chip", "memory[1].size", "the firmware"),
    "unknown port": ("chip", "pll_n", 'port = "stm32f5"\npll_n', "chip", "soc.port", "duplicate"),
    "not TOML": ("chip", "[soc]", "[soc", "chip", "", "not valid TOML"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_the_file_that_has_it(mistake: str, tmp_path: Path) -> None:
    where, replaced, by, named, key, words = MISTAKES[mistake]
    texts = {"board": TEN_LINES, "chip": CHIP}
    assert texts[where].count(replaced) == 1, "the mistake must be made in one place"
    texts[where] = texts[where].replace(replaced, by)
    if where == "chip":
        texts["board"] = texts["board"].replace('"stm32f429zi"', '"chips/mine.toml"')
    chip = write(tmp_path, texts["chip"], "chips/mine")
    board = write(tmp_path, texts["board"])
    if where == "board":
        chip = TARGETS / "chips" / "stm32f429zi.toml"
    path = {"board": board, "chip": chip}[named]
    with pytest.raises(BoardError) as caught:
        load_board(board)
    assert str(caught.value).startswith(f"{path}: {key}: " if key else f"{path}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("chip", "pins", "message"),
    [
        ("atsamd51j19a", ("sercom3", "PA22", "PA07"), "no alternate function of PA07"),
        ("atsamd51j19a", ("sercom2", "PB25", "PA22"), "no alternate function of PA22"),
        ("nrf52840", ("uart0", "P0.06", "P2.08"), "'P2.08' is not a pin"),
        ("rp2040", ("uart0", "GP0", "GP77"), "77 is not within 0 to 29"),
        ("lpc55s69", ("flexcomm0", "PIO0_30", "PIO0_29"), "uart.tx: unknown key"),
    ],
)
def test_pins_that_cannot_be(
    chip: str, pins: tuple[str, str, str], message: str, tmp_path: Path
) -> None:
    uart = '[uart]\ninstance = "{}"\ntx = "{}"\nrx = "{}"\n'.format(*pins)
    head = f'description = "x"\nchip = "{chip}"\nflasher = {{ name = "pyocd" }}\n'
    with pytest.raises(BoardError) as caught:
        load_board(write(tmp_path, head + uart))
    assert message in str(caught.value)


def test_the_guides_files_are_a_board_and_a_chip(tmp_path: Path) -> None:
    """As they stand there, and as they ship, with more flashers than the guide names."""

    def bare(board: Board) -> Board:
        plain = replace(board, name="", path=tmp_path, settings={})
        return replace(plain, runners=("pyocd",), flashers=("pyocd",))

    guide = (ROOT / "docs" / "how-to" / "add-board.md").read_text(encoding="utf-8")
    board, chip = re.findall(r"^```toml\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert lines(board) <= 10
    known = load_board(write(tmp_path, board))
    shipped = load_board("disco-f429zi")
    assert bare(known) == bare(shipped)

    write(tmp_path, chip, "chips/mine")
    text = board.replace("stm32f429zi", "chips/mine.toml").replace("usart1", "usart3")
    own = load_board(write(tmp_path, text.replace("PA9", "PD8").replace("PA10", "PD9")))
    shipped = load_board("nucleo-f412zg")
    assert (own.memory, own.clock_hz) == (shipped.memory, shipped.clock_hz)
    assert own.macros == {**shipped.macros, "HIL_SOC_HSE_BYPASS": 0}
    assert build([], own, warnings_as_errors=True).elf.is_file()


def test_a_chip_is_no_board() -> None:
    with pytest.raises(BoardError, match="describes a chip, not a board"):
        load_board(TARGETS / "chips" / "stm32f429zi.toml")


def test_a_project_keeps_board_and_chip(tmp_path: Path) -> None:
    """A project of ``tvmc micro`` depends on no file of the user's outside of it."""
    from hil.compat.tvm.tvmc_project import Project

    write(tmp_path, CHIP, "chips/f411ce")
    text = TEN_LINES.replace('"stm32f429zi"', '"chips/f411ce.toml"')
    board = load_board(write(tmp_path, text))
    folder = tmp_path / "project"
    folder.mkdir()
    Project(folder, "zephyr", board).save()
    kept = load_board(folder / "mine.toml")

    def facts(board: Board) -> Board:
        return replace(board, path=tmp_path, chip_files=())

    assert facts(kept) == facts(board)


def test_a_board_without_a_core_is_named_the_chip(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    for text, message in (("chipp = 'rp2040'\n", "chipp: unknown key"), ("", "chip: the key is m")):
        path.write_text(text)
        with pytest.raises(BoardError, match=message) as caught:
            load_board(str(path))
        assert "name a shipped chip" in caught.value.hint
