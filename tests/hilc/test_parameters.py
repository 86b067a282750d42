"""The dataclasses of kernels' parameters are the structs in the C headers."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import hilc
from hilc.errors import InputError
from hilc.ir import ELEMENT_TYPES
from hilc.lowering import kernels as described
from hilc.lowering import parameters, register_kernels, structs
from hilc.lowering.kernels import FieldGroup, KernelCall, Parameters, kernels
from hilc.lowering.parameters import HilOutputRange
from hilc.lowering.structs import python_name, read_structs, shipped_module
from hilc.lowering.write_parameters import own_parameters

COMPILER = Path(hilc.__file__).parents[1]

HEADER = """\
#define HIL_MINE_FIELDS      \\
    int32_t size; /* of it */ \\
    float scale
/*@kernel
name = "mine"
requires = []
inputs = ["int8_t"]
outputs = ["int8_t"]
scratch = "0"
order = "none"
[cost]
element = "size"
@*/
struct mine {
    HIL_MINE_FIELDS;
    int32_t counts[3];
    /* What is
     * looked up. */
    const int8_t
        *table;
};
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a kernel, and nothing registered that other tests would see."""
    monkeypatch.setattr(described, "_REGISTERED", {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.h").write_text(HEADER)
    (tmp_path / "costs").mkdir()
    costs = "mine = {element = 2}\nhil_generic_copy = {element = 1}\n"
    (tmp_path / "costs" / "cortex-m3.toml").write_text(costs)
    yield tmp_path
    monkeypatch.undo()
    described._forget()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the build hook reads of the compiler's folder."""
    lowering = tmp_path / "hilc" / "lowering"
    lowering.mkdir(parents=True)
    shutil.copy(COMPILER / "hilc" / "lowering" / "structs.py", lowering)
    shutil.copytree(COMPILER / "runtime", tmp_path / "runtime")
    shutil.copy(COMPILER / "build_hook.py", tmp_path)
    return tmp_path


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def declared(record: type[FieldGroup]) -> list[tuple[str, object]]:
    return [(field.name, field.type) for field in fields(record)]


