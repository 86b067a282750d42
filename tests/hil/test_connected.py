"""What is plugged in: boards behind emulated probes, and devices in stand-ins for sysfs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_bench import Bench
from serial.tools.list_ports_common import ListPortInfo

from hil.access import usb
from hil.board import load_board
from hil.board.bench import read_bench
from hil.cli import main
from hil.link.ports import lasting_name, resolve

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.tflite"
BOARD = "mps2-an386"
Hil = Callable[..., Any]


@pytest.fixture
def hil_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Hil:
    monkeypatch.chdir(tmp_path)

    def run(*words: str, code: int = 0) -> Any:
        ended = main([*words, "--json"])
        out, err = capsys.readouterr()
        assert ended == code, out + err
        answer = json.loads(out)
        return answer["results"] if code == 0 else answer["error"]["message"]

    return run


class Sysfs:
    """A stand-in for Linux's descriptions of USB devices, and for its list of ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports: list[ListPortInfo] = []

    def plug(
        self,
        path: str,
        usb_id: str,
        product: str,
        serial: str = "",
        interfaces: tuple[int, ...] = (),
    ) -> None:
        folder = self.folder / path
        folder.mkdir(parents=True)
        vendor, _, product_id = usb_id.partition(":")
        texts = {"idVendor": vendor, "idProduct": product_id, "product": product, "serial": serial}
        for name, text in texts.items():
            if text:
                (folder / name).write_text(f"{text}\n")
        (self.folder / f"{path}:1.0").mkdir()  # an interface, which has no ids
        for interface in interfaces:
            info = ListPortInfo(f"/dev/ttyACM{len(self.ports)}")
            info.vid, info.pid = int(vendor, 16), int(product_id, 16)
            info.serial_number, info.description = serial or None, product
            info.location = f"{path}:1.{interface}"
            self.ports.append(info)


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sysfs:
    sysfs = Sysfs(tmp_path / "sys")
    monkeypatch.setattr(usb, "DEVICES", sysfs.folder)
    monkeypatch.setattr("serial.tools.list_ports.comports", lambda include_links=False: sysfs.ports)
    monkeypatch.setattr("hil.access.connected.connected_probes", list)
    return sysfs


def test_nothing_is_plugged_in(sysfs: Sysfs, hil_json: Hil) -> None:
    sysfs.plug("1-1", "046d:c31c", "Keyboard")
    assert hil_json("boards", "--connected") == []


def test_a_boot_loader_is_known_by_its_usb_id(sysfs: Sysfs, hil_json: Hil) -> None:
    sysfs.plug("1-3", "2e8a:0003", "RP2 Boot", "E0C9125B0D9B")
    (found,) = hil_json("boards", "--connected")
    assert found["boards"] == ["raspberry-pi-pico"]
    assert (found["boot_loader"], found["known_by"]) == (True, "USB id")


def test_an_unknown_port_has_a_lasting_name(sysfs: Sysfs, hil_json: Hil) -> None:
    sysfs.plug("1-2.1", "1a86:7523", "USB Serial", interfaces=(0,))
    sysfs.plug("1-2.2", "1a86:7523", "USB Serial", interfaces=(0, 2))
    first, second = hil_json("boards", "--connected")
    assert first["ports"] == ["usb-path:1-2.1"]
    assert second["ports"] == ["usb-path:1-2.2:0", "usb-path:1-2.2:2"]
    assert first["boards"] == []
    assert first["address"] == "--board BOARD --port usb-path:1-2.1"
    names = [name for found in (first, second) for name in found["ports"]]
    assert [resolve(name) for name in names] == [f"/dev/ttyACM{n}" for n in range(3)]
    assert lasting_name("/dev/ttyACM0") == "usb-path:1-2.1"


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("usb-path:", "'usb-path:' has no path"),
        ("usb-path:9-9", "there is no serial port usb-path:9-9"),
        ("usb-path:1-2.2", "names 2 serial ports"),
    ],
)
def test_a_path_of_no_or_of_several_ports(
    sysfs: Sysfs, hil_json: Hil, word: str, problem: str
) -> None:
    sysfs.plug("1-2.2", "1a86:7523", "USB Serial", interfaces=(0, 2))
    code = 2 if word == "usb-path:" else 4
    assert problem in hil_json("monitor", "--port", word, "--seconds", "0.1", code=code)


