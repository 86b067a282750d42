"""Plain C code: its results, the names and headers in it, warnings, and what it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import misra
import numpy as np
import pytest
import tidy
from campaigns import sampled
from control_flow import FILES as CONTROL
from control_flow import convolving_file
from onnx import TensorProto, helper, numpy_helper, parser
from onnx_control_flow import control_flow_model
from random_graphs import random_graph
from stateful import keyword_file, samples

import hilc
from hilc import host
from hilc.artifact.library import ModelLibrary, merge
from hilc.errors import InputError, LoopBoundError
from hilc.frontends import load_model
from hilc.ir import Array
from hilc.support.version import __version__

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
RUNS = 4
#: GCC of each kind of core, with its options; the kernels differ between them.
COMPILERS = {
    "host": ("gcc",),
    "cortex-m0": ("arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"),
    "cortex-m4": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"),
    "cortex-m55": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
    "rv32imac": (
        "riscv64-unknown-elf-gcc",
        "--specs=picolibc.specs",
        "-march=rv32imac",
        "-mabi=ilp32",
    ),
}
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wcast-qual",
    "-Wcast-align=strict",
    "-Wundef",
    "-Wmissing-prototypes",
    "-Wstrict-prototypes",
    "-Wvla",
    "-Werror",
]


@cache
def plain(cpu: str = "cortex-m4", name: str = "digits") -> ModelLibrary:
    return hilc.compile(DIGITS, cpu=cpu, name=name, style="plain")


def files_of(library: ModelLibrary, *suffixes: str) -> dict[str, str]:
    """Return the C files of a library."""
    return {
        path: data.decode()
        for path, data in library.files.items()
        if path.startswith("codegen/") and path.endswith(suffixes or (".c", ".h"))
    }


def written(library: ModelLibrary, folder: Path) -> tuple[list[Path], Path]:
    """Write a library; return its C files and the folder of the headers."""
    library.save(folder)
    code = folder / "codegen" / "host"
    return sorted((code / "src").glob("*.c")), code / "include"


def built(library: ModelLibrary, folder: Path, cpu: str, *flags: str) -> list[Path]:
    """Compile each C file with all warnings as errors; return the objects."""
    sources, include = written(library, folder)
    command = [*COMPILERS[cpu], "-std=c99", "-O2", *WARNINGS, *flags, f"-I{include}", "-c"]
    objects = []
    for source in sources:
        objects.append(folder / f"{source.stem}.o")
        run(*command, source, "-o", objects[-1])
    return objects


def run(*command: object) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def results(library: ModelLibrary, inputs: Sequence[Mapping[str, Array]]) -> list[bytes]:
    found = []
    with host.load(library) as model:
        for values in inputs:
            for name, value in values.items():
                model.set_input(name, value)
            model.run()
            found += [model.get_output(info.name).tobytes() for info in model.outputs]
    return found


# -- results ------------------------------------------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "static": {},
    "caller's": {"pools": "external"},
    "in pools": {"pools": "external", "io_in_pool": True},
    "in static pools": {"io_in_pool": True},
    "small": {"optimize": "size"},
    "M4": {"cpu": "cortex-m4"},
    "rows": {"feed": "rows"},
    "caller's rows": {"feed": "rows", "pools": "external", "io_in_pool": True},
}


@pytest.mark.parametrize("way", sampled(OPTIONS, keep=["caller's", "in static pools", "rows"]))
def test_outputs_equal_those_of_the_tvm_style(way: str) -> None:
    inputs = samples(load_model(DIGITS.read_bytes()), RUNS)
    styles = [hilc.compile(DIGITS, style=style, **OPTIONS[way]) for style in ("tvm", "plain")]
    first, second = (results(library, inputs) for library in styles)
    assert first == second
    assert len(set(first)) == RUNS


@pytest.mark.parametrize("way", sampled(list(OPTIONS)[:4], keep=["caller's"]))
def test_states_are_kept_and_reset(way: str) -> None:
    """Through a run, a reset and a new value, as in the other style."""
    inputs = samples(load_model(keyword_file()), RUNS)
    found = []
    for style in ("tvm", "plain"):
        library = hilc.compile(keyword_file(), style=style, name="words", **OPTIONS[way])
        with host.load(library) as model:
            got: list[bytes] = []
            for values in (*inputs, *inputs[:1]):
                if len(got) == RUNS:
                    model.reset_state()
                for name, value in values.items():
                    model.set_input(name, value)
                model.run()
                got.append(model.get_output(0).tobytes())
            model.set_state(0, model.state(0))
            found.append([*got, *(model.state(info.name).tobytes() for info in model.states)])
    assert found[0] == found[1]
    assert found[0][0] == found[0][RUNS] != found[0][1]


@pytest.mark.parametrize("name", sampled(CONTROL, keep=list(CONTROL)[:2]))
def test_branches_and_loops(name: str) -> None:
    inputs = samples(load_model(CONTROL[name]), RUNS)
    for index, values in enumerate(inputs):
        if "start" in values:
            values["start"] = np.array(index, np.int32)
    styles = [hilc.compile(CONTROL[name], style=style, name="m") for style in ("tvm", "plain")]
    assert results(styles[0], inputs) == results(styles[1], inputs)


#: Models with branches and loops, some within others, and the bounds of the loops.
NESTED: dict[str, dict[str, int]] = {
    "if_in_if": {},
    "if_in_loop": {"odd": 6},
    "loop_in_loop": {"y": 5, "u": 70_000},
}


def nested(name: str, cpu: str = "host", symbol: str = "m", **options: Any) -> ModelLibrary:
    data = control_flow_model(name)
    return hilc.compile(
        data, cpu=cpu, name=symbol, style="plain", loop_bounds=NESTED[name], **options
    )


@pytest.mark.parametrize("cpu", sampled(COMPILERS, keep=["host", "cortex-m4", "rv32imac"]))
def test_strict_compilers_accept_control_flow(cpu: str, tmp_path: Path) -> None:
    for name in NESTED:
        (compiled,) = built(nested(name, cpu), tmp_path / name, cpu)
        assert compiled.stem == "m"
    (compiled,) = built(
        hilc.compile(convolving_file(), cpu=cpu, name="m", style="plain"), tmp_path / "c", cpu
    )


def test_strict_compilers_accept_numbers_of_floats(tmp_path: Path) -> None:
    """An epsilon of 1e-5, which no float32 is, is written as one."""
    text = """<ir_version: 9, opset_import: ["" : 17]>
    g (float[2,8] x) => (float[2,8] y) <float[8] k = {1, 2, 3, 4, 5, 6, 7, 8}> {
        y = LayerNormalization <epsilon = 1e-5> (x, k)
    }"""
    data = parser.parse_model(text).SerializeToString()
    library = hilc.compile(data, cpu="host", name="m", style="plain")
    assert ".epsilon = 0x1.4f8b58p-17f" in library.files["codegen/host/src/m.c"].decode()
    built(library, tmp_path, "host")


@pytest.mark.parametrize("name", NESTED)
def test_control_flow_is_in_the_models_file(name: str, tmp_path: Path) -> None:
    """Static, with the license and without TVM's words, as every layer."""
    library = nested(name)
    for path, text in files_of(library).items():
        assert text.startswith("/* SPDX-License-Identifier: Apache-2.0 */\n"), path
        assert f"hil {__version__}" in "\n".join(text.splitlines()[1:4]), path
        assert "tvm" not in text.lower(), path
    objects = built(library, tmp_path, "host")
    symbols = [line.split()[-2:] for line in run("nm", *objects).splitlines()]
    assert [name for kind, name in symbols if kind in "TDBRCV"] == ["m_run"]
    own = [n for kind, n in symbols if kind in "tdbr" and not n.startswith((".", "hil_"))]
    assert all(name.startswith("m_") for name in own)
    source = library.files["codegen/host/src/m.c"].decode()
    assert "section(" not in source
    assert not re.findall(r"\w+_external_\d|\w+_var\b", source)
    assert not re.findall(r"^(?!static)\w[\w ]*\(.*;$", source, re.MULTILINE), "a prototype"