def test_written_types_equal_the_classes(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    assert python(checkout, "build_hook.py").returncode == 0
    shutil.copy(checkout / "hilc/lowering/parameters.pyi", checkout / "written_types.py")
    monkeypatch.syspath_prepend(checkout)
    written = importlib.import_module("written_types")
    classes = {
        n: c for n, c in vars(written).items() if getattr(c, "__module__", "") == "written_types"
    }
    assert {python_name(name) for name in kernels()} < classes.keys()
    for name, in_file in classes.items():
        made = getattr(parameters, name)
        assert made.__bases__ == in_file.__bases__
        assert declared(made) == declared(in_file)
        assert made.__doc__ == in_file.__doc__
        assert getattr(made, "KERNEL", None) == getattr(in_file, "KERNEL", None)


def test_a_renamed_struct_is_written_anew(checkout: Path):
    header = checkout / "runtime/include/hil/kernels/generic/softmax.h"
    text = header.read_text(encoding="utf-8")
    renamed = re.sub(r"\bhil_generic_softmax_f32\b", "hil_renamed_f32", text)
    header.write_text(renamed, encoding="utf-8")
    assert python(checkout, "build_hook.py").returncode == 0
    types = (checkout / "hilc/lowering/parameters.pyi").read_text(encoding="utf-8")
    assert "class HilRenamedF32(Parameters):" in types
    assert "class HilGenericSoftmaxF32(Parameters):" not in types


def test_every_field_of_a_kernel_has_a_meaning():
    found = read_structs(described.shipped_headers().values())
    assert list(found.without_meaning(kernels())) == []
    # The comment goes to the dataclass, above the field.
    lines = shipped_module(described.shipped_headers().values(), "x").splitlines()
    field = re.compile(r"    \w+: (int|float|tuple\[|npt\.)")
    silent = [
        line
        for above, line in zip(lines, lines[1:], strict=False)
        if field.match(line) and not above.startswith("    #:")
    ]
    assert silent == []


def test_a_field_without_a_meaning_is_refused(checkout: Path):
    (checkout / "runtime/include/hil/kernels/mine.h").write_text(HEADER)
    refused = python(checkout, "build_hook.py")
    assert refused.returncode == 2
    assert "no comment says what mine.counts, HIL_MINE_FIELDS.scale is" in refused.stderr


def test_element_types_of_structs_are_those_of_tensors():
    """The build hook cannot read the table of the types of tensors, which needs numpy."""
    rows = ELEMENT_TYPES.items()
    assert {row.c_type: f"np.{n}" for n, row in rows if n != "bool"} == structs._ELEMENTS


def test_classes_and_their_objects_can_be_pickled():
    record = HilOutputRange(out_zero_point=3, out_min=-128, out_max=127)
    assert pickle.loads(pickle.dumps(record)).fields == record.fields


def test_a_dataclass_has_the_fields_of_its_struct():
    classes = {python_name(name): name for name in kernels()}
    assert len(classes) == len(kernels()) > 50
    for class_name, name in classes.items():
        assert getattr(parameters, class_name).kernel() is kernels()[name]


def test_a_wrong_field_is_refused_where_it_is_written():
    # mypy refuses it too: it would call the comment unused otherwise.
    with pytest.raises(TypeError, match="colums"):
        parameters.HilGenericSoftmaxF32(rows=1, colums=2, beta=1.0)  # type: ignore[call-arg]


def test_structs_are_read_with_their_comments(mine: Path):
    found = read_structs([HEADER])
    assert [(f.name, f.python, f.meaning) for f in found.structs["mine"]] == [
        ("mine", "HilMine", ""),
        ("counts", "tuple[int, ...]", ""),
        ("table", "npt.NDArray[np.int8]", "What is looked up."),
    ]
    assert [(f.name, f.python, f.meaning) for f in found.groups["HIL_MINE_FIELDS"]] == [
        ("size", "int", "of it"),
        ("scale", "float", ""),
    ]
    assert list(found.names(found.structs["mine"])) == ["size", "scale", "counts", "table"]
    # Other structs of a header are none of ours.
    assert read_structs(["struct other {\n    int64_t x;\n};\n"]).structs == {}


def test_an_own_kernel_has_its_own_dataclass(mine: Path, monkeypatch: pytest.MonkeyPatch):
    register_kernels(mine)
    (mine / "mine_parameters.py").write_text(own_parameters(mine))
    monkeypatch.syspath_prepend(mine)
    own = importlib.import_module("mine_parameters")
    table = np.zeros(3, np.int8)
    call = KernelCall(own.Mine(mine=own.HilMine(size=7, scale=0.5), counts=(1, 2, 3), table=table))
    assert list(call.fields) == ["size", "scale", "counts", "table"]
    assert call.kernel.header == "mine/mine.h"


def test_a_record_takes_all_fields_by_name():
    given = {"out_min": -128, "out_zero_point": 3, "out_max": 127}
    record = HilOutputRange(**given)
    # In the order of the struct.
    assert list(record.fields) == [field.name for field in fields(record)]
    assert repr(record) == "HilOutputRange(out_zero_point=3, out_min=-128, out_max=127)"
    assert replace(record, out_min=0).fields == {**given, "out_min": 0}
    assert record.out_min == -128
    assert record != HilOutputRange(**given)
    with pytest.raises(TypeError, match="HilOutputRange lacks out_zero_point and has no zero"):
        HilOutputRange(out_min=0, out_max=1, zero=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        HilOutputRange(3, -128, 127)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        record.out_min = 0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del record.out_min


def test_a_dataclass_that_is_not_the_struct_is_refused(mine: Path):
    @dataclass(frozen=True, eq=False, kw_only=True)
    class Mine(Parameters):
        KERNEL: ClassVar[str] = "mine"
        size: int

    with pytest.raises(InputError, match="Mine has the parameters of kernel mine, which no header"):
        Mine.kernel()
    register_kernels(mine)
    with pytest.raises(InputError, match="Mine has the fields size, but struct mine of mine"):
        Mine.kernel()


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("mine/mine.h", "", "no header has a block"),
        ("hil/mine.h", HEADER, "which is a path of the run time"),
        (
            "mine/mine.h",
            HEADER.replace('"mine"', '"hil_generic_copy"'),
            "hil_generic_copy is described twice",
        ),
        ("mine/mine.h", HEADER.replace('scratch = "0"\n', ""), "lacks the key 'scratch'"),
        (
            "mine/mine.h",
            HEADER.replace("scratch", "scratches"),
            "kernel mine of mine/mine.h has the unknown key 'scratches'; known are band_code, code",
        ),
        *(
            (
                "mine/mine.h",
                HEADER.replace("scratch", f"{key} = true\nscratch"),
                f"kernel mine of mine/mine.h has the unknown key '{key}', which versions before "
                "0.2 had; delete it",
            )
            for key in ("flash_heavy", "speed_only", "unfolds")
        ),
        ("mine/mine.h", HEADER.replace('"mine"', "mine"), "cannot be used"),
    ],
)
def test_folders_that_cannot_be_registered(mine: Path, path: str, text: str, message: str):
    (mine / "mine" / "mine.h").unlink()
    (mine / path).parent.mkdir(exist_ok=True)
    (mine / path).write_text(text)
    before = dict(kernels())
    with pytest.raises(InputError, match=message):
        register_kernels(mine)
    assert kernels() == before
