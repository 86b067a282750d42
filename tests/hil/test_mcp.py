"""``hil mcp`` through the client of the package ``mcp``, on emulated boards."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError
from power_devices import ShellyGen2, served

import hilc
from hil.cli import main
from hil.cli.mcp_reach import Reach
from hil.cli.mcp_tools import Tools
from hil.errors import InputError
from hil.support.restriction import restricted
from hilc.support.resources import data_dir

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
Tool = Callable[..., Awaitable[Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / "project"
    own.mkdir()
    shutil.copy(DIGITS, own / "digits.tflite")
    (tmp_path / "secret.tflite").write_bytes(DIGITS.read_bytes())
    (own / "data").mkdir()
    (own / "data" / "0").symlink_to(tmp_path)
    (own / "link.tflite").symlink_to(tmp_path / "secret.tflite")
    # A module that Python would import in place of its own.
    (own / "numpy.py").write_text("raise SystemExit('imported from the working folder')")
    return own


def with_server(folder: Path, use: Callable[[Tool], Awaitable[None]], *options: str) -> None:
    """Start ``hil mcp`` in the folder; call ``use`` with a function that calls a tool."""
    words = ["-P"] if sys.version_info >= (3, 11) else []
    program = StdioServerParameters(
        command=sys.executable, args=[*words, "-m", "hil", "mcp", *options], cwd=folder
    )

    async def main() -> None:
        async with Client(program) as client:

            async def call(tool: str, /, **arguments: Any) -> Any:
                return await client.call_tool(tool, arguments)

            await use(call)

    anyio.run(main)


def error_of(result: Any) -> str:
    assert result.is_error
    return str(result.content[0].text)


def test_answers_are_the_commands_json(folder: Path) -> None:
    async def use(call: Tool) -> None:
        verified = (
            await call("verify", model="digits.tflite", board="mps2-an386", samples=3)
        ).structured_content
        assert verified["command"] == "verify"
        assert verified["exit_code"] == 0
        assert verified["results"][0]["match"] is True
        assert verified["results"][0]["samples"] == 3
        compiled = await call(
            "compile", model="digits.tflite", output="out.tar", board="mps2-an386"
        )
        assert compiled.structured_content["exit_code"] == 0
        assert (folder / "out.tar").is_file()
        absent = (await call("verify", model="none.tflite", board="mps2-an386")).structured_content
        assert absent["exit_code"] == 2
        assert "none.tflite" in absent["results"][0]["error"]["message"]
        described = (await call("boards", name="mps2-an386")).structured_content
        assert described["results"][0]["cpu"] == "cortex-m4"

    with_server(folder, use)


def test_what_is_out_of_reach_is_refused(folder: Path) -> None:
    async def use(call: Tool) -> None:
        outside = str(folder.parent / "secret.tflite")
        named = ("m=../secret.tflite", f"m={outside}", "m=/no/such/file", "m=link.tflite")
        for path in ("../secret.tflite", "link.tflite", outside, "\0", *named):
            refused = error_of(await call("verify", model=path, board="microbit"))
            assert "outside the folder" in refused
        for board in ("nucleo-l476rg", "frdm-k64f", "native"):
            refused = error_of(await call("verify", model="digits.tflite", board=board))
            assert f"hil mcp --allow {board}" in refused
        for tool in ("erase", "reset"):
            assert "--allow" in error_of(await call(tool, board="mps2-an386"))
        for board in ("--version", "./board.toml", "lab", "", "a b"):
            assert (await call("verify", model="digits.tflite", board=board)).is_error
        wanted = {"model": "digits.tflite", "board": "microbit"}
        assert (await call("verify", **wanted, optimize="--help")).is_error
        assert (await call("verify", **wanted, samples=-1)).is_error
        assert (await call("verify", **wanted, sampels=1)).is_error
        assert (await call("verify", **wanted, port="/dev/ttyACM0")).is_error
        assert "neither a name" in error_of(await call("boards", name="x" * 4000))
        data = error_of(await call("evaluate", **wanted, data="data"))
        assert "link that leads out" in data
        for name in ("labels", "classes"):
            found = await call("evaluate", **wanted, data="digits.tflite", **{name: outside})
            assert "outside the folder" in error_of(found)
        for options in (
            {"ram": "1K --force"},
            {"tuning": "/etc/passwd"},
            {"external": "os"},
            {"constant": ["x=/etc/passwd"]},
            {"io": "int4"},
            {"shape": "image=1,8,8,1"},
        ):
            found = await call("compile", **wanted, output="o.tar", options=options)
            assert found.is_error, options
        named = await call("compile", **wanted, output="o.tar", options={"name": "../../x"})
        assert named.structured_content["exit_code"] == 2
        assert not (folder / "o.tar").exists()

    with_server(folder, use)


def test_files_of_the_folder_start_no_programs(folder: Path) -> None:
    """A client may write there: a board's description, which leads to a toolchain, and C code."""
    text = (data_dir("targets") / "mps2-an386.toml").read_text()
    (folder / "evil.toml").write_text(text)
    library = hilc.compile(DIGITS, cpu="cortex-m4")
    library.save(folder / "archive.tar")
    library.save(folder / "unpacked")

    async def use(call: Tool) -> None:
        for tool in ("verify", "bench", "compile", "explain", "fit"):
            more = {"output": "o.tar"} if tool == "compile" else {}
            refused = error_of(await call(tool, model="digits.tflite", board="evil", **more))
            assert "hil mcp --allow evil" in refused, tool
        for path in ("archive.tar", "unpacked", "a=archive.tar"):
            refused = error_of(await call("verify", model=path, board="mps2-an386"))
            assert "--allow-code" in refused

    with_server(folder, use)


