"""Files of the harness as somebody hostile would write them, in the forms of ``hostile_files``.

Descriptions of boards and cores, the user's configuration, logs, histories, journals, cached
results, data sets, measurements.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hostile_files import Format, changed_json, changed_text, damaged
from tiny_library import tiny_library

from hil.board import load_board
from hil.board.config import configured, power_table, read_config, remember, remembered
from hil.energy.trace import read_trace
from hil.firmware import build, compiled, fit
from hil.firmware.placement import check_placement
from hil.firmware.project import modules_of, project_files
from hil.history.gate import gate, parse_limit
from hil.history.measurement import read_measurements
from hil.history.store import APPLICATION_ID, History
from hil.results.codec import encode
from hil.support.cache import RESULT, with_checksum
from hil.verify import evaluation
from hil.verify.datasets import DataSet, Scaling, array_data, digest_of, load_data, read_index
from hil.verify.samples import load_array, load_arrays
from hilc.artifact.library import TensorInfo
from hilc.artifact.params import load_params, save_params
from hilc.lowering.choice import Group
from hilc.schedule.tuning import (
    FORMAT,
    Measured,
    TunedGroup,
    TunedLayer,
    TunedProgram,
    Tuning,
    load_tuning,
)
from hilc.support.jsondata import parse_json
from hilc.support.resources import data_dir
from hilc.target import load_cpu

_INPUT = TensorInfo("x", "x", (1, 4), "int8", 0.5, 3, 4, None)

#: Values of TOML that a key rarely has.
_TOML = (
    "0",
    "-1",
    "1",
    "true",
    '""',
    '"x"',
    "[]",
    "{}",
    "[[1]]",
    "1e400",
    "-inf",
    "nan",
    "0x7fffffff",
    "99999999999999999999",
    "1979-05-27",
    '"../../evil"',
    '"/nowhere/file"',
    '"\\u0000"',
    '"\\U0001F600"',
    '"a\\nb"',
    "0.1",
    '"mps2-an386"',
    "0xFFFFFFFF",
    "4294967296",
    "[1, 2]",
    '["a"]',
    "{a = 1}",
)


def _changed_toml(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.1:
        return damaged(dice, data)
    lines = data.decode("utf-8", "replace").splitlines(keepends=True) or ["x = 1\n"]
    keys = [i for i, line in enumerate(lines) if "=" in line and line[0] not in "#["]
    for _ in range(dice.choice((1, 1, 2, 3))):
        if not keys or dice.random() < 0.25:
            return changed_text(dice, "".join(lines).encode("utf-8", "replace"))
        place = dice.choice(keys)
        key, _, value = lines[place].partition("=")
        match dice.randrange(4):
            case 0:
                lines[place] = "\n"
            case 1:
                other = lines[dice.choice(keys)].partition("=")[2]
                lines[place] = f"{key}={other}"
            case _:
                lines[place] = f"{key}= {dice.choice(_TOML)}\n"
    return "".join(lines).encode("utf-8", "replace")


def _written(name: str, read: Callable[[Path], Any]) -> Callable[[bytes, Path], Any]:
    """Read bytes as the file of this name."""

    def job(data: bytes, folder: Path) -> Any:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return job


def _nothing(value: Any, folder: Path) -> None:
    """There is nothing to do with it but to read it."""


# Boards and cores ---------------------------------------------------------------------------------


@cache
def _boards() -> list[bytes]:
    targets = data_dir("targets")
    boards = [path.read_bytes() for path in sorted(targets.glob("*.toml"))]
    # Boards without a chip's file: chip and board in one.
    return boards


#: Between the text of a board and that of its chip.
_BETWEEN = b"\n# --- chip.toml\n"


def _read_chip(data: bytes, folder: Path) -> Any:
    board, _, chip = data.partition(_BETWEEN)
    (folder / "chip.toml").write_bytes(chip)
    (folder / "board.toml").write_bytes(board)
    return load_board(folder / "board.toml")


def _use_board(board: Any, folder: Path) -> None:
    library = tiny_library("y[0] = x[0];", cpu=board.cpu.name)
    modules = modules_of([library])
    placed = check_placement(modules, board, "own")
    layout = fit.layouts(modules, board, placed)[0]
    project_files([library], board, layout.workspace, placed, layout.constants)


@cache
def _chips() -> list[bytes]:
    """Boards, each with the text of its chip."""
    found = []
    for board in _boards():
        if named := re.search(rb'^chip = "([^"]+)"', board, re.M):
            chip = data_dir("targets") / "chips" / f"{named[1].decode()}.toml"
            own = board.replace(named[0], b'chip = "chip.toml"')
            found.append(own + _BETWEEN + chip.read_bytes())
    return found


@cache
def _cores() -> list[bytes]:
    import hilc.target.cores as cores

    return [p.read_bytes() for p in sorted((Path(cores.__file__).parent / "cores").glob("*.toml"))]


def _read_core(data: bytes, folder: Path) -> Any:
    # Under a name of its own: two cores of one name are refused.
    path = folder / f"core-{hashlib.sha256(data).hexdigest()[:8]}.toml"
    path.write_bytes(data)
    try:
        return load_cpu(path)
    finally:
        path.unlink()


# Configuration ------------------------------------------------------------------------------------


@cache
def _configs() -> list[bytes]:
    return [
        b'history = "~/h.db"\n[boards.a]\nprobe = "0667FF"\nport = "/dev/ttyACM0"\n'
        b'[boards.a.power]\ncycle = "relay"\noff = "o"\non = "i"\noff_s = 1.0\ntimeout_s = 3\n'
        b'return_s = 9\n[probes.0667FF]\nboard = "a"\nport = "usb:0667FF:2"\n'
        b'[boards."b c"]\nport = "socket://h:1"\n'
    ]


def _read_config(data: bytes, folder: Path) -> Any:
    path = folder / "config.toml"
    path.write_bytes(data)
    if os.environ.get("HIL_CONFIG") != str(path):
        os.environ["HIL_CONFIG"] = str(path)
    return read_config()


def _use_config(boards: Any, folder: Path) -> None:
    for board in (*boards, "a"):
        configured(board)
        power_table(board)
    stored = remembered("0667FF")
    remember("new", port="usb:new")
    # What is written again says what was read, and can be read.
    again = read_config(), remembered("0667FF")
    if remembered("new") != {"port": "usb:new"} or _sorted(again) != _sorted((boards, stored)):
        raise AssertionError(f"{boards} and {stored} became {again}")


def _sorted(values: Any) -> str:
    return json.dumps(values, sort_keys=True)


# Logs and measurements ----------------------------------------------------------------------------


@cache
def _tunings() -> list[bytes]:
    layer = TunedLayer("conv", "CONV_2D", (Measured("conv_a", 100), Measured("conv_b", 90)))
    group = TunedGroup(Group(("conv", "pool"), 2), 150)
    program = TunedProgram("balanced", {"conv": "conv_b"}, (group,), 1024, 180)
    log = Tuning(FORMAT, "m", "0" * 64, "cortex-m4", "c", "b", "cycles", (layer,), (program,))
    return [log.to_json()]


def _measured() -> dict[str, Any]:
    layers = [{"name": n, "op": "ADD", "macs": 5, "count": 100} for n in ("a", "b", "c")]
    sizes = (
        "model_flash_bytes",
        "firmware_flash_bytes",
        "workspace_bytes",
        "io_bytes",
        "ram_bytes",
        "stack_peak_bytes",
    )
    provenance = {
        "model": {"sha256": "0" * 64},
        "inputs": {"sha256": "1" * 64},
        "commit": "a" * 40,
        "dirty": False,
    }
    return {
        "model": "m",
        "board": "b",
        "counter": "cycles",
        "per_inference": 1000,
        **dict.fromkeys(sizes, 4096),
        "layers": layers,
        "provenance": provenance,
        "energy": {"per_inference_uj": 12.5},
        "checked": {"samples": 1, "reference": "tflm", "match": True, "independent": True},
    }


@cache
def _baselines() -> list[bytes]:
    one = _measured()
    return [json.dumps(v).encode() for v in (one, {"boards": [{"models": [one, one]}]})]


def _read_baseline(path: Path) -> Any:
    return read_measurements(parse_json(path.read_bytes(), str(path)), str(path))


def _use_baseline(found: Any, folder: Path) -> None:
    (current,) = read_measurements(_measured(), "now")
    limits = {name: limit for name in ("slower", "energy") if (limit := parse_limit("2%"))}
    for one in found:
        encode(gate(one, current, limits, allow_other_model=True).entry())
        encode(gate(current, one, limits, allow_other_model=True).entry())


# Histories ----------------------------------------------------------------------------------------


@cache
def _histories() -> list[bytes]:
    with tempfile.TemporaryDirectory() as made:
        history = History(Path(made) / "h.db")
        for _ in range(3):
            history.record("bench", _measured())
        with sqlite3.connect(history.path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("PRAGMA journal_mode = DELETE")
        database.close()
        return [history.path.read_bytes()]


#: Definitions that take the place of the table, or stand beside it.
_SCHEMAS = (
    "CREATE VIEW entry AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
    "i AS id, 't' AS time, 'k' AS kind, 'm' AS model, 'b' AS board, 'c' AS commit_id, 0 AS dirty, "
    "'' AS model_sha256, '{}' AS result FROM n",
    "CREATE TABLE entry (id)",
    "CREATE TABLE entry (id, time, kind, model, board, commit_id, dirty, model_sha256, result)",
    "CREATE TABLE entry (id, time, kind, model, board, commit_id, dirty, model_sha256, "
    "result AS (zeroblob(id)))",
)
_CELLS = (
    None,
    0,
    -1,
    2**63 - 1,
    1e308,
    "",
    "x",
    b"\xff\xfe",
    "2026-01-01T00:00:00+00:00",
    "{}",
    "[]",
    "{" * 100_000,
    "1e999",
    '{"model": 5}',
    "\x1b[2J",
)


def _changed_history(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.4:
        return damaged(dice, data)
    path = Path(f"history-{os.getpid()}.made")
    try:
        if dice.random() < 0.3:
            path.unlink(missing_ok=True)
            database = sqlite3.connect(path)
            database.execute(dice.choice(_SCHEMAS))
            database.execute(f"PRAGMA user_version = {dice.choice((1, 1, 0, 2, -1))}")
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        else:
            path.write_bytes(data)
            database = sqlite3.connect(path)
            columns = ("time", "kind", "model", "board", "commit_id", "dirty", "result")
            column = dice.choice(columns)
            database.execute(f"UPDATE entry SET {column} = ?", (dice.choice(_CELLS),))
        database.commit()
    except sqlite3.Error:
        return damaged(dice, data)
    finally:
        database.close()
    return path.read_bytes()


def _read_history(path: Path) -> Any:
    for beside in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    return History(path).entries(last=10)


def _use_history(entries: Any, folder: Path) -> None:
    json.dumps([encode(entry.entry()) for entry in entries])
    for entry in entries:
        read_measurements(entry.result, "x")
    History(folder / "history.db").record("bench", _measured())


# Journals -----------------------------------------------------------------------------------------

_KEY = {"model": "m"}


@cache
def _data_set() -> DataSet:
    samples = np.arange(12, dtype=np.int8).reshape(3, 1, 4)
    return array_data({"x": samples}, np.arange(3), [_INPUT])


@cache
def _journals() -> list[bytes]:
    lines = [{"format": 1, **_KEY}]
    for index in range(3):
        sample = digest_of(_data_set().samples[index])
        lines.append({"sample": index, "input": sample, "device": "AAAAAA==", "reference": None})
    return [b"".join(map(evaluation._line, lines))]


def _changed_journal(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.2:
        return damaged(dice, data)
    lines = data.splitlines(keepends=True)
    place = dice.randrange(len(lines))
    text = changed_json(dice, lines[place].partition(b" ")[2])
    lines[place] = b"%08x %s\n" % (zlib.crc32(text), text)
    return b"".join(lines)


def _read_journal(path: Path) -> Any:
    data = _data_set()
    with evaluation._open_journal(path, _KEY, False) as kept:
        done = evaluation._check_resumed(kept, data, lambda count: None)
        for index in range(len(data)):
            if index in kept:
                kept.device(index, _INPUT)
                kept.reference(index, _INPUT)
        return done


# The cache ----------------------------------------------------------------------------------------


@cache
def _cached() -> list[bytes]:
    elf = hashlib.sha256(b"elf").hexdigest()
    region = {"name": "flash", "used": 1, "size": 2}
    sizes = {
        "flash_bytes": 1,
        "ram_bytes": 2,
        "stack_bytes": 3,
        "handler_stack_bytes": 4,
        "regions": [region],
        "models": {},
        "sections": [],
    }
    archive = hashlib.sha256(b"tar").hexdigest()
    values = (
        {"build_id": "0" * 32, "elf": elf, "sizes": sizes},
        {"archive": archive, "reports": {}},
    )
    return [with_checksum(value).encode() for value in values]


def _changed_cached(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.4:
        return damaged(dice, data)
    try:
        value = json.loads(changed_json(dice, data))
    except ValueError:
        return data
    if isinstance(value, dict):
        value.pop("seal", None)
        return with_checksum(value).encode()
    return json.dumps(value).encode()


def _read_cached(data: bytes, folder: Path) -> None:
    (folder / RESULT).write_bytes(data)
    (folder / build._ELF).parent.mkdir(exist_ok=True, parents=True)
    (folder / build._ELF).write_bytes(b"elf")
    build._read_result(folder)
    (folder / "entry.json").write_bytes(data)
    (folder / "entry.tar").write_bytes(b"tar")
    compiled._read(folder / "entry")


# Data sets ----------------------------------------------------------------------------------------


@cache
def _arrays() -> list[bytes]:
    made = []
    for save in (np.savez, np.savez_compressed):
        for inputs in (np.zeros((5, 1, 4), np.int8), np.zeros((5, 4), np.float32)):
            file = io.BytesIO()
            save(file, x=inputs, labels=np.arange(5))
            made.append(file.getvalue())
    for array in (np.zeros((5, 1, 4), np.int8), np.array([{"a": 1}], object)):
        file = io.BytesIO()
        np.save(file, array)
        made.append(file.getvalue())
    return made


def _changed_arrays(dice: Random, data: bytes) -> bytes:
    """Mostly the headers: their text says shapes and types."""
    texts = [data.find(word) for word in (b"'descr'", b"'shape'", b"'fortran_order'")]
    places = [place for place in texts if place >= 0]
    if not places or dice.random() < 0.4:
        return damaged(dice, data)
    place = dice.choice(places)
    new = dice.choice(
        (b"'|O'", b"'<f8'", b"(-1,)", b"(9" + b"9" * 12 + b",)", b"()", b"(2**9,)", b"[" * 40)
    )
    start = place + dice.randrange(20)
    return data[:start] + new + data[start + len(new) :]


def _read_arrays(data: bytes, folder: Path) -> None:
    suffix = "npy" if data[:6] == b"\x93NUMPY" else "npz"
    path = folder / f"data.{suffix}"
    path.write_bytes(data)
    if suffix == "npy":
        load_array(path)
        return
    load_arrays(path)
    for sample in load_data(path, [_INPUT]).samples:
        digest_of(sample)


@cache
def _tables() -> list[bytes]:
    rows = [",".join(str(i * j) for j in range(5)) for i in range(6)]
    head = "a,b,c,d,label\n"
    return ["\n".join(rows).encode(), (head + "\n".join(rows)).encode(),
            (head + "1,2,3,4,cat\n5,6,7,8,dog\n").encode()]  # fmt: skip


def _changed_table(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.3:
        return damaged(dice, data)
    cells = data.replace(b"\n", b",\n,").split(b",")
    words = (
        b"",
        b"nan",
        b"inf",
        b"1e999",
        b"-1",
        b"x" * 140_000,
        b'"',
        b"\0",
        b"\xff",
        b"9" * 400,
        b"0x1",
    )
    for _ in range(dice.choice((1, 1, 3))):
        cells[dice.randrange(len(cells))] = dice.choice(words)
    return b",".join(cells).replace(b",\n,", b"\n")


def _read_table(data: bytes, folder: Path) -> None:
    path = folder / "data.csv"
    path.write_bytes(data)
    for sample in load_data(path, [_INPUT], scaling=Scaling(as_integers=True)).samples:
        digest_of(sample)


def _read_index(data: bytes, folder: Path) -> None:
    place = folder / "indexed"
    place.mkdir(exist_ok=True)
    (place / "a.bin").write_bytes(bytes(64))
    (place / "b.bin").write_bytes(bytes(4))
    (place / "y_labels.csv").write_bytes(data)
    read_index(place)
    for sample in load_data(place, [_INPUT]).samples:
        digest_of(sample)


def _indices() -> list[bytes]:
    return [b"b.bin,2,1\na.bin,2,0,4,4\n"]


@cache
def _traces() -> list[bytes]:
    rows = [f"{i / 1000},{0.01 * i},3.3,{i % 4 // 2}" for i in range(40)]
    return ["\n".join(["time (s),current (A),voltage (V),trigger", *rows]).encode()]


@cache
def _params() -> list[bytes]:
    return [save_params({"a": np.zeros((2, 3), np.int8), "b": np.zeros(4, np.float32)})]


def _changed_params(dice: Random, data: bytes) -> bytes:
    file = bytearray(data)
    place = dice.randrange(max(1, len(file) - 8))
    numbers = (0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)
    file[place : place + 8] = struct.pack("<Q", dice.choice(numbers))
    return bytes(file) if dice.random() < 0.5 else damaged(dice, data)


def _read_params(data: bytes, folder: Path) -> Any:
    return load_params(data, "p")


SETTINGS = {
    "board": Format(_boards, _changed_toml, _written("b.toml", load_board), _use_board),
    "chip": Format(_chips, _changed_toml, _read_chip, _use_board),
    "core": Format(_cores, _changed_toml, _read_core, _nothing),
    "configuration": Format(_configs, _changed_toml, _read_config, _use_config),
    "tuning log": Format(_tunings, changed_json, _written("t.json", load_tuning), _nothing),
    "baseline": Format(_baselines, changed_json, _written("b.json", _read_baseline), _use_baseline),
    "history": Format(
        _histories, _changed_history, _written("history.db", _read_history), _use_history
    ),
    "journal": Format(_journals, _changed_journal, _written("journal", _read_journal), _nothing),
    "cache": Format(_cached, _changed_cached, _read_cached, _nothing),
    "arrays": Format(_arrays, _changed_arrays, _read_arrays, _nothing),
    "table": Format(_tables, _changed_table, _read_table, _nothing),
    "index": Format(_indices, _changed_table, _read_index, _nothing),
    "recording": Format(_traces, _changed_table, _written("r.csv", read_trace), _nothing),
    "parameters": Format(
        _params, _changed_params, lambda data, _: load_params(data, "p"), _nothing
    ),
}