def test_the_header_states_each_status() -> None:
    headers = {name: nested(name).files["codegen/host/include/m.h"].decode() for name in NESTED}
    returns = {name: header.partition("@return ")[2] for name, header in headers.items()}
    assert returns["loop_in_loop"].startswith(
        "0,\n * -1 if a pointer is NULL,\n * -2 if the loop of 'y' exceeds 5 turns,\n"
        " * or -3 if the loop of 'u' exceeds 70,000 turns.\n"
        " * After any status but 0 the outputs are not valid. */"
    )
    assert returns["if_in_if"].startswith(
        "0,\n * or -1 if a pointer is NULL.\n"
        " * After any status but 0 the outputs are not valid. */"
    )
    assert "no loop without a fixed bound" in headers["loop_in_loop"]
    endless = hilc.compile(control_flow_model("while"), style="plain", name="m")
    assert "fixed bound" not in endless.files["codegen/host/include/m.h"].decode()


@pytest.mark.parametrize("style", ["tvm", "plain"])
def test_each_loop_has_a_status_of_its_own(style: str) -> None:
    """The error names the loop that exceeds its bound, also in a loop."""
    data = control_flow_model("loop_in_loop")
    library = hilc.compile(data, style=style, name="m", loop_bounds={"y": 5, "u": 6})
    with host.load(library) as model:
        for turns, name in ((3, ""), (5, "'u'"), (4, ""), (6, "'u'")):
            model.set_input("x", np.ones(4, np.float32))
            model.set_input("n", np.array(turns))
            if not name:
                model.run()
                continue
            with pytest.raises(LoopBoundError, match=f"loop of {name} exceeds its bound of 6"):
                model.run()
    library = hilc.compile(data, style=style, name="m", loop_bounds={"y": 5, "u": 60})
    with host.load(library) as model:
        model.set_input("n", np.array(6))
        with pytest.raises(LoopBoundError, match="loop of 'y' exceeds its bound of 5") as caught:
            model.run()
        assert "--loop-bound y=N" in caught.value.hint