def test_a_repository_of_the_folder_starts_no_program(folder: Path) -> None:
    """Git runs what a repository's configuration names."""
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "digits.tflite"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    program = folder / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {folder / 'started'}\n")
    program.chmod(0o755)
    subprocess.run([*git, "config", "core.fsmonitor", str(program)], check=True)

    async def use(call: Tool) -> None:
        result = await call("bench", model="digits.tflite", board="mps2-an386")
        assert not result.is_error
        assert not (folder / "started").exists()

    with_server(folder, use)
    subprocess.run([*git, "status"], check=True, capture_output=True)
    assert (folder / "started").exists()


def test_files_that_are_exchanged_after_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client with parallel calls may do that: the command that opens them checks again."""
    folder = tmp_path / "project"
    folder.mkdir()
    archive = hilc.compile(DIGITS, cpu="cortex-m4")
    archive.save(folder / "unpacked")
    archive.save(folder / "a.tar")
    (folder / "a.tar").rename(folder / "digits.tflite")
    (tmp_path / "outside").mkdir()
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "link.tflite").symlink_to(DIGITS)
    for name, value in restricted({}, folder, with_code=False).items():
        monkeypatch.setenv(name, value)

    def error(*words: str) -> str:
        assert main([*words, "--json"]) == 2
        return capsys.readouterr().out

    for path in ("digits.tflite", "unpacked"):
        words = (str(folder / path), "--cpu", "cortex-m4", "-o", str(folder / "b.tar"))
        assert "hil mcp --allow-code" in error("compile", *words)
        assert "hil mcp --allow-code" in error("explain", words[0], "--board", "mps2-an386")
    shutil.copy(DIGITS, folder / "digits.tflite")
    for path in ("out/new", "out/new.tar", "out"):
        words = (str(folder / "digits.tflite"), "--cpu", "cortex-m4", "-o", str(folder / path))
        assert "outside the folder" in error("compile", *words)
    assert "outside the folder" in error(
        "explain", str(folder / "link.tflite"), "--board", "mps2-an386"
    )
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_tool_checks_paths_when_it_has_its_turn(folder: Path) -> None:
    tools = Tools(Reach(folder.resolve(), frozenset()), 30.0)
    shutil.copy(DIGITS, folder / "model.tflite")

    async def call(server: Any) -> None:
        with pytest.raises(ToolError, match="outside the folder"):
            await server.call_tool("explain", {"model": "model.tflite", "board": "mps2-an386"})

    async def run() -> None:
        server: Any = tools.server()
        others = [object(), object()]
        for other in others:
            await server._limiter.acquire_on_behalf_of(other)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, server)
            while not server._limiter.statistics().tasks_waiting:
                await anyio.sleep(0.01)
            (folder / "model.tflite").unlink()
            (folder / "model.tflite").symlink_to(folder.parent / "secret.tflite")
            for other in others:
                server._limiter.release_on_behalf_of(other)

    anyio.run(run)


def test_archives_with_code(folder: Path) -> None:
    hilc.compile(DIGITS, cpu="cortex-m4").save(folder / "archive.tar")

    async def use(call: Tool) -> None:
        found = await call("bench", model="archive.tar", board="mps2-an386")
        assert found.structured_content["exit_code"] == 0

    with_server(folder, use, "--allow-code")


def test_a_name_of_the_users_folder_stays_theirs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its path: a file in the working folder would come first."""
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.chdir(folder)
    own = tmp_path / "config" / "boards" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text((data_dir("targets") / "mps2-an386.toml").read_text())
    reach = Reach(folder.resolve(), frozenset())
    assert reach.names("mine") == str(own)
    assert reach.uses("mine") == {"--board": str(own), "--runner": "qemu"}
    (folder / "mine.toml").write_text(own.read_text())
    with pytest.raises(InputError, match="may name programs"):
        reach.uses("mine")


