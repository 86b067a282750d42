"""The dataclasses of kernels' parameters are the structs in the C headers."""

from __future__ import annotations

import importlib
import os
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

from hilc.errors import InputError
from hilc.lowering import kernels as described
from hilc.lowering import parameters, register_kernels, write_parameters
from hilc.lowering.kernels import KernelCall, Parameters, kernels
from hilc.lowering.parameters import HilOutputRange
from hilc.lowering.structs import python_name, read_structs
from hilc.lowering.write_parameters import own_parameters, shipped_parameters

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
[cost.counts]
element = "size"
[cost.on.cortex-m3]
element = 2
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
    yield tmp_path
    monkeypatch.undo()
    described._forget()


def test_the_module_is_what_the_headers_say():
    text = Path(parameters.__file__).read_text(encoding="utf-8")
    assert text == shipped_parameters(), "run python tools/parameters.py"


def test_a_dataclass_is_written_that_a_builder_imports_already(tmp_path: Path):
    """The compiler itself cannot be imported then."""
    root = Path(parameters.__file__).parents[3]
    for name in ("hilc", "runtime"):
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / "compiler" / name, tmp_path / "compiler" / name, ignore=skipped)
    (tmp_path / "tools").mkdir()
    shutil.copy(root / "tools" / "parameters.py", tmp_path / "tools")
    lowering = tmp_path / "compiler" / "hilc" / "lowering"
    written = lowering / "parameters.py"
    text = written.read_text(encoding="utf-8")
    written.write_text(text.replace("class HilSoftmaxS8(", "class HilOlder("), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "compiler")}

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert "cannot import name 'HilSoftmaxS8'" in python("-c", "import hilc.compiler").stderr
    assert "run python tools/parameters.py" in python("tools/parameters.py", "--check").stderr
    assert python("tools/parameters.py").returncode == 0
    assert written.read_text(encoding="utf-8") == text
    assert python("-c", "import hilc.compiler").returncode == 0


def test_every_field_of_a_kernel_has_a_meaning():
    structs = read_structs(described.shipped_headers().values())
    assert list(structs.without_meaning(kernels())) == []
    # The comment goes to the dataclass, above the field.
    lines = Path(parameters.__file__).read_text(encoding="utf-8").splitlines()
    field = re.compile(r"    \w+: (int|float|tuple\[|npt\.)")
    silent = [
        line
        for above, line in zip(lines, lines[1:], strict=False)
        if field.match(line) and not above.startswith("    #:")
    ]
    assert silent == []


def test_a_field_without_a_meaning_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(write_parameters, "shipped_headers", lambda: {"mine.h": HEADER})
    with pytest.raises(InputError, match="no comment says what mine.counts, HIL_MINE_FIELDS.scale"):
        shipped_parameters()


def test_every_kernel_has_a_dataclass_with_the_fields_of_its_struct():
    classes = {python_name(name): name for name in kernels()}
    assert len(classes) == len(kernels()) > 50
    for class_name, name in classes.items():
        assert getattr(parameters, class_name).kernel() is kernels()[name]


def test_a_wrong_field_is_refused_where_it_is_written():
    # mypy refuses it too: it would call the comment unused otherwise.
    with pytest.raises(TypeError, match="colums"):
        parameters.HilSoftmaxF32(rows=1, colums=2, beta=1.0)  # type: ignore[call-arg]


def test_structs_are_read_with_their_comments(mine: Path):
    structs = read_structs([HEADER])
    assert [(f.name, f.python, f.meaning) for f in structs.structs["mine"]] == [
        ("mine", "HilMine", ""),
        ("counts", "tuple[int, ...]", ""),
        ("table", "npt.NDArray[np.int8]", "What is looked up."),
    ]
    assert [(f.name, f.python, f.meaning) for f in structs.groups["HIL_MINE_FIELDS"]] == [
        ("size", "int", "of it"),
        ("scale", "float", ""),
    ]
    assert list(structs.names(structs.structs["mine"])) == ["size", "scale", "counts", "table"]
    # Other structs of a header are none of ours.
    assert read_structs(["struct other {\n    int64_t x;\n};\n"]).structs == {}


def test_an_own_kernel_is_called_with_its_own_dataclass(
    mine: Path, monkeypatch: pytest.MonkeyPatch
):
    register_kernels(mine)
    (mine / "mine_parameters.py").write_text(own_parameters(mine))
    monkeypatch.syspath_prepend(mine)
    own = importlib.import_module("mine_parameters")
    table = np.zeros(3, np.int8)
    call = KernelCall(own.Mine(mine=own.HilMine(size=7, scale=0.5), counts=(1, 2, 3), table=table))
    assert list(call.fields) == ["size", "scale", "counts", "table"]
    assert call.kernel.header == "mine/mine.h"


def test_a_record_takes_all_of_its_fields_by_name_and_keeps_them():
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
        ("mine/mine.h", HEADER.replace('"mine"', '"hil_copy"'), "hil_copy is described twice"),
        ("mine/mine.h", HEADER.replace("scratch", "scratches"), "lacks the key 'scratch'"),
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