def test_constants_of_loops_are_shared() -> None:
    """Two models with one loop body have its constants once."""
    models = [nested("loop_in_loop", symbol=name) for name in ("first", "second")]
    library = merge(models)
    assert "first_while_0_body_constant_0" in (
        library.files["codegen/host/include/first.shared.h"].decode()
    )
    assert "second_while_0_body_constant_0" not in (
        library.files["codegen/host/src/second.c"].decode()
    )
    for name in ("first", "second"):
        with host.load(library, name) as model:
            model.set_input("x", np.ones(4, np.float32))
            model.set_input("n", np.array(2))
            model.run()


@pytest.mark.parametrize("seed", sampled(range(20), keep=range(2)))
def test_random_graphs_of_several_outputs(seed: int) -> None:
    graph = random_graph(seed, ordinary_outputs=True)
    inputs = samples(graph, RUNS)
    options: dict[str, Any] = {"optimize": ("size", "balanced")[seed % 2], "cpu": "host"}
    styles = [hilc.compile(graph, style=style, **options) for style in ("tvm", "plain")]
    assert results(styles[0], inputs) == results(styles[1], inputs)


# -- text ---------------------------------------------------------------------------------------


def test_every_file_has_license_and_version() -> None:
    files = files_of(plain())
    assert {path.rpartition("/")[2] for path in files} >= {"digits.c", "digits.h", "quant.h"}
    for path, text in files.items():
        first, second = text.splitlines()[:2]
        assert first == "/* SPDX-License-Identifier: Apache-2.0 */", path
        assert f"hil {__version__}" in "\n".join(text.splitlines()[1:4]), (path, second)


def test_no_word_of_tvm_or_of_costs() -> None:
    library = plain()
    for path, text in files_of(library).items():
        assert not re.search(r"tvm|DLTensor|dlpack", text, re.IGNORECASE), path
        assert not re.search(r"@kernel|\[cost\]|^ \* (Cost|Tests|Measured)", text, re.M), path
    assert not [p for p in library.files if p.startswith(("runtime/", "templates/", "parameters/"))]


def test_the_header_states_the_tensors() -> None:
    header = plain().files["codegen/host/include/digits.h"].decode()
    macros = dict(re.findall(r"^#define (\w+) (.+)$", header, re.MULTILINE))
    assert macros["DIGITS_IMAGE_SHAPE"] == "{1, 8, 8, 1}"
    assert macros["DIGITS_IMAGE_COUNT"] == macros["DIGITS_IMAGE_SIZE"] == "64"
    assert macros["DIGITS_IDENTITY_ZERO_POINT"] == "(-128)"
    (info,) = plain().modules[0].outputs
    assert info.scale == float(macros["DIGITS_IDENTITY_SCALE"].removesuffix("f"))
    assert "int32_t digits_run(const int8_t *image, int8_t *Identity);" in header
    assert header.count("#include") == 1


