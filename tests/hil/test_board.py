"""Board descriptions: those that ship are valid, and a mistake is told with file and key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hil.board import board_names, default_board, load_board
from hil.board.ports import port_names
from hil.build import build
from hil.errors import BoardError
from hilc.support.resources import data_dir
from hilc.support.toml import tomllib

ROOT = Path(__file__).resolve().parents[2]
VALID = """\
description = "a board"
cpu = "cortex-m4"
clock_hz = 25_000_000
stack_bytes = "4K"
handler_stack_bytes = 1024

[[memory]]
name = "flash"
kind = "flash"
origin = 0x0
size = "256K"

[[memory]]
name = "ram"
kind = "ram"
origin = 0x2000_0000
size = 65536

[core]
port = "cortex_m"

[soc]
port = "fixed_clock"

[timer]
port = "systick"

[uart]
port = "cmsdk_uart"
base = 0x4000_4000
irq = 0

[rpc]
frame_max = 1024
rx_max = 1024

[runner]
name = "qemu"
machine = "mps2-an386"
icount_shift = 7
"""

RAM_2 = '[[memory]]\nname = "{}"\nkind = "ram"\norigin = {}\nsize = {}\n\n[core]'

# What is wrong: (replaced, by, key in the message, further words of the message)
MISTAKES = {
    "not TOML": ("[core]", "[core", "", "not valid TOML"),
    "unknown key": ("clock_hz", "colour = 1\nclock_hz", "colour", "unknown key"),
    "misspelt table": ("[rpc]", "[rcp]", "rpc", "is 'rcp' a misspelling of it"),
    "misspelt key": ('stack_bytes = "4K"', 'stack_byte = "4K"', "stack_bytes", "'stack_byte'"),
    "unknown nested key": ("irq = 0", "irq = 0\nbauds = 9600", "uart.bauds", "did you mean baud"),
    "missing": ("clock_hz = 25_000_000\n", "", "clock_hz", "the key is missing"),
    "missing nested": ("frame_max = 1024\n", "", "rpc.frame_max", "the key is missing"),
    "missing in memory": ("origin = 0x0\n", "", "memory[0].origin", "the key is missing"),
    "missing table": ('[soc]\nport = "fixed_clock"\n', "", "soc", "the key is missing"),
    "string for integer": ("25_000_000", '"25 MHz"', "clock_hz", "'25 MHz' is not an integer"),
    "boolean for integer": ("irq = 0", "irq = true", "uart.irq", "True is not an integer"),
    "float for integer": ("25_000_000", "25e6", "clock_hz", "25000000.0 is not an integer"),
    "integer for boolean": ("clock_hz", "default = 1\nclock_hz", "default", "not true or false"),
    "integer for string": ('"a board"', "1", "description", "1 is not a string"),
    "empty string": ('"a board"', '" "', "description", "the string is empty"),
    "value for runner": ("clock_hz", "flasher = 1\nclock_hz", "flasher", "1 is not a table"),
    "runner without name": ('name = "qemu"\n', "", "runner.name", "the key is missing"),
    "setting of another runner": ("shift = 7", "shift = 7\nmips = 1", "runner.mips", "unknown key"),
    "runner twice": (
        "clock_hz",
        'flasher = [{name = "pyocd", target = "x"}, {name = "pyocd"}]\nclock_hz',
        "flasher[1].name",
        "is a duplicate",
    ),
    "setting of the flasher": (
        "clock_hz",
        'flasher = {name = "pyocd", target = 1}\nclock_hz',
        "flasher.target",
        "1 is not a string",
    ),
    "value for table": ("[rpc]\nframe_max = 1024\nrx_max = 1024", "[x]", "rpc", "is missing"),
    "unknown core": ("cortex-m4", "cortex-m44", "cpu", "did you mean cortex-m4"),
    "unknown runner": ('name = "qemu"', 'name = "qem"', "runner.name", "did you mean qemu"),
    "unknown flasher": (
        "clock_hz",
        'flasher = {name = "pyocdd"}\nclock_hz',
        "flasher.name",
        "did you mean pyocd",
    ),
    "no runner": (
        '[runner]\nname = "qemu"\nmachine = "mps2-an386"\nicount_shift = 7\n',
        "",
        "runner",
        "has no runner and no flasher",
    ),
    "runners of 0.1": (
        "clock_hz",
        'runners = ["pyocd", "qemu"]\nclock_hz',
        "runners",
        '[[flasher]] name = "pyocd"; [[runner]] name = "qemu"',
    ),
    "table of 0.1": (
        "[core]",
        '[pyocd]\ntarget = "x"\n[core]',
        "pyocd",
        'move its keys to [[flasher]] with name = "pyocd"',
    ),
    "unknown port": ("cmsdk_uart", "cmsdk", "uart.port", "did you mean cmsdk_uart"),
    "port of another role": ('"cmsdk_uart"', '"systick"', "uart.port", "provides timer, not uart"),
    "port of another machine": ('"cortex_m"', '"native"', "core.port", "is for host"),
    "setting out of range": ("irq = 0", "irq = 240", "uart.irq", "240 is not within 0 to 239"),
    "setting of another port": ("irq = 0", "irq = 0\ntx_pin = 1", "uart.tx_pin", "unknown key"),
    "size in words": ('"256K"', '"256 kB"', "memory[0].size", 'size = 65536, "64K" or "4M"'),
    "size zero": ("65536", "0", "memory[1].size", "not a number of bytes"),
    "size negative": ("65536", "-8", "memory[1].size", "not a number of bytes"),
    "free reads": ("65536", "65536\nread_cycles = -1", "memory[1].read_cycles", "within 0 to 1000"),
    "beyond 32 bits": ("65536", '"4096M"', "memory[1].size", "beyond 32 bits"),
    "unaligned region": ("65536", "65537", "memory[1].origin", "multiples of 8"),
    "bad kind": ('kind = "ram"', 'kind = "rom"', "memory[1].kind", "did you mean ram"),
    "bad region name": ('"ram"\nkind', '"main ram"\nkind', "memory[1].name", "identifier"),
    "region twice": ("[core]", RAM_2.format("ram", "0x3000_0000", 64), "memory[2].name", "earlier"),
    "overlap": (
        "[core]",
        RAM_2.format("more", "0x2000_FFF8", 64),
        "memory[2].origin",
        "'more' (0x2000fff8 to 0x20010038) overlaps 'ram' (0x20000000 to 0x20010000)",
    ),
    "no flash": ('kind = "flash"', 'kind = "ram"', "memory", "region of kind 'flash' is missing"),
    "flash too small": ('"256K"', '"2K"', "memory[0].size", "'flash' has 2048 bytes"),
    "RAM too small": ("65536", '"4K"', "memory[1].size", "the firmware without a model takes"),
    "stack too small": ('"4K"', "256", "stack_bytes", "256 bytes are too few"),
    "handler stack too small": ("_bytes = 1024", "_bytes = 64", "handler_stack_bytes", "too few"),
    "stack unaligned": ('"4K"', "4100", "stack_bytes", "not a multiple of 32"),
    "ring below frame": ("rx_max = 1024", "rx_max = 1000", "rpc.rx_max", "not within 1024"),
    "counts not exact": ("shift = 7", "shift = 6", "runner.icount_shift", "raise it to 7 or more"),
}


def load_text(folder: Path, text: str) -> Path:
    path = folder / "board.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", board_names())
def test_shipped_board_is_valid(name: str) -> None:
    board = load_board(name)
    assert board.name == name
    assert board.default_runner == board.runners[0]
    assert {role for port in board.ports for role in port.roles} == {"core", "soc", "timer", "uart"}


def test_one_shipped_board_is_the_default() -> None:
    defaults = [name for name in board_names() if load_board(name).is_default]
    assert defaults == [default_board().name]


def test_valid_description(tmp_path: Path) -> None:
    board = load_board(load_text(tmp_path, VALID))
    assert [(r.name, r.origin, r.size) for r in board.memory] == [
        ("flash", 0, 256 * 1024),
        ("ram", 0x2000_0000, 65536),
    ]
    assert board.stack_bytes == 4096
    assert board.macros == {
        "HIL_UART_BASE": 0x4000_4000,
        "HIL_UART_IRQ": 0,
        "HIL_UART_BAUD": 115200,
    }
    assert board.qemu is not None
    assert (board.qemu.serial, board.qemu.cpu, board.qemu.memory_bytes) == (0, "", 0)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_names_file_and_key(mistake: str, tmp_path: Path) -> None:
    replaced, by, key, words = MISTAKES[mistake]
    assert VALID.count(replaced) == 1, "the mistake must be made in one place"
    path = load_text(tmp_path, VALID.replace(replaced, by))
    with pytest.raises(BoardError) as caught:
        load_board(path)
    prefix = f"{path}: {key}: " if key else f"{path}: "
    assert str(caught.value).startswith(prefix)
    assert words in str(caught.value)


def test_role_given_twice(tmp_path: Path) -> None:
    native = data_dir("targets") / "native.toml"
    text = native.read_text(encoding="utf-8") + '\n[uart]\nport = "pl011"\n'
    with pytest.raises(BoardError, match="uart: port 'native' provides the uart already"):
        load_board(load_text(tmp_path, text))


def test_unknown_board_is_told_with_the_nearest() -> None:
    with pytest.raises(BoardError, match=r"unknown board 'mps2-an368' \(did you mean mps2-an38"):
        load_board("mps2-an368")


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="the board description"):
        load_board(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("origin", "other", "guard"),
    [
        (0x2000_0000, None, 1 << 20),
        (0x2000_0000, 0x1FFF_0000, 0),  # memory right below the stack
        (0x2000_0000, 0x1FFE_0000, 1 << 16),  # a gap of 64 KB
        (0x2000_8000, None, 1 << 15),  # a larger block would not be aligned
    ],
)
def test_guard_below_the_stack(origin: int, other: int | None, guard: int, tmp_path: Path) -> None:
    text = VALID.replace("origin = 0x2000_0000", f"origin = {origin}")
    if other is not None:
        text = text.replace("[core]", RAM_2.format("other", other, '"64K"'))
    assert load_board(load_text(tmp_path, text)).stack_guard_bytes == guard


@pytest.mark.parametrize("name", port_names())
def test_port_description(name: str) -> None:
    folder = data_dir("firmware_template") / "ports" / name
    about = tomllib.loads((folder / "port.toml").read_text(encoding="utf-8"))
    assert set(about) <= {
        *("summary", "arch", "provides", "sources", "uses", "settings", "renode", "pins", "pll"),
    }
    own = [source for source in about["sources"] if "/" not in source]
    assert sorted(own) == sorted(path.name for path in folder.glob("*.c"))
    for shared in set(about["sources"]) - set(own):
        assert (folder / ".." / shared).is_file()
        assert shared.partition("/")[0] in about["uses"]
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.[ch]"))
    for used in about.get("uses", ()):
        headers = [path.read_text(encoding="utf-8") for path in (folder / ".." / used).glob("*.h")]
        assert headers, f"{used} has no header to share"
        text += "".join(headers)
    for key, setting in about.get("settings", {}).items():
        assert {"help", "min", "max"} <= set(setting) <= {"help", "min", "max", "default", "board"}
        macro = f"HIL_{about['provides'][0]}_{key}".upper()
        # A setting may also be another port's to read: the startup's vectors use interrupt numbers.
        assert re.search(rf"\b{macro}\b", text), f"{macro} is used nowhere in the port"


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "board-files.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([\w.\[\]]+)` \|", text, re.MULTILINE))
    used: set[str] = set()
    descriptions = [p for p in data_dir("targets").rglob("*.toml") if p.parent.name != "elsewhere"]
    for path in descriptions:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        for key, value in table.items():
            if key == "memory":
                used |= {f"memory[].{inner}" for region in value for inner in region}
            elif key == "uarts":
                # Beside these stand settings of its port.
                own = {"port", "soc", "pin_function", "pin_functions", "renode"}
                used |= {f"uarts.NAME.{k}" for uart in value.values() for k in own & set(uart)}
            elif key in ("runner", "flasher"):
                tables = value if isinstance(value, list) else [value]
                used |= {f"{key}.{inner}" for entry in tables for inner in entry}
            elif key in ("runners", "flashers"):
                used |= {f"{key}.{name}.{k}" for name, entry in value.items() for k in entry}
            elif isinstance(value, dict):
                own = {"port", "pll_input_hz", "instance", "tx", "rx"} & set(value)
                used |= {f"{key}.{inner}" for inner in (value if key == "rpc" else own)}
            else:
                used.add(key)
    assert used <= documented


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# caf\xe9\n", "line 1 is not UTF-8 text: it contains byte 0xe9\n\nhint: save the file"),
        (b"a = 1\nb = '\xff'\n", "line 2 is not UTF-8 text: it contains byte 0xff"),
        (b"chip = 5\n", '5 is not the name of a chip\n\nhint: write chip = "NAME"'),
        (VALID.replace('"a board"', "1").encode(), 'hint: write description = "..."'),
        (VALID.replace('name = "qemu"', "name = 3").encode(), 'write name = "..." of a runner'),
    ],
)
def test_wrong_encodings_and_types_have_remedies(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "b.toml"
    path.write_bytes(content)
    with pytest.raises(BoardError) as caught:
        load_board(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name", ["esp32", "ESP32-S3", "esp32s2-saola", "xiao-esp32s3", "nano-esp32", "esp32_devkitc"]
)
def test_an_xtensa_board_has_the_export_as_its_remedy(name: str) -> None:
    with pytest.raises(BoardError, match="no firmware for the board .* Xtensa") as caught:
        load_board(name)
    assert "hil export MODEL --build-system esp-idf" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["esp32-c3", "esp32c6", "esp32-h2", "esp32_p4"])
def test_an_unknown_esp_board_with_a_riscv_core(name: str) -> None:
    with pytest.raises(BoardError, match="unknown board"):
        load_board(name)


IMAGE_KEYS = """
[[memory]]
name = "image"
kind = "{kind}"
origin = 0x2000_0000
size = "64K"
{key}
"""


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        ("ram", "writable = true", "writable: only memory for the image has it"),
        ("ram", "fetch_origin = 0", "fetch_origin: only memory for the image has it"),
        ("flash", "fetch_origin = 4", "fetch_origin: 0x4 is not a multiple of 8"),
        ("flash", "fetch_origin = 0xFFFF_FFF8", "fetch_origin: 4294967288 is not within"),
        ("flash", 'writable = "yes"', "writable: .*yes.* is not true or false"),
    ],
)
def test_keys_of_memory_for_the_image_are_checked(
    kind: str, key: str, message: str, tmp_path: Path
) -> None:
    text = (data_dir("targets") / "raspberry-pi-pico-2.toml").read_text(encoding="utf-8")
    path = tmp_path / "board.toml"
    path.write_text(text + IMAGE_KEYS.format(kind=kind, key=key).replace("2000_0", "6000_0"))
    with pytest.raises(BoardError, match=message):
        load_board(path)


def test_a_core_with_one_address_space(tmp_path: Path) -> None:
    text = (data_dir("targets") / "raspberry-pi-pico-2.toml").read_text(encoding="utf-8")
    path = tmp_path / "board.toml"
    path.write_text(text.replace('size = "4M"', 'size = "4M"\nwritable = true'))
    with pytest.raises(BoardError, match="the port 'cortex_m' takes no fetch_origin and no writ"):
        build([], load_board(path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('reserved_end_bytes = "4M"', "reserved_end_bytes: 4194304 is not a multiple of 8 below"),
        ("reserved_end_bytes = 4", "reserved_end_bytes: 4 is not a multiple of 8"),
        (
            'reserved_end_bytes = "2M"\nboot_loader_bytes = "2M"',
            "reserved_end_bytes: with boot_loader_bytes it leaves nothing of 'flash'",
        ),
    ],
)
def test_what_a_boot_loader_holds_leaves_flash(line: str, message: str, tmp_path: Path) -> None:
    text = (data_dir("targets") / "raspberry-pi-pico-2.toml").read_text(encoding="utf-8")
    path = tmp_path / "board.toml"
    path.write_text(text.replace("flasher =", f"{line}\nflasher ="))
    with pytest.raises(BoardError, match=message):
        load_board(path)
