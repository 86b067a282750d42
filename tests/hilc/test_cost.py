"""What kernels cost: what headers and tables may say of it, and for which cores it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import cases
from linear_layers import random_layer
from loose_call import loose_call
from random_graphs import GraphBuilder

from hilc.errors import InputError
from hilc.ir import Quant
from hilc.lowering import candidates, cost, cost_tables
from hilc.lowering import kernels as described
from hilc.lowering.bodies import body_key
from hilc.lowering.cost import CALL_INSTRUCTIONS, Cost
from hilc.lowering.cost_tables import (
    BASE_CORE,
    FOLDER,
    TableRow,
    read_costs,
    shipped_costs,
    write_costs,
)
from hilc.lowering.kernels import (
    Kernel,
    KernelCall,
    described_kernels,
    kernels,
    shipped_headers,
    shipped_structs,
)
from hilc.support.toml import tomllib
from hilc.target import get_cpu

_HEADS = re.compile(r"/\*@kernel\n(.*?)@\*/", re.DOTALL)
FIELDS: dict[str, Any] = {"rows": 5, "depth": 12, "wide": 0, "weights": np.zeros(4, np.int8)}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("7", 7.0),
        ("1.5 * rows * depth", 90.0),
        ("2 + 3 * ((rows + 2) // 3) + depth % 5", 10.0),
        ("depth / 8 - rows", -3.5),
        ("10 * (wide == 0) + 100 * (depth > 12) + (rows <= 5)", 11.0),
        ("max(rows, depth) - min(rows, 2)", 10.0),
        ("-rows\n+ depth", 7.0),
    ],
)
def test_formulas(formula: str, value: float):
    assert cost.value(formula, FIELDS) == pytest.approx(value)


@pytest.mark.parametrize(
    "formula", ["weights", "height", "rows ** 2", "abs(rows)", "rows if wide else 1", "'a'"]
)
def test_what_no_formula_may_say(formula: str):
    with pytest.raises(ValueError, match="a cost cannot have"):
        cost.value(formula, FIELDS)


COST = Cost(
    on={
        "cortex-m3": {"call": 40, "row": 10, "mac": 2.5},
        "cortex-m0": {"factor": 2.0},
        "cortex-m4": {"mac": 0.5},
        "rv32imac": {"call": 7},
    },
    counts={"row": "rows", "mac": "row * depth"},
)


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("cortex-m3", 40 + 5 * 10 + 60 * 2.5),
        ("cortex-m0", 2 * (40 + 5 * 10 + 60 * 2.5)),
        ("cortex-m0plus", 2 * (40 + 5 * 10 + 60 * 2.5)),
        ("cortex-m4", 60 * 0.5),
        ("cortex-m7", 60 * 0.5),
        ("cortex-m55", 40 + 5 * 10 + 60 * 2.5),
        ("host", 40 + 5 * 10 + 60 * 2.5),
        ("rv32imac", 7),
    ],
)
def test_a_core_has_its_architectures_figures(cpu: str, expected: float):
    assert COST.instructions(FIELDS, get_cpu(cpu)) == CALL_INSTRUCTIONS + expected


def test_a_core_without_an_fpu_has_its_own_figures():
    found = replace(COST, on={**COST.on, "rv32imafc": {"mac": 0.1}, "cortex-m4": {"mac": 0.2}})
    without = replace(found, on={core: found.on[core] for core in ("cortex-m3", "rv32imafc")})
    only = replace(found, on={"cortex-m4": found.on["cortex-m4"]})
    assert found.core_of(get_cpu("rv32imc")) == "rv32imac"
    assert found.core_of(get_cpu("rv32imafc")) == "rv32imafc"
    assert without.core_of(get_cpu("rv32imac")) == "cortex-m3"
    assert without.core_of(get_cpu("rv32imafc")) == "rv32imafc"
    assert without.core_of(get_cpu("cortex-m55")) == "cortex-m3"
    assert only.core_of(get_cpu("cortex-m0")) == "cortex-m4"


def test_code_that_layers_share_takes_more():
    shared = {"cortex-m3": {"row": 80.0, "mac": 3}, "cortex-m4": {"factor": 1.5}}
    found = replace(COST, shared=shared)
    for cpu, expected in (
        ("cortex-m3", 5 * 80 + 60 * 3),
        ("cortex-m55", 5 * 80 + 60 * 3),
        ("cortex-m7", 1.5 * 60 * 0.5),
        ("rv32imac", 7),
    ):
        core = get_cpu(cpu)
        assert found.instructions(FIELDS, core, shared=True) == CALL_INSTRUCTIONS + expected
        assert found.instructions(FIELDS, core) == COST.instructions(FIELDS, core)
    with pytest.raises(ValueError, match=r"has no \['tap'\], which cortex-m4 has"):
        replace(COST, shared={"cortex-m4": {"tap": 1.0}})


def test_counts_from_parameters_and_earlier_counts():
    assert COST.counted(FIELDS) == {"call": 1, "row": 5, "mac": 60}


@pytest.mark.parametrize(
    ("on", "counts", "message"),
    [
        ({}, {}, "needs the figures of a core, not factors"),
        ({"cortex-m3": {"factor": 2.0}}, {}, "needs the figures of a core"),
        ({"cortex-m3": {"mac": 2.0}}, {"row": "rows"}, r"has no \['mac'\], which cortex-m3 has"),
        ({"cortex-m3": {"row": 0}}, {"row": "rows"}, r"\['row'\] take nothing on cortex-m3"),
        ({"cortex-m3": {"row": 1}}, {"row": "abs(rows)"}, r"a cost cannot have abs\(rows\)"),
    ],
)
def test_costs_of_another_form_are_refused(on: Any, counts: Any, message: str):
    with pytest.raises(ValueError, match=message):
        Cost(on, counts)


@pytest.mark.parametrize(
    ("stated", "table", "message"),
    [
        ("", "", "kernel k of k.h has a cost in no table costs/CORE.toml"),
        ('cost = "rows"', "k = {call = 1}", r"kernel k of k.h: \[cost\] has formulas alone"),
        ("[cost]\nrow = 1", "k = {call = 1}", r"kernel k of k.h: \[cost\] has formulas alone"),
        # As headers of the release before had it.
        ('[cost.counts]\nrow = "rows"', "k = {call = 1}", r"\[cost.counts\] is \[cost\]"),
        ("[cost.on.cortex-m3]\nrow = 1", "", r"once \[cost.on.CORE\], are in costs/CORE.toml"),
        ("", "k = {row = 1}", r"kernel k: \[cost\] has no \['row'\], which cortex-m3 has"),
    ],
)
def test_a_kernel_without_a_cost_is_refused(tmp_path: Path, stated: str, table: str, message: str):
    header = (
        '/*@kernel\nname = "k"\nrequires = []\ninputs = []\noutputs = []\nscratch = "0"\n'
        f'order = "none"\n{stated}\n@*/'
    )
    (tmp_path / "cortex-m3.toml").write_text(table)
    with pytest.raises(ValueError, match=message):
        list(described_kernels({"k.h": header}, read_costs(tmp_path)))


@pytest.fixture
def forgetting() -> Iterator[None]:
    """Kernels are described again afterwards."""
    yield
    described._forget()


def shipped_without(monkeypatch: pytest.MonkeyPatch, costs: described.Costs) -> None:
    monkeypatch.setattr(described, "shipped_costs", lambda: costs)
    described._forget()


@pytest.mark.usefixtures("forgetting")
def test_a_kernel_without_a_cost_is_named(monkeypatch: pytest.MonkeyPatch):
    costs = {name: rows for name, rows in shipped_costs().items() if name != "hil_generic_lut_s8"}
    shipped_without(monkeypatch, costs)
    with pytest.raises(
        InputError, match=r"hil_generic_lut_s8 of hil/.*/unary\.h .* no table"
    ) as refusal:
        kernels()
    hint = refusal.value.hint
    assert "`hil_generic_lut_s8 = {call = 1, element = 1}`" in hint
    assert "measure.py costs fit hil_generic_lut_s8" in hint
    assert "hilc/target/costs/CORE.toml" in refusal.value.fact


@pytest.mark.usefixtures("forgetting")
def test_a_wrong_table_of_shipped_kernels_is_refused(monkeypatch: pytest.MonkeyPatch):
    wrong = {BASE_CORE: TableRow({"no_such_term": 1.0})}
    shipped_without(monkeypatch, {**shipped_costs(), "hil_generic_lut_s8": wrong})
    with pytest.raises(InputError, match=r"kernel hil_generic_lut_s8: .*no_such_term") as refusal:
        kernels()
    assert "hilc/target/costs/CORE.toml" in refusal.value.hint


def test_an_unreadable_table_of_the_run_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "cortex-m3.toml").write_text("k = {")
    monkeypatch.setattr(cost_tables, "FOLDER", tmp_path)
    with pytest.raises(InputError, match=r"hilc/target/costs: cortex-m3\.toml: "):
        shipped_costs.__wrapped__()
    with pytest.raises(InputError, match="hil_no_such_code has a cost in no table"):
        cost_tables.shipped_figures("hil_no_such_code")


def test_a_formula_that_names_no_field_is_refused():
    kernel = Kernel(
        "k",
        "k.h",
        frozenset(),
        (),
        (),
        "rows * widht",
        Cost({BASE_CORE: {"row": 1}}, {"row": "rws"}),
    )
    with pytest.raises(InputError, match=r"kernel k \(k\.h\): 'rows \* widht' names 'widht'"):
        kernel.scratch_bytes(FIELDS)
    with pytest.raises(InputError, match=r"\[cost\] of kernel k \(k\.h\): .* rws"):
        kernel.instructions(FIELDS, get_cpu("cortex-m3"))


@pytest.mark.parametrize(
    ("core", "text", "message"),
    [
        ("cortex-m99", "", "cortex-m99.toml has the name of no core"),
        ("cortex-m3", "k = {", "cortex-m3.toml: "),
        ("cortex-m3", "k = 3", "k in cortex-m3.toml is not a table of figures"),
        ("cortex-m3", 'k = {row = "1"}', "k in cortex-m3.toml: row must be numbers"),
        ("cortex-m3", "k = {row = true}", "k in cortex-m3.toml: row must be numbers"),
        ("cortex-m3", "k = {shared = 1.5}", "k in cortex-m3.toml: shared is not a table"),
        ("cortex-m3", "k = {shared = {row = true}}", "k in cortex-m3.toml: row must be numbers"),
        ("cortex-m3", "k = {error = {layers = 3}}", "an error has layers, median and worst"),
    ],
)
def test_tables_of_another_form_are_refused(tmp_path: Path, core: str, text: str, message: str):
    (tmp_path / f"{core}.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_costs(tmp_path)


def test_tables_are_written_as_they_are_read(tmp_path: Path):
    write_costs(tmp_path, shipped_costs())
    assert read_costs(tmp_path) == shipped_costs()
    for path in FOLDER.iterdir():
        assert (tmp_path / path.name).read_text() == path.read_text()


def test_tables_have_the_kernels_that_headers_describe():
    # hil/decode.h is no kernel of a layer.
    assert shipped_costs().keys() == kernels().keys() | {"hil_decode"}
    for kernel, rows in shipped_costs().items():
        factors = [core for core, row in rows.items() if cost.FACTOR in row.figures]
        assert not factors or next(iter(rows)) == BASE_CORE, kernel


def test_variable_numbers_are_fields():
    structs = shipped_structs()
    found = {name: kernel.variable for name, kernel in kernels().items() if kernel.variable}
    assert found
    for name, variable in found.items():
        assert variable <= set(structs.names(structs.structs[name])), name


def test_heads_state_code_and_shared_functions():
    """Those of a function that several kernels share are the same in each of them."""
    headers = shipped_headers()
    blocks = [found for text in headers.values() for found in _HEADS.findall(text)]
    assert len(blocks) == len(kernels())
    heads = {entry["name"]: entry for entry in map(tomllib.loads, blocks)}
    assert not [name for name, entry in heads.items() if entry.get("code", 0) <= 0]
    sizes: dict[str, set[int]] = {}
    for entry in heads.values():
        for function, size in entry.get("shared", {}).items():
            sizes.setdefault(function, set()).add(size)
        assert entry["code"] > sum(entry.get("shared", {}).values()), entry["name"]
    assert not {function: found for function, found in sizes.items() if len(found) > 1}
    # One name stands for the forms of a function, `hil_mve_rows_s8` also for `_once`.
    sources = "".join(_HEADS.sub("", text) for text in headers.values())
    assert not [name for name in sizes if not re.search(rf"\b{name}", sources)]


def test_every_kernel_names_the_core_of_its_figures():
    """Those that need a feature on a core that has it, the others on Armv7-M first."""
    for kernel in kernels().values():
        cores = [get_cpu(core) for core in kernel.cost.on]
        assert all(kernel.requires <= core.features for core in cores), kernel.name
        if kernel.requires <= {"mul32"}:
            assert cores[0].name == "cortex-m3", kernel.name


@cases("cpu", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imac"], first=1)
def test_every_formula_evaluates_for_every_layer(cpu: str):
    rng = np.random.default_rng(3)
    core = get_cpu(cpu)
    for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
        for _ in range(20):
            layer = random_layer(rng, op, "int8", explicit_padding=True)
            for call in candidates(layer.node, layer.ins, (layer.out,), core):
                assert isinstance(call, KernelCall)
                assert call.instructions(core) >= CALL_INSTRUCTIONS


def test_which_layers_share_a_body():
    variable = frozenset({"zero_point"})
    kernel = Kernel("k", "k.h", frozenset(), (), (), "0", COST, variable=variable)
    calls = [
        loose_call(kernel, {"rows": rows, "zero_point": zero_point, "weights": np.full(3, seed)})
        for rows, zero_point, seed in ((1, 1, 1), (1, 2, 2), (2, 1, 1))
    ]
    for goal, shared in (("balanced", (True, False)), ("size", (True, True))):
        first, second, third = (body_key(call, goal, get_cpu("cortex-m4")) for call in calls)
        assert first is not None
        assert (first == second, first == third) == shared


@pytest.mark.parametrize(
    ("op", "kernel"),
    [
        ("ADD", "hil_mve_sum_s8_scaled"),
        ("MUL", "hil_mve_mul_s8"),
        ("SQUARED_DIFFERENCE", "hil_mve_squared_difference_s8"),
        ("FULLY_CONNECTED", "hil_mve_matvec_s8"),
        ("FULLY_CONNECTED", "hil_mve_matvec_s8_two_passes"),
    ],
)
def test_vectors_of_any_scale_share_a_body(op: str, kernel: str):
    b = GraphBuilder()
    x = made = b.input(1, 64)
    b.tensors[x] = replace(b.tensors[x], quant=Quant((0.05,), (3,)))
    weights = b.weights((64, 64), axis=None)
    attributes: dict[str, Any] = {} if op == "SQUARED_DIFFERENCE" else {"activation": "NONE"}
    for zero_point in (-9, 0, 9):
        made = b.op(op, made, weights if op == "FULLY_CONNECTED" else x, **attributes)
        quant = Quant((0.05 + 0.0001 * zero_point,), (zero_point,))
        b.tensors[made] = replace(b.tensors[made], quant=quant)
    graph = b.graph(made)
    found = [candidates(n, graph.ins(n), graph.outs(n), get_cpu("cortex-m55")) for n in graph.nodes]
    calls = [c for each in found for c in each if c.variant == kernels()[kernel].variant]
    assert len(calls) == 3
    cpu = get_cpu("cortex-m55")
    keys = {body_key(call, "balanced", cpu) for call in calls if isinstance(call, KernelCall)}
    assert len(keys) == 1
