"""The flasher `command`: the user's programs, and a board that was not programmed by them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny_library import tiny_library

from hil import virtual_probe
from hil.access import flashers
from hil.board import load_board
from hil.board.config import command_table, remember
from hil.board.description import read_description
from hil.build import build
from hil.cli import main

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = TESTS / "support" / "boards" / "flash_machine.py"
BOARD = "mps2-an386"

Configure = Callable[..., None]


@pytest.fixture
def machine() -> Iterator[virtual_probe.VirtualBoard]:
    with virtual_probe.start(load_board(BOARD)) as (board, _):
        yield board


@pytest.fixture
def board(tmp_path: Path) -> str:
    """A board of the user's that only `command` programs."""
    path = tmp_path / "own.toml"
    path.write_text(
        f'description = "x"\nchip = "{BOARD}"\n[uart]\ninstance = "uart0"\n'
        '[flasher]\nname = "command"\ntimeout_s = 20\n'
    )
    return str(path)


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    path = tmp_path / "config" / "config.toml"
    path.parent.mkdir()
    monkeypatch.setenv("HIL_CONFIG", str(path))

    def write(**commands: list[str]) -> None:
        lines = [f"{action} = {json.dumps(words)}\n" for action, words in commands.items()]
        path.write_text("[boards.own.command]\n" + "".join(lines))

    return write


def _words(machine: virtual_probe.VirtualBoard, *words: str) -> list[str]:
    return [sys.executable, str(PROGRAM), machine.sockets, *words]


def _elf(board: str, factor: int) -> str:
    loaded = load_board(board)
    library = tiny_library(f"y[0] = (int8_t)(x[0] * {factor});", cpu=loaded.cpu.name)
    return str(build([library], loaded).elf)