def test_every_name_begins_with_the_models(tmp_path: Path) -> None:
    """Global names, static ones and macros; only what a caller uses is global."""
    objects = built(plain("host"), tmp_path, "host")
    symbols = [line.split()[-2:] for line in run("nm", *objects).splitlines()]
    assert [name for kind, name in symbols if kind in "TDBRCV"] == ["digits_run"]
    assert {name for kind, name in symbols if kind == "U"} <= {"memcpy", "memset", "memmove"}
    own = [n for kind, n in symbols if kind in "tdbr" and not n.startswith((".", "hil_"))]
    assert own
    assert all(name.startswith("digits_") for name in own)


def test_each_header_is_used() -> None:
    """An included kernel or library header defines something that the file names."""
    for path, text in files_of(plain(), ".c").items():
        assert ("<string.h>" in text) == bool(re.search(r"\bmem(cpy|set|move)\(", text)), path
        assert ("<stddef.h>" in text) == bool(re.search(r"\b(NULL|size_t)\b", text)), path


#: Models whose layers have one type, several, called graphs, and rows that come one by one.
TYPED: dict[str, tuple[str, Callable[[str], ModelLibrary]]] = {
    "digits": ("cortex-m4", plain),
    "rows": (
        "cortex-m4",
        lambda cpu: hilc.compile(DIGITS, cpu=cpu, style="plain", name="m", feed="rows"),
    ),
    "size": (
        "host",
        lambda cpu: hilc.compile(DIGITS, cpu=cpu, style="plain", name="m", optimize="size"),
    ),
    "loop": ("host", lambda cpu: nested("if_in_loop", cpu)),
    "several types": (
        "host",
        lambda cpu: hilc.compile(
            random_graph(3, ordinary_outputs=True), cpu=cpu, style="plain", name="m"
        ),
    ),
}


@pytest.mark.parametrize("name", TYPED)
def test_layers_have_typed_pointers(name: str, tmp_path: Path) -> None:
    """Each function takes pointers to elements; casts are where memory is carved."""
    cpu, compiled = TYPED[name]
    library = compiled(cpu)
    (source,) = files_of(library, ".c").values()
    heads = re.findall(r"^static [^;={]*?\([^;{]*\) \{$", source, re.MULTILINE)
    assert heads
    for head in heads:
        assert "void *" not in head
    assert not re.search(r"\*\)(input|output)\d", source)
    built(library, tmp_path, cpu)


@pytest.mark.parametrize("cpu", sampled(COMPILERS, keep=["cortex-m4", "rv32imac"]))
def test_strict_compilers_say_nothing(cpu: str, tmp_path: Path) -> None:
    """C99 with all warnings as errors, and the header in C++11."""
    built(plain(cpu), tmp_path, cpu)
    program = tmp_path / "caller.cpp"
    program.write_text(
        '#include "digits.h"\n'
        "int32_t call(const int8_t *in, int8_t *out) { return digits_run(in, out); }\n"
        "static const int32_t shape[DIGITS_IMAGE_NDIM] = DIGITS_IMAGE_SHAPE;\n"
        "float real(int8_t value) {\n"
        "    const int32_t steps = value - DIGITS_IDENTITY_ZERO_POINT + 0 * shape[0];\n"
        "    return DIGITS_IDENTITY_SCALE * static_cast<float>(steps);\n}\n"
    )
    strict = [flag for flag in WARNINGS if "prototypes" not in flag]
    include = tmp_path / "codegen" / "host" / "include"
    run("g++", "-std=c++11", *strict, "-Wold-style-cast", f"-I{include}", "-c", program,
        "-o", tmp_path / "caller.o")  # fmt: skip


@pytest.mark.parametrize("options", [{"pools": "external"}, {"feed": "rows"}], ids=str)
def test_strict_compilers_with_other_interfaces(options: dict[str, Any], tmp_path: Path) -> None:
    models: tuple[Any, ...] = (DIGITS, keyword_file(), convolving_file())
    for index, model in enumerate(models):
        if options.get("feed") == "rows" and index:
            continue
        library = hilc.compile(model, cpu="host", style="plain", name="m", **options)
        built(library, tmp_path / str(index), "host")


def float_file() -> bytes:
    """Return a model of float32: convolutions, a pooling, a product."""
    dice = np.random.default_rng(0)
    shapes = {"w1": (8, 4, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "w3": (128, 10), "b3": (10,)}
    weights = [
        numpy_helper.from_array(dice.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], group=8, pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "w3", "b3"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 4, 8, 8]), ("y", [1, 10]))
    )
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    made: bytes = helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    return made


