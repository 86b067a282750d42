"""Libraries in archives and folders: saved the same every time, read without trust."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import math
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from onnx import TensorProto, helper, numpy_helper
from random_graphs import GraphBuilder
from small_models import convolutions

import hilc
from hilc.artifact.archive import is_library
from hilc.artifact.library import ModelLibrary, Module
from hilc.artifact.params import load_params
from hilc.errors import InputError
from hilc.external import ExternalModule
from hilc.memory.plan import PoolSpec, plan
from hilc.source import prepare
from hilc.target import get_cpu


@functools.cache
def _library(name: str = "net", **options: Any) -> ModelLibrary:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 2)
    y = b.conv(b.conv(x, 4), 2)
    return hilc.compile(b.graph(b.relu(y), y, name=name), **options)


# Printing ---------------------------------------------------------------------------------------


def test_code_and_weights_print_in_one_line() -> None:
    library = _library()
    text = repr(library)
    assert re.fullmatch(r"<ModelLibrary net for host: \d+ files, [\d,]+ bytes>", text)
    b = GraphBuilder()
    graph = b.graph(b.conv(b.input(1, 4, 4, 2), 4), name="net")
    source = prepare(graph, None, get_cpu("host"))
    program = plan(source.graph, get_cpu("host"))
    code = ExternalModule("f", source="int f;" * 999, constants={"c": np.zeros(1000, np.int8)})
    for value in (library, library.modules[0], source, graph, program, code):
        assert len(repr(value)) < 400, repr(value)
        assert "\n" not in repr(value)


# Saving -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["lib.tar", "lib", "new/folder/lib.tar"])
def test_what_is_saved_is_loaded(target: str, tmp_path: Path) -> None:
    library = _library(io_in_pool=True, pools="external")
    assert library.save(tmp_path / target) == tmp_path / target
    assert ModelLibrary.load(tmp_path / target) == library
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]


_PACKED = {"api": "packed", "interface": "packed"}
_VARIANTS: list[dict[str, Any]] = [
    {},
    {"pools": "external", "constants": "external"},
    {"pools": "calls", **_PACKED},
    {"constants": "external", **_PACKED},
    {"interface": "packed", "codegen": "llvm"},
    {"memory": (PoolSpec("fast", 64, "TCM"), PoolSpec("slow")), "io_in_pool": True},
]


@cases("options", _VARIANTS, ids=lambda o: "-".join(o) or "default", first=2)
def test_every_kind_is_saved_and_loaded(options: dict[str, Any], tmp_path: Path) -> None:
    # Not the cached one: a list of pools cannot be a key.
    library = _library.__wrapped__(**options)
    library.save(tmp_path / "lib.tar")
    loaded = ModelLibrary.load(tmp_path / "lib.tar")
    assert loaded == library
    (module,) = loaded.modules
    for option in ("pools", "constants", "api", "interface", "codegen"):
        assert getattr(module, option) == options.get(option, getattr(Module, option, "internal"))
    if "memory" in options:
        assert [(pool.name, pool.region) for pool in module.workspace_pools] == [
            ("fast", "TCM"),
            ("slow", None),
        ]


def test_the_archive_is_laid_out_as_tvms(tmp_path: Path) -> None:
    library = _library("kws", cpu="cortex-m4")
    library.save(tmp_path / "kws.tar")
    with tarfile.open(tmp_path / "kws.tar", "r:") as tar:
        members = tar.getmembers()
    assert {
        "./metadata.json",
        "./hil/kws.json",
        "./codegen/host/src/kws_lib0.c",
        "./codegen/host/src/kws_lib1.c",
        "./codegen/host/include/tvmgen_kws.h",
        "./codegen/host/include/hil/quant.h",
        "./parameters/kws.params",
        "./runtime/CMakeLists.txt",
        "./runtime/include/dlpack/dlpack.h",
        "./runtime/include/tvm/runtime/c_runtime_api.h",
        "./runtime/src/runtime/crt/memory/stack_allocator.c",
        "./runtime/src/runtime/crt/common/crt_backend_api.c",
        "./templates/crt_config.h.template",
        "./templates/platform.c.template",
    } <= {member.name for member in members}
    for member in members:
        assert member.name.startswith("./")
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "root", "root")
        assert (member.mode, member.mtime) == (0o644, 315532800)


def test_the_parameters_are_the_models_constants() -> None:
    b = GraphBuilder()
    y = b.conv(b.input(1, 4, 4, 2), 4)
    graph = b.graph(b.relu(y), name="net")
    constants = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    assert constants
    files = hilc.compile(graph).files
    parameters = load_params(files["parameters/net.params"], "net.params")
    assert sorted(parameters) == sorted(constants)
    for name, data in constants.items():
        assert parameters[name].dtype == data.dtype
        np.testing.assert_array_equal(parameters[name], data)


def test_a_transposed_constant_is_a_parameter_once() -> None:
    """The model's own, which no layer reads, is in the model's file."""
    weights = np.arange(32 * 8, dtype=np.float32).reshape(32, 8)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 18)
    model = helper.make_model(graph, opset_imports=[opset]).SerializeToString()
    files = hilc.compile(model, name="net").files
    parameters = load_params(files["parameters/net.params"], "net.params")
    sizes = [array.nbytes for array in parameters.values()]
    assert sizes.count(weights.nbytes) == 1
    assert files["src/net.onnx"] == model


def test_the_cpp_run_time_is_not_shipped() -> None:
    files = _library("net", api="packed", interface="packed", runtime="cpp").files
    assert not [path for path in files if path.startswith(("runtime/", "templates/"))]
    assert b"external_dependencies" not in files["metadata.json"]


def test_metadata_is_laid_out_as_tvms() -> None:
    library = _library("kws", cpu="cortex-m4")
    module = library.modules[0]
    metadata = json.loads(library.files["metadata.json"])
    assert metadata["version"] == 7
    entry = metadata["modules"]["kws"]
    assert sorted(entry) == [
        "executors", "export_datetime", "external_dependencies", "memory", "model_name", "style",
        "target",
    ]  # fmt: skip
    assert entry["external_dependencies"] == [
        {
            "short_name": "tvm_standalone_crt",
            "url": "./runtime",
            "url_type": "mlf_path",
            "version_spec": "0.19.0",
        }
    ]
    assert entry["model_name"] == "kws"
    assert entry["executors"] == ["aot"]
    assert entry["style"] == "full-model"
    assert entry["target"] == ["c -keys=arm_cpu,cpu -mcpu=cortex-m4"]
    assert entry["export_datetime"] == "1980-01-01 00:00:00Z"
    functions = entry["memory"]["functions"]
    assert functions["main"] == [
        {
            "device": 1,
            "workspace_size_bytes": module.workspace_bytes,
            "constants_size_bytes": module.constants_bytes,
            "io_size_bytes": 32 + 32 + 32,
            "inputs": {"t0": {"dtype": "int8", "size": 32}},
            "outputs": {
                "t4": {"dtype": "int8", "size": 32},
                "t5": {"dtype": "int8", "size": 32},
            },
        }
    ]
    assert [f["function_name"] for f in functions["operator_functions"]] == [
        layer.function for layer in module.layers
    ]
    scratch = module.layers[0].arguments[-1]
    assert scratch.dtype == "uint8"
    assert functions["operator_functions"][0]["workspace"] == [
        {"device": 1, "workspace_size_bytes": scratch.shape[0]}
    ]
    text = library.files["metadata.json"].decode()
    assert text == json.dumps(metadata, indent=2, sort_keys=True) + "\n"


def test_the_time_in_archives_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    library = _library("timed")
    assert b'"2023-11-14 22:13:20Z"' in library.files["metadata.json"]
    library.save(tmp_path / "lib.tar")
    with tarfile.open(tmp_path / "lib.tar") as tar:
        assert {member.mtime for member in tar} == {1700000000}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH is 'yesterday'"):
        _library("late")


def test_a_system_tar_reads_the_archive(tmp_path: Path) -> None:
    library = _library()
    library.save(tmp_path / "lib.tar")
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xf", "lib.tar", "-C", "out"], cwd=tmp_path, check=True)
    assert ModelLibrary.load(tmp_path / "out") == library


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")
    with pytest.raises(InputError, match="files that do not belong to a library"):
        _library().save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_with_an_earlier_library_is_replaced(tmp_path: Path) -> None:
    _library("old").save(tmp_path)
    library = _library("new")
    library.save(tmp_path)
    assert ModelLibrary.load(tmp_path) == library
    assert not list(tmp_path.rglob("*old*"))


def test_a_folder_that_was_cut_short_is_replaced(tmp_path: Path) -> None:
    library = _library()
    library.save(tmp_path)
    (tmp_path / "hil" / "net.json").unlink()
    library.save(tmp_path)
    assert ModelLibrary.load(tmp_path) == library


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        _library().save(tmp_path / "file" / "lib.tar")


# Several modules --------------------------------------------------------------------------------


def test_libraries_merge_into_one(tmp_path: Path) -> None:
    merged = hilc.merge([_library("one"), _library("two", io_in_pool=True)])
    merged.save(tmp_path / "both.tar")
    loaded = ModelLibrary.load(tmp_path / "both.tar")
    assert loaded == merged
    assert [module.name for module in loaded.modules] == ["one", "two"]
    assert sorted(json.loads(loaded.files["metadata.json"])["modules"]) == ["one", "two"]


@pytest.mark.parametrize("other", ["net", "NET", "nEt"])
def test_modules_of_one_name_do_not_merge(other: str) -> None:
    with pytest.raises(InputError, match="Multiple modules should have unique names"):
        hilc.merge([_library("net"), _library(other)])


def test_a_function_defined_twice_is_refused() -> None:
    one, two = _library("one"), _library("two")
    (module,) = two.modules
    layer = dataclasses.replace(module.layers[0], function=one.modules[0].layers[0].function)
    module = dataclasses.replace(module, layers=(layer, *module.layers[1:]))
    with pytest.raises(InputError, match=rf"'one' and 'two' both define {layer.function}"):
        hilc.merge([one, dataclasses.replace(two, modules=(module,))])


def _global_functions(path: Path, archive: str, pattern: str) -> list[str]:
    """The C files of the archive that define a function, strong ones only."""
    found = []
    for name, data in ModelLibrary.load(path / archive).files.items():
        source = data.decode() if name.endswith(".c") else ""
        if match := re.search(pattern, source):
            weak = source[: match.start()].rstrip().endswith("__attribute__((weak))")
            found += [] if weak else [name]
    return found


def test_several_modules_share_one_registry(tmp_path: Path) -> None:
    options = {"api": "packed", "interface": "packed"}
    one, two, plain = _library("one", **options), _library("two", **options), _library("plain")
    hilc.merge([one, plain, two]).save(tmp_path / "all.tar")
    definition = r"const TVMModule \*TVMSystemLibEntryPoint\(void\) \{"
    registry = "codegen/host/src/system_registry.c"
    assert _global_functions(tmp_path, "all.tar", definition) == [registry]
    text = ModelLibrary.load(tmp_path / "all.tar").files[registry].decode()
    names = re.findall(r'"(\w+)\\000"', text)
    assert names == [*one.modules[0].functions, *two.modules[0].functions]
    # Merged again it is that of all.
    four = hilc.merge([ModelLibrary.load(tmp_path / "all.tar"), _library("four", **options)])
    assert re.findall(r'"(\w+)_run\\000"', four.files[registry].decode()) == [
        "tvmgen_one",
        "tvmgen_two",
        "tvmgen_four",
    ]


def test_one_module_keeps_its_own_registry() -> None:
    packed = _library("one", api="packed", interface="packed")
    assert "codegen/host/src/system_registry.c" not in hilc.merge([packed, _library("two")]).files


# Reading: archives that were made to harm -------------------------------------------------------


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], real: bool = True) -> Path:
    """An archive of a library's files, the given members behind them."""
    with tarfile.open(path, "w") as tar:
        for name, data in _library().files.items() if real else ():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return path