def test_wrong_arguments_are_named(folder: Path) -> None:
    """Fact, value, what is accepted; no text of pydantic."""
    model, board = {"model": "digits.tflite"}, {"board": "mps2-an386"}

    async def use(call: Tool) -> None:
        cases: list[tuple[str, dict[str, Any], list[str]]] = [
            ("verify", {}, ["lacks the argument 'model'", "lacks the argument 'board'"]),
            ("verify", {"model": 3, **board}, ["'model' is 3", "a string or a list"]),
            ("verify", {"model": [3], **board}, ["'model' is [3]", "a string or a list"]),
            ("verify", {**model, **board, "samples": -1}, ["'samples' is -1", "at least 1"]),
            ("verify", {**model, **board, "sampels": 1}, ["no argument 'sampels'", "samples?"]),
            ("bench", {**model, **board, "optimize": "x"}, ["'optimize' is \"x\"", '"size"']),
            ("verify", {**model, **board, "options": 3}, ["'options' is 3", "an object"]),
            ("verify", {**model, **board, "options": {"rum": "1K"}}, ["no argument 'rum'", "ram"]),
            ("verify", {**model, **board, "options": {"io": "i4"}}, ["'io' is \"i4\"", '"int8"']),
            ("fit", {**model, "ram": "lots"}, ["'ram' is \"lots\"", "such as 8192, 32K"]),
            ("evaluate", {**model, **board, "data": "d", "min": {}}, ["a number, a string"]),
            ("power", {**board, "action": 1}, ["'action' is 1", '"cycle"']),
            ("verfiy", {}, ["no tool 'verfiy'", "did you mean verify?"]),
        ]
        for tool, arguments, facts in cases:
            text = error_of(await call(tool, **arguments))
            assert [fact for fact in facts if fact not in text] == [], text
            for word in ("pydantic", "validation error", "Input should", "type="):
                assert word not in text

    with_server(folder, use)


