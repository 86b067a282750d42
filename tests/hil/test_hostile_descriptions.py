"""Descriptions of boards, chips, cores and toolchains that were sent to a user: data, no programs.

Every key gets values that a shell, QEMU, a compiler, CMake or Renode would act upon. A value is
refused, or the key is one of those whose text is only shown.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny_library import tiny_library

import hilc
from hil import virtual_probe
from hil.access import Connection, debug, qemu, renode
from hil.board import load_board
from hil.board.board import load_named_board
from hil.board.description import read_description, to_toml
from hil.build import build
from hil.errors import BoardError, HilError
from hil.support.qemu import Machine
from hilc.support.toml import tomllib
from hilc.target import load_cpu
from hilc.target.toolchains import read_toolchain

TARGET = Path(hilc.__file__).parent / "target"
CANARY = "/tmp/hil-test-canary-of-descriptions"
HOSTILE = [
    f"; touch {CANARY};",
    f"$(touch {CANARY})",
    f'"\ntouch {CANARY}\n"',
    f'") execute_process(COMMAND touch {CANARY}) #',
    f"x\" ; python \"import os; os.system('touch {CANARY}')",
    f"init:\n    execute touch {CANARY}",
    "../../../bin/sh",
    "/bin/sh",
    "-incoming",
    f"exec:touch {CANARY}",
    f"mps2-an386,dumpdtb={CANARY}",
    f"@{CANARY}",
    f"-fplugin={CANARY}",
    f"-Wl,-plugin,{CANARY}",
    f"-specs={CANARY}",
    f"-B{CANARY}",
    "-wrapper",
    f"-DX=`touch {CANARY}`",
    "${CMAKE_COMMAND}",
    "x\0y",
]
#: Keys of texts that people read: nothing but control characters is refused there.
SHOWN = {
    *("description", "title", "cores", "tvm_keys", "objects.title", "cycles.source"),
    *(
        "cycles.assumes",
        "cycles.chip.name",
        "cycles.chip.source",
        "gcc_package",
        "binutils_package",
        "qemu_package",
        "library.name",
    ),
    *("library.package", "elf_machine", "objects.extensions", "debug.svd", "debug.without_fpu"),
    # A pattern of names of targets.
    "triples",
}


@pytest.fixture(autouse=True)
def _canary() -> Iterator[None]:
    yield
    assert not os.path.exists(CANARY), "a description ran a program"


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key with a value that is no table, as ``table.key``."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        elif not (isinstance(value, list) and value and isinstance(value[0], dict)):
            yield f"{prefix}{key}", value


def keys_of(values: Mapping[str, Any]) -> list[str]:
    """Every key, in an order that all workers of a test run share: a description is read in any."""
    return sorted(key for key, _ in leaves(values))


def changed(values: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    made = copy.deepcopy(dict(values))
    table, (*tables, last) = made, key.split(".")
    for name in tables:
        table = table[name]
    table[last] = [*table[last], value] if isinstance(table[last], list) else value
    return made


def of_board(name: str) -> dict[str, Any]:
    values = copy.deepcopy(dict(read_description(load_board(name).path).values))
    values["runner"]["qemu"] |= {"cpu": "cortex-m4", "memory": "16M"}
    return values


def to_core_toml(values: Mapping[str, Any], name: str = "") -> str:
    """Return the text of a core or a toolchain, without lists of tables."""
    plain = {k: v for k, v in values.items() if not isinstance(v, dict) and k != "slow"}
    text = f"[{name}]\n" if name else ""
    # Values of JSON are values of TOML.
    text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in plain.items())
    for key, value in values.items():
        if isinstance(value, dict):
            text += to_core_toml(value, f"{name}.{key}" if name else key)
    return text


#: The head of a runner in a description.
QEMU = '[[runner]]\nname = "qemu"\n'
BOARDS = {name: of_board(name) for name in ("microbit", "netduinoplus2", "mps2-an386")}
CORES = {
    name: tomllib.loads((TARGET / "cores" / f"{name}.toml").read_text())
    for name in ("cortex-m4", "cortex-m55", "rv32imac")
}
TOOLCHAINS = {
    path.stem: tomllib.loads(path.read_text())
    for path in sorted((TARGET / "toolchains").glob("*.toml"))
}


def refused(error: type[HilError], load: Any, key: str, value: str) -> None:
    """Check that the description is refused, or that its text is only shown."""
    try:
        load()
    except error:
        pass
    else:
        assert key in SHOWN, f"{key} = {value!r} was accepted"
        assert value.isprintable()


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, values in BOARDS.items() for key in keys_of(values)]
)
def test_keys_of_boards(name: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "sent.toml"
    for value in HOSTILE:
        path.write_text(to_toml(changed(BOARDS[name], key, value)))
        refused(BoardError, lambda: load_board(path), key, value)


def test_names_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "sent.toml"
    for value in HOSTILE:
        values = copy.deepcopy(BOARDS["mps2-an386"])
        values["memory"][0]["name"] = value
        path.write_text(to_toml(values))
        refused(BoardError, lambda: load_board(path), "memory", value)


@pytest.mark.parametrize("key", ["chip", "family", "cpu"])
def test_files_that_boards_name(key: str, tmp_path: Path) -> None:
    path = tmp_path / "sent.toml"
    for value in HOSTILE:
        other = to_toml({key: value, "description": "x", "flasher": {"pyocd": {}}})
        path.write_text(other)
        refused(BoardError, lambda: load_board(path), key, value)


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, values in CORES.items() for key in keys_of(values)]
)
def test_keys_of_cores(name: str, key: str, tmp_path: Path) -> None:
    for number, value in enumerate(HOSTILE):
        path = tmp_path / f"core{number}.toml"
        path.write_text(to_core_toml(changed(CORES[name], key, value)))
        refused(HilError, lambda path=path: load_cpu(path), key, value)


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name, values in TOOLCHAINS.items() for key in keys_of(values)],
)
def test_keys_of_toolchains(name: str, key: str, tmp_path: Path) -> None:
    for number, value in enumerate(HOSTILE):
        path = tmp_path / f"tools{number}.toml"
        path.write_text(to_core_toml(changed(TOOLCHAINS[name], key, value)))
        refused(HilError, lambda path=path: read_toolchain(path), key, value)


@pytest.mark.parametrize(
    "args",
    [
        f'["-incoming", "exec:touch {CANARY}"]',
        f'["-chardev", "file,id=x,path={CANARY}", "-serial", "chardev:x"]',
        f'["-monitor", "tcp:127.0.0.1:0,server=on", "-D", "{CANARY}"]',
        '["-bios", "none"]',
    ],
)
def test_a_board_has_no_arguments_of_its_own(args: str, tmp_path: Path) -> None:
    path = tmp_path / "sent.toml"
    text = to_toml(BOARDS["mps2-an386"]).replace(QEMU, f"{QEMU}args = {args}\n")
    path.write_text(text)
    with pytest.raises(BoardError, match=r"runner\[0\]\.args: unknown key") as caught:
        load_board(path)
    assert "accepted keys: cpu, icount_shift, machine, memory, serial" in caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        'x: Python.PythonPeripheral @ sysbus 0x100\n    script: "import os"',
        "x: Python.PythonPeripheral @ sysbus 0x100",
        'sysbus:\n    init:\n        LoadBinary "/etc/passwd" 0x0',
        "cpu:\n    init: start",
        'using "/tmp/other.repl"',
        'x: Memory.MappedMemory @ sysbus 0x100\n    file: "/etc/passwd"',
        "x: Memory.MappedMemory @ sysbus 0x100 { size: 4 }",
        "// comment */ x",
        "x: @sysbus",
        "x:\n    preinit: y",
    ],
)
def test_what_no_change_of_a_platform_may_be(changes: str, tmp_path: Path) -> None:
    path = tmp_path / "sent.toml"
    values = changed(BOARDS["mps2-an386"], "runner.renode", {"changes": changes})
    path.write_text(to_toml(values))
    with pytest.raises(BoardError, match=r"changes: .* is not accepted"):
        load_board(path)


@pytest.mark.parametrize("text", [value for value in HOSTILE if value.isprintable()])
def test_texts_stay_texts(text: str, tmp_path: Path) -> None:
    """The description's text and the file's name, in all that is made of a board."""
    stem = "".join(char for char in text if char not in "/\0")[:100] or "x"
    path = tmp_path / f"{stem}.toml"
    path.write_text(to_toml(changed(BOARDS["mps2-an386"], "description", text)))
    board = load_board(path)
    image = build([tiny_library("y[0] = x[0];", cpu="cortex-m4")], board)
    assert text not in renode.script(board) + renode.platform(board)
    with qemu.start(board, image) as running:
        running.alive()


def test_keys_of_qemu_reach_it(tmp_path: Path) -> None:
    """With real QEMU: the machine has the core and the memory of the description."""
    path = tmp_path / "own.toml"
    values = of_board("mps2-an386")
    path.write_text(to_toml(values))
    with virtual_probe.start(load_board(path)) as (virtual, _):
        machine = Machine.at(Path(virtual.sockets) / "qmp")
        try:
            assert machine.execute("query-memory-size-summary")["base-memory"] == 16 << 20
            (core,) = machine.execute("query-cpus-fast")
            kind = machine.execute("qom-get", path=core["qom-path"], property="type")
            assert kind == "cortex-m4-arm-cpu"
        finally:
            machine.close()


@pytest.mark.parametrize("word", ["../sent", "/etc/x", "./sent.toml", "sent.toml", "", "a/b"])
def test_a_name_from_a_lab_is_no_path(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    for folder in (tmp_path, tmp_path / "below"):
        (folder / "sent.toml").write_text(to_toml(BOARDS["mps2-an386"]))
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(BoardError, match="unknown board"):
        load_named_board(word)


def test_a_debugger_is_no_program_of_the_description(tmp_path: Path) -> None:
    board = load_board("mps2-an386")
    image = build([tiny_library("y[0] = x[0];", cpu="cortex-m4")], board)
    with debug.serve(board, image.elf, "qemu", Connection()) as server:
        assert server.gdb == "arm-none-eabi-gdb"