def _member(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> Any:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    return info, data


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (_member("/etc/passwd"), "leaves its folder: '/etc/passwd'"),
        (_member("../escape"), "leaves its folder: '../escape'"),
        (_member("./src/../../escape"), "leaves its folder"),
        (_member("a\\b"), "leaves its folder"),
        (_member("C:x"), "leaves its folder"),
        (_member("src/x", kind=tarfile.SYMTYPE, link="/etc/passwd"), "is not a plain file"),
        (_member("src/x", kind=tarfile.LNKTYPE, link="metadata.json"), "is not a plain file"),
        (_member("src/x", kind=tarfile.CHRTYPE), "is not a plain file"),
        (_member("src/x", kind=tarfile.FIFOTYPE), "is not a plain file"),
        (_member("metadata.json"), "has two members 'metadata.json'"),
        (_member("metadata.json/x"), "'metadata.json/x' below a file"),
    ],
)
def test_a_harmful_member_is_refused(member: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        ModelLibrary.load(_tar(tmp_path / "bad.tar", member))
    assert message in caught.value.fact


def test_directories_are_no_members(tmp_path: Path) -> None:
    folder = _member("./src", kind=tarfile.DIRTYPE)
    assert ModelLibrary.load(_tar(tmp_path / "dirs.tar", folder)) == _library()


def test_the_number_of_members_is_bounded(tmp_path: Path) -> None:
    many = [_member(f"src/{i}", b"") for i in range(10_001)]
    with pytest.raises(InputError, match="more than 10000 members"):
        ModelLibrary.load(_tar(tmp_path / "many.tar", *many, real=False))


def test_the_size_is_bounded_before_anything_is_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("src/huge")
    info.size = 1 << 40
    path = tmp_path / "huge.tar"
    path.write_bytes(info.tobuf() + bytes(1024))
    with pytest.raises(InputError, match="is damaged or cut off"):
        ModelLibrary.load(path)
    info.size = 1 << 30
    path.write_bytes(info.tobuf())
    os.truncate(path, 2 << 30)  # takes no room on the disk
    with pytest.raises(InputError, match="holds more than 536870912 bytes"):
        ModelLibrary.load(path)


def test_a_cut_off_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lib.tar"
    data = _library().save(path).read_bytes()
    with tarfile.open(path) as tar:
        end = max(m.offset_data + -(-m.size // 512) * 512 for m in tar)
    for size in (0, 100, 512, 700, 5000, len(data) // 2, len(data) // 2 + 1000, end):
        path.write_bytes(data[:size])
        with pytest.raises(InputError):
            ModelLibrary.load(path)


_LONG = b"longer than a header has room for/" * 5


def _header(kind: bytes, data: bytes = b"", size: int | None = None) -> bytes:
    """A header of this kind and its data."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, len(data) if size is None else size
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def _record(key: bytes, value: bytes) -> bytes:
    text = b" " + key + b"=" + value + b"\n"
    length = next(n for n in range(len(text), len(text) + 9) if n == len(text) + len(str(n)))
    return str(length).encode() + text


_SPARSE_MAP = b",".join(b"%d,1" % i for i in range(8000))


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        pytest.param(
            _header(b"L", _LONG) * 2000, "extended headers that are longer", id="long names"
        ),
        pytest.param(
            _header(b"K", _LONG) * 2000, "extended headers that are longer", id="long links"
        ),
        pytest.param(
            _header(b"x", _record(b"a", b"b")) * 2000, "extended headers that are longer", id="pax"
        ),
        pytest.param(
            _header(b"g", b"") * 2000, "extended headers that are longer", id="global pax"
        ),
        pytest.param(_header(b"L", bytes(70_000)), "extended headers that are longer", id="large"),
        pytest.param(_header(b"L", _LONG, 1 << 33), "extended headers that are longer", id="huge"),
        pytest.param(_header(b"L", _LONG), "damaged or cut off", id="for nothing"),
        pytest.param(
            _header(b"x", _record(b"GNU.sparse.map", _SPARSE_MAP)) + _header(b"0", b"x"),
            "not a plain file",
            id="sparse",
        ),
        pytest.param(
            _header(b"x", _record(b"GNU.sparse.major", b"1") + _record(b"GNU.sparse.minor", b"0"))
            + _header(b"0", b"9999999999\n" * 40),
            "not a plain file",
            id="sparse 1.0",
        ),
        pytest.param(_header(b"S", b"x"), "not a plain file", id="old sparse"),
        pytest.param(_header(b"?", b"x"), "not a plain file", id="unknown kind"),
        pytest.param(_header(b"x", b"999 path=x\n") + _header(b"0"), "damaged", id="long record"),
        pytest.param(_header(b"x", b"0 path=x\n") + _header(b"0"), "damaged", id="no length"),
        pytest.param(
            _header(b"x", _record(b"size", b"-1")) + _header(b"0"), "damaged", id="negative size"
        ),
        pytest.param(
            _header(b"x", _record(b"path", b"../up")) + _header(b"0"), "leaves its folder", id="up"
        ),
        pytest.param(_header(b"L", b"\xff") + _header(b"0"), "is not UTF-8", id="name"),
    ],
)
def test_headers_that_were_made_to_harm(headers: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tar"
    path.write_bytes(headers + bytes(1024))
    with pytest.raises(InputError) as caught:
        ModelLibrary.load(path)
    assert message in caught.value.fact
    assert not is_library(path)


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar", "v7", "oldgnu", "posix"])
def test_tars_of_every_form_are_read(form: str, tmp_path: Path) -> None:
    files = dict(_library().files)
    if form != "v7":
        files[f"src/{'very/' * 20}long/name"] = b"deep"
    library = dataclasses.replace(_library(), files=files)
    library.save(tmp_path / "folder")
    command = ["tar", f"--format={form}", "--owner=0", "-cf", "../lib.tar", "."]
    subprocess.run(command, cwd=tmp_path / "folder", check=True)
    assert ModelLibrary.load(tmp_path / "lib.tar") == library
    assert is_library(tmp_path / "lib.tar")


_FUZZ_BYTES = 256 << 20
_FUZZ = r"""
import random, resource, sys
from pathlib import Path
from hilc.artifact.archive import is_archive, is_library
from hilc.errors import HilError
from hilc.artifact.library import ModelLibrary

# What was imported and read is there; what a tar makes of it is bounded.
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {limit}, resource.RLIM_INFINITY))
whole = [Path(name).read_bytes() for name in sys.argv[2:]]
path = Path(sys.argv[1])
random.seed(26)
refused = 0
for _ in range({rounds}):
    data = bytearray(random.choice(whole))
    headers = [i for i in range(0, len(data), 512) if data[i + 257 : i + 262] == b"ustar"]
    for _ in range(random.randint(1, 4)):
        at = random.choice(headers)
        match random.randrange(5):
            case 0:
                data[at + random.randrange(512)] = random.randrange(256)
            case 1:
                data[at + 156] = random.choice(b"0135LKxgS")
            case 2:
                data[at + 124 : at + 136] = b"%011o " % random.choice((0, 3, 600, 1 << 30))
            case 3:
                data[at:at] = data[random.choice(headers) :][:1024]
            case 4:
                del data[random.randrange(len(data)) :]
        header = data[at : at + 512]
        if len(header) == 512 and random.random() < 0.9:
            header[148:156] = b" " * 8
            data[at + 148 : at + 156] = b"%06o\0 " % sum(header)
        headers = [i for i in headers if i + 512 <= len(data)]
        if not headers:
            break
    path.write_bytes(data)
    try:
        is_archive(path)
        is_library(path)
        ModelLibrary.load(path)
    except HilError:
        refused += 1
print(refused)
"""


@pytest.mark.full  # It changes rarely, and takes long.
def test_damaged_tars_take_little_memory(tmp_path: Path) -> None:
    """Thousands of them, most with right checksums: never another error, never much memory."""
    rounds = 3000
    kept = {p: d for p, d in _library().files.items() if p.startswith(("codegen/host/src", "hil/"))}
    kept |= {name: _library().files[name] for name in ("metadata.json",)}
    for name in [n for n in _library().files if n.startswith("codegen/host/include/tvmgen")]:
        kept[name] = _library().files[name]
    library = dataclasses.replace(_library(), files={**kept, f"src/{'n' * 90}/{'n' * 80}": b"x"})
    library.save(tmp_path / "folder")
    names = []
    for form in ("gnu", "pax", "ustar"):
        names.append(f"{form}.tar")
        command = ["tar", f"--format={form}", "-cf", f"../{names[-1]}", "."]
        subprocess.run(command, cwd=tmp_path / "folder", check=True)
        assert ModelLibrary.load(tmp_path / names[-1]) == library
    program = _FUZZ.format(limit=_FUZZ_BYTES, rounds=rounds)
    done = subprocess.run(
        [sys.executable, "-c", program, "bad.tar", *names],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert rounds // 2 < int(done.stdout) <= rounds


def test_a_damaged_header_hides_no_later_member(tmp_path: Path) -> None:
    path = tmp_path / "lib.tar"
    data = bytearray(_library().save(path).read_bytes())
    with tarfile.open(path) as tar:
        last = max(m.offset for m in tar)
    data[last + 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="is damaged or cut off"):
        ModelLibrary.load(path)


@pytest.mark.parametrize(
    "data", [b"", b"PK\3\4" + bytes(100), b"\x1f\x8b" + bytes(600), b"a" * 999]
)
def test_what_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    with pytest.raises(InputError):
        ModelLibrary.load(path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.tar")
    for name in ("missing.tar", "fifo.tar"):
        with pytest.raises(InputError, match="there is no library"):
            ModelLibrary.load(tmp_path / name)


def test_a_link_in_a_folder_is_refused(tmp_path: Path) -> None:
    _library().save(tmp_path)
    (tmp_path / "src").mkdir(exist_ok=True)
    (tmp_path / "src" / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="'src/link', which is not a plain file"):
        ModelLibrary.load(tmp_path)


# Reading: files that lie ------------------------------------------------------------------------


def _load_changed(path: Path, **files: bytes | None) -> None:
    changed = dict(_library().files)
    for name, data in files.items():
        key = {"metadata": "metadata.json", "module": "hil/net.json"}.get(name, name)
        if data is None:
            del changed[key]
        else:
            changed[key] = data
    with tarfile.open(path / "lib.tar", "w") as tar:
        for name, data in changed.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    ModelLibrary.load(path / "lib.tar")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "has no metadata.json"),
        (b"", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "not in Model Library Format"),
        (b'{"version": "7"}', "not in Model Library Format"),
        (b'{"version": true}', "not in Model Library Format"),
        (b'{"version": 7, "modules": []}', "modules is []; expected is an object"),
        (b'{"version": 7, "modules": {}}', "has 0 modules; 1 to 64 are accepted"),
        (b'{"version": 7, "modules": {"net": 1}}', "module 'net' is 1; expected is an object"),
        (b'{"version": 5, "model_name": "other"}', "'other': metadata.json has no 'executors'"),
        (
            b'{"version": 7, "modules": {"net": {}, "two": {}}}',
            "module 'two': metadata.json has no",
        ),
        (b'{"version": 8, "modules": {"net": {}}}', "has version 8"),
    ],
)
def test_a_wrong_metadata_is_refused(metadata: bytes | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        _load_changed(tmp_path, metadata=metadata)
    assert message in caught.value.fact


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no codegen/host/src/net_lib1.c"):
        _load_changed(tmp_path, **{"codegen/host/src/net_lib1.c": None})


def _set(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def _drop_key(value: Any) -> None:
    del value["layers"][0]["op"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop_key, "layers[0] has ["),
        (_set("extra", to=1), "expected are the keys"),
        (_set("layers", to={}), "layers is {}; expected is list"),
        (_set("layers", 0, "macs", to="many"), 'macs is "many"; expected is int'),
        (_set("layers", 0, "macs", to=True), "macs is true; expected is int"),
        (_set("layers", 0, "macs", to=1.0), "macs is 1.0; expected is int"),
        (_set("layers", 0, "macs", to=-1), "macs is out of range"),
        (_set("layers", 0, "macs", to=10**400), "macs is out of range"),
        (_set("rounded_biases", to=[{"layer": "a", "largest_effect": math.nan}]), "an effect out"),
        (_set("rounded_biases", to=[{"layer": "a", "largest_effect": math.inf}]), "an effect out"),
        (_set("io_in_pool", to=0), "io_in_pool is 0; expected is bool"),
        (_set("pools", to="shared"), "expected is one of 'internal', 'external'"),
        (_set("cpu", to="z80"), "unknown CPU 'z80'"),
        (_set("name", to="other"), "symbol is 'tvmgen_net'"),
        (_set("name", to="a/../b"), "name is not a C name"),
        (_set("symbol", to="main"), "symbol is 'main'"),
        (_set("workspace_bytes", to=-1), "workspace_bytes is out of range"),
        (_set("workspace_bytes", to=1 << 40), "workspace_bytes is out of range"),
        (_set("workspace_bytes", to=40), "outside"),
        (_set("inputs", 0, "c_name", to="x; evil()"), "c_name 'x; evil()'"),
        (_set("inputs", 0, "dtype", to="int4"), "dtype 'int4'"),
        (_set("inputs", 0, "shape", to=[1, 0]), "shape (1, 0)"),
        (_set("inputs", 0, "shape", to=[1 << 20, 1 << 20]), "nbytes is 32"),
        (_set("inputs", 0, "nbytes", to=33), "nbytes is 33"),
        (_set("inputs", 0, "offset", to=0), "input lies elsewhere"),
        (_set("inputs", 0, "scale", to=None), "half a quantization"),
        (_set("inputs", 0, "scale", to=0.0), "scale"),
        (_set("inputs", 0, "zero_point", to=1 << 31), "zero_point"),
        (_set("layers", 0, "function", to="exit(1);"), "'exit(1);'"),
        (_set("layers", 0, "input_count", to=-1), "input_count is negative"),
        (_set("layers", 0, "input_count", to=9), "lacks arguments"),
        (_set("layers", 0, "outputs", to=[]), "lacks arguments"),
        (_set("layers", 0, "arguments", 0, "value", to=5), "is outside"),
        (_set("layers", 0, "arguments", 1, "value", to=1 << 20), "is outside"),
        (_set("layers", 0, "arguments", 1, "value", to=-16), "is outside"),
        (_set("layers", 0, "arguments", 1, "kind", to="heap"), 'kind is "heap"'),
        (
            _set(
                *("layers", 0, "arguments", 1),
                to={"kind": "input", "value": 0, "pool": 0, "shape": [8], "dtype": "int32"},
            ),
            "to an input",
        ),
        (_set("layers", 0, "arguments", 1, "pool", to=1), "is outside"),
        (_set("layers", 0, "arguments", 1, "pool", to=-1), "is outside"),
        (_set("layers", 0, "arguments", 1, "shape", to=[1 << 20]), "is outside"),
        (_set("layers", 0, "arguments", 1, "shape", to=[-1]), "shape (-1,)"),
        (_set("layers", 0, "arguments", 1, "dtype", to=""), "argument of dtype ''"),
        (_set("layers", 0, "arguments", 0, "kind", to="constants"), "is outside"),
        (_set("layers", 0, "arguments", 0, "kind", to="device"), "is outside"),
        (_set("layers", 0, "outputs", 0, "pool", to=1), "lies outside the workspace"),
        (_set("workspace_pools", 0, "name", to="a b"), "pool 'a b' is not a C name"),
        (_set("workspace_pools", 0, "nbytes", to=-1), "nbytes is -1"),
        (_set("workspace_pools", 0, "nbytes", to=1 << 20), "pools lie outside"),
        (_set("workspace_pools", 0, "region", to='"'), "region is '\"'"),
        (_set("workspace_pools", to=[]), "is outside"),
        (_set("constants_pool", to="a;b"), "'a;b' is not a C name"),
        (_set("functions", to=["main()"]), "'main()' is not a C name"),
        (_set("devices", to=["*"]), "'*' is not a C name"),
        (_set("codegen", to="rust"), "expected is one of 'c', 'llvm'"),
        (_set("codegen", to="llvm"), "has no codegen/host/lib/net_lib0.o"),
        (_set("layers", 0, "name", to="\ud800"), 'name is "\\ud800"; expected is str'),
        (_set("layers", 0, "outputs", 0, "offset", to=16), "an output lies elsewhere"),
        (_set("layers", 0, "outputs", 0, "offset", to=None), "an output lies elsewhere"),
    ],
)
def test_a_wrong_description_is_refused(
    change: Callable[[Any], None], message: str, tmp_path: Path
) -> None:
    description = json.loads(_library().files["hil/net.json"])
    assert description["layers"][0]["outputs"][0]["offset"] not in (None, 16)
    change(description)
    with pytest.raises(InputError) as caught:
        _load_changed(tmp_path, module=json.dumps(description).encode())
    assert message in caught.value.fact


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_refused(number: str, tmp_path: Path) -> None:
    text = _library().files["hil/net.json"].decode().replace("0.125", number)
    with pytest.raises(InputError, match="scale"):
        _load_changed(tmp_path, module=text.encode())


def test_a_description_survives_its_json() -> None:
    module = _library().modules[0]
    assert Module.from_json(module.to_json(), "x") == module


@pytest.mark.parametrize("goal", ["balanced", "ram"])
def test_a_library_records_its_goal(goal: str, tmp_path: Path) -> None:
    library = hilc.compile(convolutions(), name="net", optimize=goal)
    (module,) = hilc.ModelLibrary.load(library.save(tmp_path / "net.tar")).modules
    assert module.goal == goal
    described = json.loads(module.to_json())
    del described["goal"]
    # A library of version 0.1.
    assert Module.from_json(json.dumps(described).encode(), "x").goal is None


def test_a_description_of_an_earlier_release_is_read() -> None:
    """It names neither states nor a reference: there was one arithmetic, TFLite's."""
    (module,) = _library().modules
    written = json.loads(module.to_json())
    assert "states" not in written
    del written["reference"]
    earlier = Module.from_json(json.dumps(written).encode(), "x")
    assert earlier == dataclasses.replace(module, reference="litert-ref")


def test_parameters_that_were_edited_are_refused(tmp_path: Path) -> None:
    """No build reads them, so their change would go unnoticed."""
    library = _library()
    path = "parameters/net.params"
    for edited in (library.files[path][:-1] + b"\x7f", b""):
        dataclasses.replace(library, files={**library.files, path: edited}).save(
            tmp_path / "net.tar", force=True
        )
        with pytest.raises(InputError) as caught:
            ModelLibrary.load(tmp_path / "net.tar")
        assert f"{path} is not the one that the code in it was made from" in caught.value.fact
        assert "compile it again" in caught.value.hint
    without = {name: data for name, data in library.files.items() if name != path}
    dataclasses.replace(library, files=without).save(tmp_path / "net.tar", force=True)
    assert ModelLibrary.load(tmp_path / "net.tar").modules == library.modules


def test_a_replaced_model_in_an_archive_is_refused(tmp_path: Path) -> None:
    library = hilc.compile(convolutions(), name="net")
    library.save(tmp_path / "lib")
    (tmp_path / "lib" / "src" / "net.tflite").write_bytes(convolutions() + b"\0")
    with pytest.raises(InputError, match="src/net.tflite is not the one"):
        ModelLibrary.load(tmp_path / "lib")


def test_edited_parameters_of_a_module_are_refused(tmp_path: Path) -> None:
    hilc.merge([_library("one"), _library("two")]).save(tmp_path / "both")
    with (tmp_path / "both" / "parameters" / "two.params").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match="parameters/two.params is not the one"):
        ModelLibrary.load(tmp_path / "both")


def test_random_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    data = _library().save(tmp_path / "good.tar").read_bytes()
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(150):
        damaged = bytearray(data)
        # Most of the bytes are C, where damage is the C compiler's to find: aim at the rest too.
        start = 0 if rng.random() < 0.3 else data.index(b'"layers"')
        for position in rng.integers(start, min(start + 4000, len(data)), rng.integers(1, 6)):
            damaged[position] = rng.integers(256)
        (tmp_path / "bad.tar").write_bytes(damaged)
        try:
            ModelLibrary.load(tmp_path / "bad.tar")
        except InputError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (None, {}, "None is not a model file: its type is NoneType"),
        (5, {}, "5 is not a model file: its type is int"),
        ("graph", {"ram": "32K"}, r"ram='32K' is of type str\n\nhint: give ram as an int"),
        ("graph", {"flash": 1.5}, "flash=1.5 is of type float"),
    ],
)
def test_wrong_arguments_of_compile_are_named(model: Any, options: Any, message: str) -> None:
    if model == "graph":
        b = GraphBuilder()
        model = b.graph(b.conv(b.input(1, 4, 4, 2), 4))
    with pytest.raises(InputError, match=message):
        hilc.compile(model, **options)