#: Models of each kind: of integers, of floats, with loops, with a loop of floats.
REVIEWED: dict[str, Callable[[], ModelLibrary]] = {
    "digits": plain,
    "float": lambda: hilc.compile(float_file(), cpu="cortex-m4", style="plain", name="m"),
    "float_loop": lambda: hilc.compile(convolving_file(), cpu="cortex-m4", style="plain", name="m"),
    **{name: partial(nested, name) for name in NESTED},
}


@pytest.mark.parametrize("name", REVIEWED)
def test_only_explained_rules_of_misra_are_broken(name: str, tmp_path: Path) -> None:
    """Each finding of cppcheck's add-on is of a rule that the documentation explains."""
    assert shutil.which("cppcheck"), "install the package cppcheck"
    sources, include = written(REVIEWED[name](), tmp_path)
    found = misra.findings(sources[0], include)
    assert found
    explained = misra.explained_rules()
    assert set(found) <= explained, sorted(set(found) - explained)
    # In the file with the model's name there are fewer.
    own = misra.findings(sources[0], include, only=sources[0])
    assert set(own) <= misra.explained_rules("generated")


@pytest.mark.parametrize("name", ["digits", "loop_in_loop"])
def test_only_explained_checks_of_clang_tidy(name: str, tmp_path: Path) -> None:
    """Each finding is of a check that the documentation explains."""
    assert shutil.which("clang-tidy"), "install the package clang-tidy"
    library = plain("host") if name == "digits" else nested(name)
    sources, include = written(library, tmp_path)
    found = tidy.findings(sources[0], include)
    assert found
    explained = tidy.explained_checks()
    assert set(found) <= explained, sorted(set(found) - explained)


# -- several models -----------------------------------------------------------------------------


def test_two_models_have_equal_constants_once(tmp_path: Path) -> None:
    """A second model of the same weights adds no byte of them, and both compute what they did."""
    models = [plain("host"), plain("host", "second")]
    library = merge(models)
    inputs = samples(load_model(DIGITS.read_bytes()), RUNS)
    for each in models:
        name = each.modules[0].name
        with host.load(library, name) as model:
            for values, expected in zip(inputs, results(each, inputs), strict=True):
                model.set_input("image", values["image"])
                model.run()
                assert model.get_output(0).tobytes() == expected
    objects = built(library, tmp_path, "host")
    assert [path.stem for path in objects] == ["digits", "second"]
    first, second = (
        sum(
            int(size, 16)
            for size in re.findall(r"\.rodata\S*\s+([0-9a-f]{8})", run("objdump", "-h", o))
        )
        for o in objects
    )
    assert first > 6000
    assert second < first / 10
    assert len(library.files["codegen/host/src/second.c"]) < 10_000


def test_models_without_equal_constants_stay() -> None:
    library = merge(
        [plain("host"), hilc.compile(CONTROL[next(iter(CONTROL))], style="plain", name="m")]
    )
    assert not any(path.endswith(".shared.h") for path in library.files)


# -- what it refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"interface": "packed"}, "interface=packed"),
        ({"api": "packed", "interface": "packed"}, "interface=packed"),
        ({"pools": "calls"}, "pools=calls"),
        ({"constants": "external"}, "constants=external"),
        ({"codegen": "llvm"}, "codegen=llvm"),
        ({"system_lib": True}, "system_lib=True"),
    ],
)
def test_options_of_tvm_are_refused(options: dict[str, Any], fact: str) -> None:
    with pytest.raises(InputError, match=f"plain C code cannot be written with {fact}") as caught:
        hilc.CompileOptions(style="plain", **options)
    assert "style=tvm" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["string", "Math", "1net", "_net"])
def test_names_that_c_reserves_are_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        hilc.compile(DIGITS, style="plain", name=name)
    assert "--name model_" in str(caught.value.hint)


def test_layers_cannot_be_called_one_by_one() -> None:
    with host.load(plain("host")) as model, pytest.raises(InputError, match="static functions"):
        list(model.layer_outputs())


def test_a_library_is_read_back(tmp_path: Path) -> None:
    """With its style, which other libraries do not state."""
    plain("host").save(tmp_path / "plain.tar")
    assert ModelLibrary.load(tmp_path / "plain.tar").modules[0].style == "plain"
    other = hilc.compile(DIGITS, cpu="host")
    assert b'"style"' not in other.files["hil/digits.json"]
    other.save(tmp_path / "other.tar")
    assert ModelLibrary.load(tmp_path / "other.tar").modules[0].style == "tvm"