def test_options_of_the_compiler(folder: Path) -> None:
    async def use(call: Tool) -> None:
        wanted = {"model": "digits.tflite", "board": "mps2-an386", "optimize": "speed"}
        options = {"io": "float", "name": "seven", "keep_inputs": True, "ram": "20K"}
        options["fold_constant_channels"] = False
        found = await call("compile", **wanted, output="o.tar", options=options)
        (entry,) = found.structured_content["results"]
        assert (entry["model"], entry["goal"]) == ("seven", "speed")
        found = await call("verify", **wanted, options={"io": "float"}, samples=2)
        (entry,) = found.structured_content["results"]
        assert entry["match"]
        assert entry["outputs"][0]["dtype"] == "float32"
        found = await call("explain", **wanted, options={"ram": "1"})
        assert found.structured_content["exit_code"] != 0

    with_server(folder, use)


def test_accuracy(folder: Path) -> None:
    """With the labels, metrics and limits of the command line; the model is named."""
    images = np.zeros((4, 8, 8, 1), np.int8)
    np.savez(folder / "digits.npz", image=images, which=np.arange(4) % 2)

    async def use(call: Tool) -> None:
        wanted = {"model": "ten=digits.tflite", "board": "mps2-an386", "data": "digits.npz"}
        metric = {"metric": ["accuracy", "top2"], "labels": "which"}
        found = await call("evaluate", **wanted, **metric, min=["top2=0.9"], max=1.0, samples=3)
        assert found.structured_content["exit_code"] == 1
        (entry,) = found.structured_content["results"]
        assert (entry["model"], entry["samples"]) == ("ten", 3)
        assert [(m["name"], m["min"], m["max"]) for m in entry["metrics"]] == [
            ("accuracy", None, 1.0),
            ("top2", 0.9, None),
        ]

    with_server(folder, use)


def test_boards_that_hold_a_model(folder: Path) -> None:
    async def use(call: Tool) -> None:
        found = (await call("fit", model="digits.tflite", board="mps2-an386")).structured_content
        assert (found["command"], found["exit_code"]) == ("fit", 0)
        (entry,) = found["results"]
        assert [(b["board"], b["fits"]) for b in entry["boards"]] == [("mps2-an386", "yes")]
        chip = {"cpu": "cortex-m0", "ram": "4K", "flash": "64K"}
        small = (await call("fit", model="digits.tflite", **chip)).structured_content
        assert small["exit_code"] == 1
        assert [b["fits"] for b in small["results"][0]["boards"]] == ["no"]
        both = await call("fit", model="digits.tflite", board="mps2-an386", **chip)
        assert both.structured_content["exit_code"] == 2
        wrong = await call("fit", model="digits.tflite", board="microbit", options={"ram": "4K"})
        assert "no argument 'ram'" in error_of(wrong)
        refused = error_of(await call("fit", model="../secret.tflite", board="mps2-an386"))
        assert "outside the folder" in refused
        assert (await call("fit", model="digits.tflite", board="--version")).is_error

    with_server(folder, use)


def test_an_allowed_board_is_used(folder: Path) -> None:
    """It is not connected here, which the command reports."""

    async def use(call: Tool) -> None:
        answer = (await call("reset", board="nucleo-l476rg")).structured_content
        assert answer["exit_code"] == 4
        assert "not connected" in answer["error"]["message"]

    with_server(folder, use, "--allow", "nucleo-l476rg")


