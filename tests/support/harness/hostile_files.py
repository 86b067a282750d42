"""Files of models as somebody hostile would write them: good ones, changed by their structure.

Each format has originals, and a change that keeps the file readable enough to get past its outer
layers: places of a FlatBuffer, fields of a protocol buffer, members and JSON of archives.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any

import encodings_of_constants
import numpy as np
import onnx
import onnx_mutations
import pt2_files
from odd_models import ODD_MODELS
from single_op import KINDS, ONNX_ALONE, random_op
from small_models import SMALL_MODELS
from tiny_library import tiny_library
from tvm_archive import STYLES, tvm_files

import hilc
from hil.board import Board, load_board
from hil.firmware import fit
from hil.firmware.placement import check_placement
from hil.firmware.project import modules_of, project_files, with_build_id
from hilc.artifact.library import ModelLibrary
from hilc.frontends import Specialization
from hilc.frontends.tflite import schema
from hilc.frontends.tflite.flatbuffer import Table, Vector
from hilc.support.outputs import update_folder

#: More than there are originals of any format that is taken apart to be changed: each is taken
#: apart once, although changed ones pass in between.
_KEPT = 2048
#: Larger originals only take longer.
_MOST_BYTES = 20_000
_WORDS = (0, 1, 2, 4, 8, 0x7F, 0x80, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC,
          0x40000000, 0x3F800000, 0x7F800000, 0x7FC00000)  # fmt: skip
#: Names that leave a folder, or are none.
EVIL_NAMES = ("../evil", "/tmp/evil", "a/../../evil", "evil\\..\\x", "C:evil", "", ".", "..",
              "x" * 300, "a\0b", "~/evil", "\x1b[2Jevil", "src/default.c/x", "con",
              "\udcff")  # fmt: skip


@dataclass(frozen=True)
class Format:
    """Files of one format."""

    originals: Callable[[], list[bytes]]
    #: A file that is like the given one.
    change: Callable[[Random, bytes], bytes]
    #: Reads a file; the folder is empty but for what earlier files left.
    read: Callable[[bytes, Path], object]
    #: What a user does with what was read.
    use: Callable[[Any, Path], object]


def damaged(dice: Random, data: bytes) -> bytes:
    """Bytes changed, doubled, cut off."""
    file = bytearray(data or b"\0")
    for _ in range(dice.choice((1, 1, 1, 2, 5, 20))):
        place = dice.randrange(len(file))
        match dice.randrange(8):
            case 0 | 1:
                file[place] ^= 1 << dice.randrange(8)
            case 2 | 3:
                file[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            case 4:
                file[place : place + 4] = struct.pack("<I", dice.choice(_WORDS))
            case 5:
                source = dice.randrange(len(file))
                length = dice.randrange(1, 64)
                file[place : place + length] = file[source : source + length]
            case 6:
                file[place:place] = dice.randbytes(dice.randrange(1, 16))
            case _ if dice.random() < 0.2:
                del file[place:]
                file = file or bytearray(1)
    return bytes(file)


# TFLite -------------------------------------------------------------------------------------------


@cache
def _tflite_originals() -> list[bytes]:
    dice = np.random.default_rng(1)
    made = [make() for make in (*SMALL_MODELS.values(), *ODD_MODELS.values())]
    made += [random_op(dice, op, dtype).tflite() for op, dtype in KINDS if op not in ONNX_ALONE]
    made += encodings_of_constants.damageable()
    return [data for data in made if len(data) < _MOST_BYTES]


@lru_cache(_KEPT)
def places(data: bytes) -> tuple[int, ...]:
    """Where a FlatBuffer has its offsets, counts and numbers, as far as it can be followed."""
    found: set[int] = set()
    tables = [(struct.unpack_from("<I", data, 0)[0], schema.MODEL)]
    while tables and len(found) < 5000:
        start, table = tables.pop()
        if start in found or not 4 <= start < len(data) - 4:
            continue
        found.add(start)
        vtable = start - struct.unpack_from("<i", data, start)[0]
        if not 0 <= vtable < len(data) - 4:
            continue
        size = struct.unpack_from("<H", data, vtable)[0]
        for slot in range(max(0, min(size, 200) // 2 - 2)):
            at = vtable + 4 + 2 * slot
            offset = struct.unpack_from("<H", data, at)[0] if at + 2 <= len(data) else 0
            place = start + offset
            if not offset or place + 4 > len(data):
                continue
            found.update((at & ~3, place))
            kind = table.fields.get(slot, ("", 0))[1]
            target = place + struct.unpack_from("<I", data, place)[0]
            if isinstance(kind, Table):
                tables.append((target, kind))
            elif isinstance(kind, Vector) and target + 4 <= len(data):
                found.add(target)
                count = min(struct.unpack_from("<I", data, target)[0], 64)
                for index in range(count):
                    item = target + 4 + 4 * index
                    if item + 4 > len(data):
                        break
                    found.add(item)
                    if isinstance(kind.item, Table):
                        inner = item + struct.unpack_from("<I", data, item)[0]
                        tables.append((inner, kind.item))
    return tuple(sorted(place for place in found if place + 4 <= len(data)))


def _change_tflite(dice: Random, data: bytes) -> bytes:
    known = places(data) if len(data) > 8 else ()
    if not known or dice.random() < 0.1:
        return damaged(dice, data)
    file = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        place = dice.choice(known)
        match dice.randrange(6):
            case 0:
                word = dice.choice(_WORDS)
            case 1:
                word = struct.unpack_from("<I", file, place)[0] + dice.choice((1, -1, 4, -4, 256))
            case 2:
                word = struct.unpack_from("<I", file, dice.choice(known))[0]
            case 3:
                file[place] = dice.randrange(256)
                continue
            case 4:
                file[place] ^= 1 << dice.randrange(8)
                continue
            case _:
                word = dice.randrange(64)
        struct.pack_into("<I", file, place, word & 0xFFFFFFFF)
    return bytes(file)


# ONNX ---------------------------------------------------------------------------------------------


def _change_onnx(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.03:
        return damaged(dice, data)
    try:
        changed = onnx_mutations.mutant(dice.randrange(1 << 30), [data])
    except Exception:  # what was damaged is no protocol buffer any more
        return damaged(dice, data)
    return changed if dice.random() < 0.98 else _elsewhere(dice, changed)


def _elsewhere(dice: Random, data: bytes) -> bytes:
    """The model with constants in other files, wherever they are."""
    model = onnx.ModelProto()
    model.ParseFromString(data)
    for tensor in model.graph.initializer:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        name = dice.choice((*EVIL_NAMES, "/etc/passwd", "../../../../etc/passwd", "/proc/self/mem"))
        fields = {"location": name.encode("utf-8", "replace").decode("utf-8"),
                  "offset": dice.choice(("0", "-1", "1" * 30, "x")),
                  "length": dice.choice(("4", "0", "-4", "9" * 18))}  # fmt: skip
        for key, value in fields.items():
            if dice.random() < 0.8:
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
    changed: bytes = model.SerializeToString()
    return changed


# JSON ---------------------------------------------------------------------------------------------

_JUNK: tuple[Any, ...] = (None, -1, 0, 1, 2, 3, 2**31, 2**63, 2**70, -(2**63), 1e300, 0.5, "", "x",
                          "../evil", [], {}, True, False, {"as_int": -5}, [{}], "a" * 3000,
                          "9" * 4000, "s0*s0**9", "int8", "float32")  # fmt: skip


def changed_json(dice: Random, data: bytes) -> bytes:
    """The JSON with a value at a corner, dropped, doubled or exchanged with another."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return damaged(dice, data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        holder, key = _descend(dice, value)
        if holder is None:
            return json.dumps(dice.choice(_JUNK)).encode()
        match dice.randrange(6):
            case 0 | 1:
                # A copy: what is changed next may lie in it.
                holder[key] = deepcopy(dice.choice(_JUNK))
            case 2:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 4:
                other, there = _descend(dice, value)
                if other is not None:
                    holder[key] = json.loads(json.dumps(other[there]))
            case _ if isinstance(holder[key], int):
                holder[key] += dice.choice((1, -1, 16))
    return json.dumps(value).encode()