def test_a_board_of_the_user_is_known_by_its_usb_id(
    sysfs: Sysfs, hil_json: Hil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "boards").mkdir()
    text = load_board("nucleo-l476rg").path.read_text()
    (tmp_path / "boards" / "own.toml").write_text(f'usb = ["2341:805a"]\n{text}')
    sysfs.plug("1-2", "2341:805a", "Own", "77AA", interfaces=(0,))
    (found,) = hil_json("boards", "--connected")
    assert (found["boards"], found["boot_loader"]) == (["own"], False)
    assert found["address"] == "--board own --port usb:77AA"
    (added,) = hil_json("board", "identify")
    assert (added["name"], added["port"]) == ("own-1", "usb:77AA")


def test_boards_are_identified_once(rig: Bench, hil_json: Hil) -> None:
    boards = [rig.add(), rig.add()]
    found = hil_json("boards", "--connected")
    assert [each["boards"] for each in found] == [[BOARD], [BOARD]]
    assert [each["probe"] for each in found] == [board.serial for board in boards]
    assert [each["ports"] for each in found] == [[f"usb:{board.serial}"] for board in boards]
    added = hil_json("board", "identify")
    assert [each["name"] for each in added] == [f"{BOARD}-1", f"{BOARD}-2"]
    assert hil_json("board", "identify") == []
    third = rig.add()
    assert [each["probe"] for each in hil_json("board", "identify")] == [third.serial]
    units = [each["unit"] for each in hil_json("boards", "--connected")]
    assert units == [f"{BOARD}-{number}" for number in (1, 2, 3)]
    # They are used by these names.
    assert hil_json("flash", str(DIGITS), "--board", f"{BOARD}-3@bench")[0]["programmed"]
    assert hil_json("reset", "--board", f"{BOARD}-3@bench")[0]["probe"] == third.serial


def test_the_file_keeps_what_it_has(rig: Bench, hil_json: Hil, tmp_path: Path) -> None:
    rig.add()
    path = tmp_path / "hil-bench.toml"
    before = '# Ours.\n[boards.old]\nboard = "native"\n'
    path.write_text(before)
    (added,) = hil_json("board", "identify", "kws-1", "--board", BOARD)
    assert path.read_text().startswith(before)
    assert list(read_bench()) == ["old", "kws-1"]
    assert read_bench()["kws-1"].probe == added["probe"] == rig.boards[0].serial


def test_a_silent_probe_needs_a_name(
    rig: Bench, hil_json: Hil, capsys: pytest.CaptureFixture[str]
) -> None:
    board = rig.add(reports=False)
    assert main(["board", "identify"]) == 0
    hint = f"hil board identify NAME --board BOARD --probe {board.serial}"
    assert hint in capsys.readouterr().err
    words = ("board", "identify", "x", "--board", BOARD)
    assert "0 boards that are plugged in may be x" in hil_json(*words, code=2)
    (added,) = hil_json(*words, "--probe", board.serial, "--port", f"usb:{board.serial}")
    assert added["probe"] == board.serial


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("x y", "--board", BOARD), "'x y' is not a name"),
        (("x",), "the type of x is not given"),
        (("old", "--board", BOARD), "has a board 'old'"),
        (("x", "--board", "no-such"), "unknown board 'no-such'"),
        (("x", "--board", BOARD, "--port", "loop://\n[boards.evil]"), "control characters"),
    ],
)
def test_a_wrong_entry_is_not_written(
    sysfs: Sysfs, hil_json: Hil, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    path = tmp_path / "hil-bench.toml"
    path.write_text('[boards.old]\nboard = "native"\n')
    assert problem in hil_json("board", "identify", *words, code=2)
    assert list(read_bench()) == ["old"]


def test_a_usb_id_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'usb = ["2341:805A"]\n{load_board("nucleo-l476rg").path.read_text()}')
    with pytest.raises(Exception, match="usb: '2341:805A' is not a USB id"):
        load_board(path)