@pytest.mark.parametrize(
    ("board", "fact"),
    [
        ("nope", "unknown board 'nope'"),
        ("none/board.toml", "'none/board.toml' does not exist"),
        ("nope@bench", "there is no hil-bench.toml"),
        ("lab:cpu=", "invalid lab selector"),
    ],
)
def test_an_allowed_board_exists(
    board: str, fact: str, folder: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A misspelt name would be refused by each tool, with the advice to allow it."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["mcp", "--allow", "nucleo-l476rg", "--allow", board]) == 2
    assert fact in capsys.readouterr().err


def test_power_of_an_allowed_board(folder: Path) -> None:
    """By the switch of the bench file, of which a stand-in answers."""
    device = ShellyGen2()

    async def use(call: Tool) -> None:
        answer = (await call("power", action="off", board="kws@bench")).structured_content
        assert answer["exit_code"] == 0, answer
        assert answer["results"][0]["on"] is False
        assert device.outputs[0] is False
        answer = (await call("power", action="cycle", board="kws@bench")).structured_content
        assert (answer["results"][0]["on"], answer["results"][0]["cycled"]) == (True, True)
        assert device.outputs[0] is True
        before = len(device.requests)
        assert (await call("power", action="toggle", board="kws@bench")).is_error
        refused = error_of(await call("power", action="off", board="other@bench"))
        assert "--allow" in refused
        assert len(device.requests) == before
        none = (await call("power", action="on", board="bare@bench")).structured_content
        assert none["exit_code"] == 2
        assert "no power switch" in none["error"]["message"]

    with served(device) as host:
        switch = f'power = {{ driver = "shelly", host = "{host}", off_s = 0.1 }}\n'
        lines = [f'[boards.{name}]\nboard = "nucleo-l476rg"\n' for name in ("bare", "kws", "other")]
        text = f"{lines[0]}{lines[1]}{switch}{lines[2]}{switch}"
        (folder / "hil-bench.toml").write_text(text)
        with_server(folder, use, "--allow", "kws@bench", "--allow", "bare@bench")


@pytest.mark.full  # It builds a simulator, and counts with several settings.
def test_rtl_boards_need_no_allowance(folder: Path) -> None:
    """Their cycles are counted like the instructions of an emulated board."""

    async def use(call: Tool) -> None:
        verified = (
            await call("verify", model="digits.tflite", board="rtl-ibex", samples=1)
        ).structured_content
        assert verified["exit_code"] == 0, verified
        assert verified["results"][0]["match"] is True
        counted = (await call("bench", model="digits.tflite", board="rtl-ibex")).structured_content
        assert counted["results"][0]["counter"] == "cycles", counted
        refused = error_of(await call("power", action="off", board="rtl-ibex"))
        assert "hil mcp --allow rtl-ibex" in refused

    with_server(folder, use)


def test_a_late_command_is_ended(folder: Path) -> None:
    async def use(call: Tool) -> None:
        late = await call("console", model="digits.tflite", board="mps2-an386", seconds=300)
        assert "longer than 15 s" in error_of(late)

    with_server(folder, use, "--timeout", "15")
    all_ended(folder)


def test_a_client_that_leaves_ends_commands(folder: Path) -> None:
    async def use(call: Tool) -> None:
        with anyio.move_on_after(8):
            await call("console", model="digits.tflite", board="mps2-an386", seconds=300)

    with_server(folder, use)
    all_ended(folder)


def test_a_killed_server_ends_commands(folder: Path) -> None:
    async def use(call: Tool) -> None:
        with anyio.move_on_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(kill_when_busy, folder)
                await call("console", model="digits.tflite", board="mps2-an386", seconds=300)

    with pytest.raises(BaseException, match=r".*"):
        with_server(folder, use)
    all_ended(folder)


async def kill_when_busy(folder: Path) -> None:
    """Kill the server as soon as it has started an emulator."""
    while not any("qemu" in name for name in children_in(folder)):
        await anyio.sleep(0.1)
    for process in psutil.process_iter(["cwd", "cmdline"]):
        if process.info["cwd"] == str(folder) and "mcp" in (process.info["cmdline"] or []):
            process.kill()


def children_in(folder: Path) -> list[str]:
    """Processes whose working folder is ``folder``."""
    found = []
    for process in psutil.process_iter(["cwd", "name", "status"]):
        if process.info["cwd"] == str(folder) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.info["name"])
    return found


def all_ended(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while left := children_in(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_reach_of_a_folder_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    reach = Reach((tmp_path / "real").resolve(), frozenset())
    assert reach.path("a/../b.tflite") == str(tmp_path / "real" / "b.tflite")
    with pytest.raises(InputError, match="outside"):
        reach.path("a/../../b.tflite")