def _descend(dice: Random, value: Any) -> tuple[Any, Any]:
    """A container in the value and a key or place in it; None where there is none."""
    holder, key = None, None
    while isinstance(value, dict | list) and value:
        holder = value
        key = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value = holder[key]
        if dice.random() < 0.1:
            break
    return holder, key


# PT2 ----------------------------------------------------------------------------------------------


class Payload:
    """Whoever unpickles it creates a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.open, (self.path, os.O_CREAT | os.O_WRONLY)


#: What a payload creates, in the folder from which the campaign is run.
EXECUTED = "an-input-was-executed"


@cache
def _pt2_originals() -> list[bytes]:
    stored = pt2_files.files()
    return [d for n, d in stored.items() if n.endswith(".pt2") and len(d) < 8000]


@lru_cache(_KEPT)
def _zip_members(data: bytes) -> Mapping[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _change_pt2(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.1:
        return damaged(dice, data)
    try:
        members = dict(_zip_members(data))
    except Exception:  # zipfile's of what was damaged before
        return damaged(dice, data)
    if not members:
        return damaged(dice, data)
    name = dice.choice(list(members))
    jsons = [n for n in members if n.endswith(".json")] or [name]
    match dice.randrange(12):
        case 0:
            members[name] = damaged(dice, members[name])
        case 1:
            del members[name]
        case 2:
            members[dice.choice(EVIL_NAMES[:6])] = b"x"
        case 3:
            members[name] = pickle.dumps(Payload(EXECUTED))
        case 4:
            members[name] = members[dice.choice(list(members))]
        case 5:
            path = dice.choice(jsons)
            members[path] = members[path].replace(b'"use_pickle": false', b'"use_pickle": true')
            members = {n: d if n.endswith(".json") else pickle.dumps(Payload(EXECUTED))
                       for n, d in members.items()}  # fmt: skip
        case _:
            path = dice.choice(jsons)
            members[path] = changed_json(dice, members[path])
    file = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if dice.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind) as archive:
        for member, content in members.items():
            archive.writestr(member.replace("\0", "?") or "?", content)
    return file.getvalue() if dice.random() < 0.95 else damaged(dice, file.getvalue())


# Model Library Format -----------------------------------------------------------------------------


@cache
def _mlf_originals() -> list[bytes]:
    options: Sequence[dict[str, Any]] = (
        {},
        {"cpu": "cortex-m4", "interface": "c", "pools": "external", "io_in_pool": True},
        {"cpu": "cortex-m0", "api": "unpacked"},
    )
    model = SMALL_MODELS["moves"]()
    libraries = [hilc.compile(model, name="net", **chosen) for chosen in options]
    archives = [library.files for library in (*libraries, tiny_library("y[0] = x[0];"))]
    archives += [tvm_files(style) for style in STYLES]
    # The run time is not read, and most of the bytes.
    return [
        _tar({n: d for n, d in files.items() if not n.startswith("runtime/")}) for files in archives
    ]


def _tar(members: dict[str, bytes], kinds: dict[str, bytes] | None = None) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(f"./{name}" if name and name[0] not in "./" else name)
            info.size = len(data)
            info.type = (kinds or {}).get(name, tarfile.REGTYPE)
            if info.type != tarfile.REGTYPE:
                info.linkname, info.size = "../evil", 0
            archive.addfile(info, io.BytesIO(data[: info.size]))
    return file.getvalue()


@lru_cache(128)
def _tar_members(data: bytes) -> Mapping[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {
            info.name.removeprefix("./"): stored.read()
            for info in archive
            if (stored := archive.extractfile(info)) is not None
        }


@cache
def _board() -> Board:
    return load_board("mps2-an386")


def _change_mlf(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.1:
        return _changed_header(dice, data)
    try:
        members = dict(_tar_members(data))
    except Exception:  # tarfile's of what was damaged before
        return damaged(dice, data)
    if not members:
        return damaged(dice, data)
    kinds = {}
    name = dice.choice(list(members))
    jsons = [n for n in members if n.endswith(".json")] or [name]
    match dice.randrange(14):
        case 0:
            members[name] = changed_text(dice, members[name])
        case 1:
            del members[name]
        case 2:
            members[dice.choice(EVIL_NAMES)] = members[name]
        case 3:
            kinds = {name: dice.choice((b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"L"))}
        case 4 | 5 | 6:
            texts = [n for n in members if n.endswith((".relay", ".h", ".c", ".txt", ".params"))]
            path = dice.choice(texts or [name])
            members[path] = changed_text(dice, members[path])
        case _:
            path = dice.choice(jsons)
            members[path] = changed_json(dice, members[path])
    return _tar(members, kinds)


def changed_text(dice: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b"x"]
    place = dice.randrange(len(lines))
    match dice.randrange(4):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, dice.choice(lines))
        case 2:
            lines[place] = damaged(dice, lines[place])
        case _:
            digits = [i for i, c in enumerate(lines[place]) if 48 <= c < 58]
            at = dice.choice(digits or [0])
            number = dice.choice((b"0", b"-1", b"99999999999999999999", b"%" * 9, b"()"))
            lines[place] = lines[place][:at] + number + lines[place][at + 1 :]
    return b"".join(lines)


def _changed_header(dice: Random, data: bytes) -> bytes:
    """A block of a tar with one field changed, and its checksum right."""
    if len(data) < 1024:
        return damaged(dice, data)
    file = bytearray(data)
    starts = [s for s in range(0, len(file) - 512, 512) if file[s + 257 : s + 262] == b"ustar"]
    start = dice.choice(starts or [0])
    place = start + dice.choice((0, 1, 100, 124, 125, 135, 156, 157, 257, 345, dice.randrange(500)))
    file[place] = dice.choice((0, 0x20, 0x2E, 0x2F, 0x30, 0x31, 0x37, 0x78, 0x80, 0xFF))
    file[start + 148 : start + 156] = b"        "
    file[start + 148 : start + 156] = b"%06o\0 " % sum(file[start : start + 512])
    return bytes(file)


def _read_mlf(data: bytes, folder: Path) -> ModelLibrary:
    path = folder / "net.tar"
    path.write_bytes(data)
    return ModelLibrary.load(path)


def _use_mlf(library: ModelLibrary, folder: Path) -> None:
    library.save(folder / "library", force=True)
    board = _board()
    # As create_project does, which also asks the C compiler for its version.
    modules = modules_of([library])
    placed = check_placement(modules, board, "own")
    layout = fit.layouts(modules, board, placed)[0]
    files = project_files([library], board, layout.workspace, placed, layout.constants)
    update_folder(folder / "project", with_build_id(files, "0" * 32), force=True)


# Models -------------------------------------------------------------------------------------------


def _read_model(data: bytes, folder: Path) -> bytes:
    hilc.frontends.read_model(data, "m", specialization=Specialization(folder=folder))
    return data


def _compile(data: bytes, folder: Path) -> None:
    hilc.compile(data, cpu="cortex-m4", name="m")


FORMATS = {
    "tflite": Format(_tflite_originals, _change_tflite, _read_model, _compile),
    "onnx": Format(onnx_mutations.suite, _change_onnx, _read_model, _compile),
    "pt2": Format(_pt2_originals, _change_pt2, _read_model, _compile),
    "mlf": Format(_mlf_originals, _change_mlf, _read_mlf, _use_mlf),
}