def test_a_command_programs_a_board(
    machine: virtual_probe.VirtualBoard,
    board: str,
    configure: Configure,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(
        program=_words(machine, "program", "{hex}"),
        reset=_words(machine, "reset"),
    )
    place = ("--board", board, "--port", machine.url)
    first, second = _elf(board, 1), _elf(board, 2)
    for elf in (first, second, first):
        assert main(["flash", elf, *place]) == 0
        assert Path(elf).parts[-3] in capsys.readouterr().out
    assert main(["reset", *place]) == 0
    assert main(["erase", *place]) == 2
    said = capsys.readouterr().err
    assert "no command to erase own" in said
    assert "[boards.own.command] erase" in said


def test_old_firmware_is_not_the_programmed_one(
    machine: virtual_probe.VirtualBoard,
    board: str,
    configure: Configure,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command that ends well and programs nothing: the build id tells."""
    place = ("--board", board, "--port", machine.url)
    old, new = _elf(board, 3), _elf(board, 4)
    configure(program=_words(machine, "program", "{hex}"), reset=_words(machine, "reset"))
    assert main(["flash", old, *place]) == 0
    configure(program=_words(machine, "pretend", "{hex}"), reset=_words(machine, "reset"))
    capsys.readouterr()
    assert main(["flash", new, *place]) == 4
    said = capsys.readouterr().err
    assert f"runs firmware {Path(old).parts[-3]}" in said
    # The board has this firmware, whoever programmed it.
    assert main(["flash", old, *place]) == 0


def test_verify_fails_on_old_firmware(
    machine: virtual_probe.VirtualBoard,
    board: str,
    configure: Configure,
    capsys: pytest.CaptureFixture[str],
) -> None:
    digits = TESTS.parent / "examples" / "digits" / "digits.tflite"
    place = ("--board", board, "--port", machine.url, "--runner", "command")
    verify = ["verify", str(digits), *place, "--samples", "1", "--json"]
    configure(program=_words(machine, "program", "{hex}"), reset=_words(machine, "reset"))
    assert main(["flash", _elf(board, 5), *place[:4]]) == 0
    configure(program=_words(machine, "pretend", "{hex}"), reset=_words(machine, "reset"))
    capsys.readouterr()
    assert main(verify) == 4
    said = capsys.readouterr()
    assert "runs firmware" in said.err + said.out
    assert '"match": true' not in said.out
    configure(program=_words(machine, "program", "{hex}"), reset=_words(machine, "reset"))
    assert main(verify) == 0
    assert '"match": true' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "more", "code", "said"),
    [
        ([], (), 2, "no command to program own"),
        (["acmeflash-none", "{hex}"], (), 4, "acmeflash-none is not installed"),
        (["sh", "{hexx}"], (), 2, "'{hexx}' has no known placeholder"),
        (["sh", "{"], (), 2, "{{ and }}"),
        (["sh", "{0}"], (), 2, "no known placeholder"),
        (["sh", "{hex.__class__}"], (), 2, "no known placeholder"),
        (["sh", "{probe}"], (), 2, "no probe is given"),
        (["sh", "-c", "echo first; echo no chip answers >&2; exit 3"], (), 4, "no chip answers"),
        (["sh", "-c", "exit 7"], (), 4, "failed with 7, without any output"),
        (["sleep", "600"], ("--flasher", "command:timeout_s=1"), 4, "within 1 s"),
    ],
)
def test_wrong_commands(
    program: list[str],
    more: tuple[str, ...],
    code: int,
    said: str,
    board: str,
    configure: Configure,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    configure(**({"program": program} if program else {}))
    elf = _elf(board, 6)
    port = "socket://127.0.0.1:9"
    assert main(["flash", elf, "--board", board, "--port", port, *more]) == code
    assert said in capsys.readouterr().err


def test_words_are_given_as_they_are(
    board: str, configure: Configure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No shell makes others of them; braces are doubled; a probe and a port are passed on."""
    log = tmp_path / "log"
    code = f"import sys; open({str(log)!r}, 'w').write(repr(sys.argv[1:]))"
    odd = ["$HOME", "`id`", "a b", "{{x}}", "*", "-x;y", "{probe}", "{port}", ""]
    configure(reset=[sys.executable, "-c", code.replace("{", "{{").replace("}", "}}"), *odd])
    port = "socket://127.0.0.1:9"
    assert main(["reset", "--board", board, "--port", port, "--probe", "-odd '\"\n"]) == 0
    given = log.read_text()
    expected = ["$HOME", "`id`", "a b", "{x}", "*", "-x;y", "-odd '\"\n", port, ""]
    assert given == repr(expected)


def test_a_board_file_names_no_program(board: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It may come from anywhere."""
    text = Path(board).read_text()
    Path(board).write_text(f'{text}program = ["touch", "canary"]\n')
    assert main(["boards", board]) == 2
    assert "flasher.program: unknown key" in capsys.readouterr().err
    assert set(flashers()["command"].settings) == {"family", "timeout_s"}
    assert read_description(Path(board))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("program = 'sh x'", "is not a list of texts"),
        ("program = ['sh', 1]", "is not a list of texts"),
        ("run = ['sh']", "unknown key"),
    ],
)
def test_wrong_configuration(
    text: str, said: str, board: str, configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure()
    path = Path(board).parent / "config" / "config.toml"
    path.write_text(f"[boards.own.command]\n{text}\n")
    assert main(["reset", "--board", board, "--port", "socket://127.0.0.1:9"]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert "boards.own.command" in message


def test_commands_stay_in_a_written_file(configure: Configure) -> None:
    words = ["a b", 'c"d', "{hex}"]
    configure(program=words)
    remember("PROBE1", board="own")
    assert command_table("own") == {"program": words}


def test_no_serial_port(
    board: str, configure: Configure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found before the command runs."""
    ran = tmp_path / "ran"
    configure(program=["touch", str(ran)])
    port = tmp_path / "file"
    port.write_text("x")
    assert main(["flash", _elf(board, 1), "--board", board, "--port", str(port)]) == 4
    assert f"{port} is not a serial port" in capsys.readouterr().err
    assert not ran.exists()
