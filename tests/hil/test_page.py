"""The page of results: what stands in it, that it is well formed, and that nothing in it runs."""

from __future__ import annotations

import contextlib
import copy
import html
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases
from small_models import SMALL_MODELS

import hil
import hilc
from hil.cli import main
from hil.page import page as page_module
from hil.page.charts import PALETTE
from hil.page.page import Page, is_unchanged, make_page
from hil.page.plan_json import plan_json
from hil.page.plan_picture import KINDS
from hil.page.results import Result, merged, read_results, results_in
from hilc.errors import InputError

#: Elements without an end tag.
VOID = {"meta", "link", "br"}
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>"
HOSTILE += "\" onclick='alert(1)' {{ 7*7 }} $\\x$"
Json = dict[str, Any]


def result(board: str = "mps2-an386", **changes: Any) -> Json:
    """One result as `hil report` stores it, with every part but those that are drawn."""
    layers = ["conv/Relu;conv/BiasAdd", "Identity"]
    outputs = {"name": "Identity", "shape": [1, 10], "dtype": "int8"}
    equal: Json = {**outputs, "mismatches": 0, "max_abs_diff": 0}
    provenance = {
        "commit": "0123abc",
        "dirty": True,
        "model": {"sha256": "5f" * 32},
        "image": {"sha256": "a1" * 32, "build_id": "b2" * 16},
        "inputs": {"sha256": "c3" * 32, "samples": 10},
        "runner": "qemu",
        "options": {},
        "c_flags": ["-O2", "-mcpu=cortex-m4"],
        "versions": {"hil": "1.0", "compiler": "arm-none-eabi-gcc 12.2", "qemu": "QEMU 7.2"},
        "command": "hil verify m.tflite",
    }
    verify = {
        "model": "m",
        "board": board,
        "samples": 10,
        "reference": "tflm",
        "reference_description": "tflm: tflite-micro 0.1",
        "match": True,
        "outputs": [{**equal}],
        "layers": [
            {"index": i, "name": name, "op": "CONV_2D", "match": True, "outputs": [{**equal}]}
            for i, name in enumerate(layers)
        ],
        "seconds": 1.5,
        "provenance": provenance,
    }
    bench = {
        "model": "m",
        "board": board,
        "counter": "instructions",
        "per_inference": 1234567,
        "counts": [1234567, 1234569],
        "latency_us": None,
        "model_flash_bytes": 36636,
        "firmware_flash_bytes": 42584,
        "workspace_bytes": 8384,
        "io_bytes": 502,
        "io_in_workspace": True,
        "ram_bytes": 25104,
        "stack_peak_bytes": 316,
        "layers": [
            {"name": name, "op": "CONV_2D", "macs": 1000 * i, "count": 500_000 + i}
            for i, name in enumerate(layers)
        ],
    }
    about = {"file": "m.tflite", "bytes": 4711, "arithmetic": "tflm", "rounding": "once"}
    about |= {"inputs": "random, seed 0", "board": "a board", "cpu": "cortex-m4"}
    return {
        "model": "m",
        "board": board,
        "verify": verify,
        "bench": bench,
        "about": about,
        "log": ["built", "started"],
        "command": "hil report m.tflite --board mps2-an386 -o page.html",
        **changes,
    }


PLAN = plan_json(
    hilc.explain(
        SMALL_MODELS["convolutions"](),
        cpu="cortex-m4",
        name="m",
        pools="external",
        io_in_pool=True,
    )
)
SECTIONS = [
    {"name": "code", "in_flash": True, "in_ram": False, "parts": {"m": 5000, "firmware": 700}},
    {"name": "data", "in_flash": False, "in_ram": True, "parts": {"firmware": 90}},
]
BUILD = {
    "build_id": "b2" * 16,
    "flash_bytes": 5700,
    "ram_bytes": 90,
    "regions": [{"name": "flash", "used_bytes": 5700, "bytes": 65536}],
    "sections": SECTIONS,
    "models": [{"model": "m"}],
}
#: The parts that are drawn, which takes the longest.
DRAWN: Json = {"plan": PLAN, "build": BUILD}


def different() -> Json:
    """A result whose second layer differs."""
    changed = copy.deepcopy(result("mps3-an547"))
    first = {"sample": 3, "position": [0, 7], "expected": 5, "got": 6}
    errors = [{"low": 0, "high": 0, "count": 80}, {"low": 1, "high": 1, "count": 20}]
    tensor = changed["verify"]["outputs"][0]
    tensor |= {"mismatches": 20, "max_abs_diff": 1, "errors": errors}
    changed["verify"] |= {"match": False, "first_difference": {"tensor": "Identity", **first}}
    changed["verify"]["layers"][1] |= {"match": False, "outputs": [tensor]}
    changed["verify"]["first_different_layer"] = {
        "index": 1, "name": "Identity", "op": "CONV_2D", "tensor": "Identity", **first,
    }  # fmt: skip
    return changed


FAILED = {
    "model": "m",
    "board": "microbit",
    "error": {"message": "it does not fit", "hint": "a larger one", "class": "x", "exit_code": 3},
}


def page_of(*results: Json, **options: Any) -> Page:
    return make_page(results_in({"report": 1, "results": [*results]}, "the results"), **options)


@dataclass
class Document(HTMLParser):
    """The elements of a page, in their order, and their texts."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    text: str = ""
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, *tags: str) -> Iterator[dict[str, str]]:
        return (attributes for tag, attributes in self.elements if tag in tags)

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Elements outside of charts, with the names of their attributes."""
        return [(tag, tuple(sorted(attributes))) for tag, attributes in self.elements]


def parsed(page: Page) -> Document:
    document = Document()
    document.feed(page.html)
    document.close()
    assert not document.open
    return document


def score(value: float | None, low: float | None = None, high: float | None = None) -> Json:
    return {"value": value, "low": low, "high": high, "interval": "Wilson"}


EVALUATED: Json = {
    "model": "m",
    "board": "mps2-an386",
    "samples": 40,
    "metrics": [
        {
            "name": "accuracy",
            "device": score(0.9, 0.7695, 0.9604),
            "reference": score(0.925, 0.8014, 0.9742),
            "min": 0.85,
            "max": None,
            "met": True,
        },
        {"name": "auc", "device": score(None), "reference": score(0.5), "met": True},
    ],
    "met": True,
    "reference": "tflm",
    "mismatches": 0,
    "classes": ["yes", "no"],
    "confusion": [[17, 3], [1, 19]],
}
HISTORY = [
    {"time": f"2026-11-2{day}T10:00:00.000", "counter": "instructions", "per_inference": count}
    for day, count in ((1, 100_000), (2, 103_000), (3, 103_000))
]


@pytest.fixture(scope="module")
def whole() -> Document:
    """A page with every kind of result."""
    first = result(evaluate=EVALUATED, history=HISTORY, **DRAWN)
    measured = result("mps2-an500", verify=None)
    return parsed(page_of(first, different(), FAILED, measured, command="hil report"))


# -- structure ---------------------------------------------------------------------------------


def test_headings_are_in_order(whole: Document) -> None:
    levels = [int(tag[1]) for tag, _ in whole.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_landmarks_are_there_once(whole: Document) -> None:
    tags = Counter(tag for tag, _ in whole.elements)
    assert all(tags[tag] == 1 for tag in ("header", "nav", "main", "footer"))
    assert next(whole.named("html"))["lang"] == "en"


def test_ids_are_unique_and_references_lead_to_them(whole: Document) -> None:
    ids = [attributes["id"] for _, attributes in whole.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = {link["href"][1:] for link in whole.named("a")}
    for _, attributes in whole.elements:
        wanted.update(attributes.get("aria-labelledby", "").split())
        wanted.update(re.findall(r"url\(#([^)]+)\)", " ".join(attributes.values())))
        if "xlink:href" in attributes:
            wanted.add(attributes["xlink:href"][1:])
    assert wanted <= set(ids)
    assert {"summary", "reproduce", "main"} <= wanted


def test_every_table_says_what_it_is(whole: Document) -> None:
    tables = sum(1 for _ in whole.named("table"))
    assert tables > 10
    assert sum(1 for _ in whole.named("caption")) == tables
    assert all(head["scope"] in ("col", "row") for head in whole.named("th"))


def test_every_chart_has_a_text_in_its_place(whole: Document) -> None:
    charts = list(whole.named("svg"))
    # The plan once; a treemap, a histogram and a history for a screen and a telephone.
    assert len(charts) == 1 + 2 * 3
    titles = {a["id"] for a in whole.named("title", "desc") if "id" in a}
    for chart in charts:
        assert chart["role"] == "img"
        assert set(chart["aria-labelledby"].split()) <= titles


def test_what_scrolls_is_reached_by_the_keyboard(whole: Document) -> None:
    scrolled = [a for _, a in whole.elements if a.get("class") == "scroll"]
    assert scrolled
    for attributes in scrolled:
        assert attributes["tabindex"] == "0"
        assert attributes["aria-label"]
    labels = [attributes["aria-label"] for attributes in scrolled]
    assert len(labels) == len(set(labels))


def test_the_page_loads_nothing(whole: Document) -> None:
    for tag, attributes in whole.elements:
        assert tag not in ("script", "iframe", "object", "embed", "img", "base", "form")
        assert not {"src", "srcset", "action", "style-src"} & attributes.keys()
        href = attributes.get("href", attributes.get("xlink:href", "#"))
        assert href.startswith("#") or (tag, href) == ("link", "data:,")
        assert "url(" not in attributes.get("style", "").replace("url(#", "")
    policies = [a["content"] for a in whole.named("meta") if "http-equiv" in a]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "script-src" not in policies[0]


# -- content -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Of 4 results, 1 failed, 1 different from the reference, 1 measured without a reference",
        "1,234,567",
        "Instructions are counted by an emulator; they are not cycles.",
        "The first layer that differs is 1 CONV_2D: element [0, 7] of Identity in sample 3",
        "it does not fit",
        "median of 2 runs, 1,234,567 to 1,234,569",
        "5f" * 32,
        "a1" * 32,
        "c3" * 32,
        "-O2 -mcpu=cortex-m4",
        "arm-none-eabi-gcc 12.2",
        "QEMU 7.2",
        "0123abc, with changes",
        "m: 5,000 bytes, 87.7%",
        "tflm: tflite-micro 0.1",
        "hil report m.tflite --board mps2-an386 -o page.html",
        "On each of 40 samples the outputs equal those of tflm.",
        "0.9000",
        "0.7695 to 0.9604",
        "at least 0.85: met",
        "3 recorded runs as a table",
        "+3.00%",
        "unchanged",
    ],
)
def test_it_says(whole: Document, text: str) -> None:
    assert text in " ".join(whole.text.split())


def test_a_confusion_matrix_names_rows_and_columns(whole: Document) -> None:
    cells = [a for a in whole.named("td") if a.get("class", "").startswith("shaded")]
    assert [cell["style"] for cell in cells] == [
        "--share: 0.850", "--share: 0.150", "--share: 0.050", "--share: 0.950",
    ]  # fmt: skip
    assert ["right" in cell["class"] for cell in cells] == [True, False, False, True]


def test_of_many_classes_the_confusions_are_listed() -> None:
    names = [f"c{i}" for i in range(100)]
    rows = [[10 * (row == column) for column in range(100)] for row in range(100)]
    rows[3][7] = 4
    plain = result(verify=None)
    many = {**EVALUATED, "samples": 1004, "classes": names, "confusion": rows}
    page = page_of({**plain, "evaluate": many})
    assert "The most frequent confusions of 100 classes" in page.html
    assert '<th scope="row">c3</th><td>c7</td><td class="number">4</td>' in page.html


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "The result equals its reference"),
        ({"mismatches": 2}, "Of 1 result, 1 different from the reference"),
        (
            {"met": False, "metrics": [{**EVALUATED["metrics"][0], "min": 0.95, "met": False}]},
            "Of 1 result, 1 missed a limit",
        ),
    ],
)
def test_verdict_of_an_evaluation(changes: Json, verdict: str) -> None:
    page = make_page(results_in({**EVALUATED, **changes}, "it"))
    assert page.verdict == verdict


def test_history_comes_from_its_command() -> None:
    bench = result()["bench"]
    entries = [
        {"id": i, "kind": kind, "model": "m", "board": "b", "commit": "abc", "time": "2026-11-23T1",
         "result": bench}
        for i, kind in enumerate(("bench", "verify", "bench"))
    ]  # fmt: skip
    (found,) = results_in({"history": "h.db", "entries": entries}, "it")
    assert found.history is not None
    assert [run.per_inference for run in found.history] == [1234567, 1234567]


def test_energy_and_an_estimate_are_told() -> None:
    measured = result()
    energy = {"source": "power.csv", "inferences": 20, "per_inference_uj": 123.456}
    measured["bench"] |= {
        "energy": {**energy, "min_uj": 120.0, "max_uj": 130.0, "mean_power_mw": 41.5},
        "estimate": {
            "mix": {},
            "cycles": {"from": 2_000_000, "to": 2_500_000},
            "core": "Cortex-M3",
            "source": "its manual",
            "assumes": "memory without wait states",
            "chip": {
                "cycles": {"from": 3_000_000, "to": 3_500_000},
                "expected": {"from": 2_700_000, "to": 3_920_000},
                "flash_reads": {"fetches": 1, "data": 2},
                "chip": "a chip",
                "flash_waits": 5,
                "source": "a publication",
            },
        },
    }
    text = parsed(page_of(measured)).text
    assert "Energy: 123.5 \N{MICRO SIGN}J for each inference, median of 20 (120 to 130)" in text
    assert "recorded by power.csv" in text
    estimate = "Estimate for a Cortex-M3: 2,000,000 to 2,500,000 cycles, by its manual, with memory"
    assert estimate in text
    assert "For a chip, its flash included: 3,000,000 to 3,500,000 cycles; expect 2,700,000" in text


def test_limits_have_a_column() -> None:
    layers = [{"instructions": 100_000 * (i + 1), "ratio": 5.376 - i} for i in range(2)]
    given = {"instructions": 300_000, "ratio": 4.123, "layers": layers}
    measured = result()
    measured["bench"]["limit"] = given
    text = parsed(page_of(measured)).text
    assert "4.12 times the core's limit" in text
    assert "Times limit" in text
    assert "4.38" in text
    assert "Times limit" not in parsed(page_of(result())).text
    measured["bench"]["limit"] = "none"
    with pytest.raises(InputError, match='limit is "none"; expected is an object with the keys'):
        page_of(measured)


def test_cycles_have_a_latency() -> None:
    cycles = result()
    cycles["bench"] |= {"counter": "cycles", "latency_us": 15432.1}
    text = parsed(page_of(cycles)).text
    assert "cycles, 15.4 ms" in text
    assert "Instructions are counted" not in text


@pytest.mark.parametrize(
    ("results", "verdict", "match"),
    [
        ([result()], "The result equals its reference", True),
        ([result(), result("other")], "All 2 results equal their references", True),
        (
            [result(), different()],
            "Of 2 results, 1 different from the reference, 1 equal to the reference",
            False,
        ),
        ([FAILED], "Of 1 result, 1 failed", False),
        ([result(verify=None)], "Of 1 result, 1 measured without a reference", False),
    ],
)
def test_verdict(results: Sequence[Json], verdict: str, match: bool) -> None:
    page = page_of(*results)
    assert page.verdict == verdict
    assert page.match is match
    assert f"<title>{verdict} - " in page.html


def test_the_same_results_give_the_same_page() -> None:
    first, second = (page_of(result(**DRAWN), made="today") for _ in range(2))
    assert first.html == second.html


# -- what is not trusted -----------------------------------------------------------------------


def with_texts(value: Any, text: str, key: str = "") -> Any:
    """The JSON with ``text`` for every string that is not one of a fixed choice."""
    if isinstance(value, dict):
        changed = {k: with_texts(v, text, k) for k, v in value.items()}
        if key in ("parts", "versions"):
            return {f"{text} {k}": v for k, v in changed.items()}
        return changed
    if isinstance(value, list):
        return [with_texts(v, f"{text} {i}" if key in ("names", "kept") else text, key)
                for i, v in enumerate(value)]  # fmt: skip
    fixed = ("what", "counter", "dtype", "role")
    return text if isinstance(value, str) and key not in fixed else value


def test_names_cannot_become_elements() -> None:
    """Whatever every text of a result is, the page has the same elements and attributes."""
    shapes = []
    for text in ("harmless", HOSTILE):
        evaluated = {**different(), **DRAWN, "evaluate": EVALUATED, "history": HISTORY}
        results = [with_texts(one, text) for one in (evaluated, FAILED)]
        for number, one in enumerate(results):
            one["board"] += str(number)
            if "plan" in one:
                for layer in one["plan"]["layers"]:
                    layer["kept"] = []
        document = parsed(page_of(*results, title=text, command=text, made=text))
        assert text in document.text
        outside = [e for e in document.shape if e[0] not in SVG]
        shapes.append(outside)
        assert not any(
            name.startswith("on") for _, attributes in document.elements for name in attributes
        )
        assert "script" not in {tag for tag, _ in document.elements}
    assert shapes[0] == shapes[1]


#: Elements of charts: longer labels have no room, and are left out.
SVG = {"g", "path", "text", "use", "rect", "defs", "clippath", "style", "tspan"}


def test_charts_have_numbers_where_formulas_are_off() -> None:
    """A histogram with a logarithmic axis: matplotlib's own labels there are formulas."""
    wide = different()
    wide["verify"]["outputs"][0]["errors"][0]["count"] = 100_000
    document = parsed(page_of(wide))
    assert "mathdefault" not in document.text
    assert "10,000" in document.text


def test_control_characters_are_shown_not_obeyed() -> None:
    text = page_of(result(log=["\x1b[31mred\x1b[0m \u202egnp.exe \x00"])).html
    assert "red \\u202egnp.exe \\x00" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)


def paths(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: its container, and its key there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, dict | list):
            yield from paths(inner)


def test_spoiled_results_are_refused_or_shown() -> None:
    chosen = random.Random(1)
    spoils: list[Any] = [None, -1, 1 << 80, 1e300, float("nan"), "", "\ud800", [], {}, True, [[]]]
    refused = 0
    for number in range(150):
        whole = {**different(), **DRAWN, "evaluate": EVALUATED, "history": HISTORY}
        data = copy.deepcopy({"report": 1, "results": [whole]})
        container, key = chosen.choice(list(paths(data)))
        container[key] = chosen.choice(spoils)
        results: list[Result] = []
        with contextlib.suppress(InputError):
            results = merged(results_in(data, "the file"))
        refused += not results
        if results and number % 50 == 0:
            parsed(make_page(results))
    assert 30 < refused < 150


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "is of type list, not an object"),
        ("{}", "is no result that a page can show"),
        ('{"results": []}', "holds no result"),
        ("[" * 100_000, "is not JSON"),
        ('{"results": ' + "[" * 60 + "]" * 60 + "}", "holds nesting"),
        ('{"model": "m", "board": "b", "per_inference": "1"}', "lacks the key 'counter'"),
        ('{"model": "m", "tenants": []}', "lacks the key"),
    ],
)
def test_files_without_results_are_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(told)):
        read_results(path)


#: Places of a whole result, what no measurement gives there, and what is told of it.
IMPOSSIBLE: list[tuple[tuple[Any, ...], Any, str]] = [
    (("bench", "per_inference"), -1, "bench: per_inference is -1, which no result has"),
    (("bench", "counts"), [5, -5], "counts[1] is -5"),
    (("bench", "ram_bytes"), -1, "ram_bytes is -1"),
    (("bench", "stack_peak_bytes"), -1, "stack_peak_bytes is -1"),
    (("bench", "layers", 0, "count"), -3, "layers[0]: count is -3"),
    (("bench", "layers", 1, "macs"), -1, "layers[1]: macs is -1"),
    (("bench", "clock_hz"), 0, "clock_hz is 0"),
    (("bench", "latency_us"), -0.5, "latency_us is -0.5"),
    (("bench", "limit"), {"instructions": -1, "ratio": 1.0, "layers": []}, "instructions is -1"),
    (("bench", "estimate"), {"cycles": {"low": -1, "high": 2}}, "cycles['low'] is -1"),
    (
        ("bench", "energy"),
        {"per_inference_uj": 2.0, "inferences": 3, "min_uj": 2.5},
        "per_inference_uj is not from min_uj to max_uj",
    ),
    (("verify", "samples"), 0, "samples is 0"),
    (("verify", "seconds"), -1.0, "seconds is -1.0"),
    (("verify", "match"), False, "match is false, and the tensors say otherwise"),
    (("verify", "outputs", 0, "mismatches"), 1, "match is true, and the tensors say otherwise"),
    (("verify", "layers", 0, "outputs", 0, "mismatches"), 1, "matches, with mismatches"),
    (("verify", "outputs", 0, "shape", 1), -10, "shape[1] is -10"),
    (("verify", "provenance", "inputs", "samples"), -1, "samples is -1"),
    (("build", "flash_bytes"), -1, "flash_bytes is -1"),
    (("build", "regions", 0, "used_bytes"), -1, "used_bytes is -1"),
    (("build", "sections", 0, "parts", "m"), -1, "parts['m'] is -1"),
    (("evaluate", "mismatches"), 41, "41 of 40 samples differ"),
    (("evaluate", "confusion", 0, 0), -17, "confusion[0][0] is -17"),
    (("evaluate", "confusion", 0, 0), 18, "is of 41 samples, and there are 40"),
    (("evaluate", "met"), False, "met is false, and the metrics say otherwise"),
    (("evaluate", "metrics", 0, "min"), 0.91, "met is true, and the value and its limits say"),
    (("evaluate", "metrics", 0, "max"), 0.89, "met is true, and the value and its limits say"),
    (("evaluate", "metrics", 0, "met"), False, "met is false, and the value and its limits say"),
    (("evaluate", "metrics", 1, "min"), 0.5, "met is true, and the value and its limits say"),
    (("evaluate", "metrics"), [], "it has no metric"),
    (("verify", "outputs"), [], "no element of an output was compared"),
    (("verify", "outputs", 0, "shape"), [0], "no element of an output was compared"),
    (("verify", "layers", 0, "match"), False, "differs, without mismatches"),
    (("evaluate", "metrics", 0, "device", "low"), 0.95, "does not hold its value"),
    (("history", 0, "per_inference"), -1, "per_inference is -1"),
    (("about", "bytes"), -1, "bytes is -1"),
    (("plan", "layers", 0, "macs"), -1, "macs is -1"),
    (("plan", "workspace_bytes"), -1, "workspace_bytes is -1"),
    (("plan", "peak_layer"), 99, "is no memory plan"),
]


@pytest.mark.parametrize(("place", "value", "told"), IMPOSSIBLE, ids=lambda v: str(v)[:40])
def test_impossible_figures_are_refused(place: tuple[Any, ...], value: Any, told: str) -> None:
    whole = {**result(), **DRAWN, "evaluate": EVALUATED, "history": HISTORY}
    data: Json = copy.deepcopy({"report": 1, "results": [whole]})
    results_in(data, "the file")
    container: Any = data["results"][0]
    for key in place[:-1]:
        container = container[key]
    container[place[-1]] = value
    with pytest.raises(InputError) as caught:
        results_in(data, "the file")
    assert told in caught.value.fact
    assert caught.value.hint


def test_more_mismatches_than_elements_are_refused() -> None:
    data = different()
    data["verify"]["outputs"][0]["mismatches"] = 101
    with pytest.raises(InputError, match="has 101 mismatches of 100 elements"):
        page_of(data)


# -- what the commands write -------------------------------------------------------------------


def test_results_of_several_commands_come_together() -> None:
    stored = result()
    several = [
        {
            "boards": [
                {**stored["verify"], "exit_code": 0},
                {"board": "x", "error": FAILED["error"]},
            ]
        },
        {"models": [stored["bench"], {**stored["bench"], "model": "n"}]},
        {"board": "mps2-an386", **BUILD},
        PLAN,
    ]
    found = merged(one for data in several for one in results_in(data, "it"))
    assert [(one.model, one.board) for one in found] == [
        ("m", "mps2-an386"), ("", "x"), ("n", "mps2-an386"),
    ]  # fmt: skip
    whole = found[0]
    assert whole.verified
    assert whole.benched
    assert whole.built
    assert whole.plan
    assert found[1].status == "failed"
    # The board of the other plan has another core.
    other = [*results_in({**stored["bench"], "board": "mps3-an547"}, "it"), *results_in(PLAN, "it")]
    assert merged(other)[0].plan is None


def fidelity() -> Json:
    """What `hil verify --metrics --float-model` adds to its object."""
    figures: Json = {"rmse": 0.0123, "mae": 0.01, "max_abs_diff": 0.5, "l2r": 0.125, "nse": 0.9375}
    figures |= {"cos": 0.875, "snr_db": 31.52, "top1": 0.75, "top5": None}
    tensor = {"name": "logits;x", "layer": None, "elements": 10, **figures}
    outputs, layers = [tensor], [{**tensor, "name": HOSTILE, "layer": 1}]
    return {"against": "net_f32.tflite", "outputs": outputs, "layers": layers}


def test_a_comparison_with_floats_is_shown() -> None:
    """Of results of verify by themselves, which an evaluation's metrics must not be taken for."""
    verify = {**result()["verify"], "metrics": [fidelity()]}
    (alone,) = results_in(verify, "it")
    assert alone.status == "match"
    for results in ([alone], results_in(result(verify=verify), "it")):
        document = parsed(make_page(results))
        text = " ".join(document.text.split())
        assert "Compared with net_f32.tflite, in real numbers" in text
        figures = ["0.0123", "0.01", "0.5", "0.125", "0.9375", "0.875", "31.52", "0.75", "–"]
        assert f"outputlogits{''.join(figures)}" in text
        assert "Tensors of layers: 1" in text
    with pytest.raises(InputError, match="it: metrics"):
        results_in({**verify, "metrics": [{"against": 5}]}, "it")


def test_a_matrix_has_a_result_for_each_goal() -> None:
    bench = {**result()["bench"], "board": "a"}
    data: Json = {
        "boards": [
            {"board": "a", "exit_code": 0, "optimize": "speed", **bench},
            {"board": "a", "exit_code": 0, "optimize": "ram", "models": [bench]},
            {"board": "b", "optimize": "ram", "source": "x/m.tflite", "skipped": "too large"},
            {"board": "b", "optimize": "speed", "source": "n=m.tflite", "error": FAILED["error"]},
        ],
        "exit_code": 3,
    }
    found = merged(results_in(data, "it"))
    assert [(one.model, one.board, one.goal, one.status) for one in found] == [
        ("m", "a", "speed", "measured"),
        ("m", "a", "ram", "measured"),
        ("m", "b", "ram", "skipped"),
        ("n", "b", "speed", "failed"),
    ]
    text = " ".join(parsed(make_page(found)).text.split())
    assert "m on a, goal speed" in text
    assert "Skipped: too large" in text
    assert "Of 4 results, 1 failed, 2 measured without a reference, 1 skipped" in text


def test_a_plan_alone_names_no_board() -> None:
    with pytest.raises(InputError, match="name no board"):
        merged(results_in(PLAN, "it"))


def test_report_from_python(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    page = hil.report(result()["verify"], result()["bench"], output=path, title="Mine")
    assert page.title == "Mine"
    assert "1,234,567" in page.html
    assert is_unchanged(path)
    with pytest.raises(InputError, match="argument 0 of type int is no result"):
        hil.report(3)
    with pytest.raises(InputError, match="nothing to report"):
        hil.report()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored, path = tmp_path / "results.json", tmp_path / "page.html"
    stored.write_text(json.dumps({"report": 1, "results": [result()]}))
    words = ["report", "--from", str(stored), "-o", str(path)]
    assert main(words) == 0
    assert "The result equals its reference" in capsys.readouterr().out
    assert main(words) == 0, "its own page is replaced"
    stored.write_text(json.dumps({"report": 1, "results": [different()]}))
    capsys.readouterr()
    assert main([*words, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["exit_code"], [one["status"] for one in told["results"]]) == (1, ["differ"])
    path.write_text(path.read_text() + "edited")
    assert main(words) == 2
    assert "exists and is not a page of results" in capsys.readouterr().err
    assert main([*words, "--force"]) == 1


@cases(
    ("words", "told"),
    [
        ([], "there is nothing to report"),
        (["m.tflite"], "models are given without --board"),
        (["--board", "mps2-an386"], "--board is given without a model"),
        (["--from", "missing.json"], "cannot read missing.json"),
        (["m.tflite", "--board", "microbit", "--board", "microbit"], "names 'microbit' twice"),
        (["--from", "x.json", "--results", "y.json"], "--results is given without a model"),
    ],
    first=2,
)
def test_usage(
    words: Sequence[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words, "-o", "page.html"]) == 2
    assert told in capsys.readouterr().err
    assert not Path("page.html").exists()


def test_the_extra_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hilc.support.optional.find_spec", lambda name: None)
    with pytest.raises(InputError, match="an HTML page needs the package jinja2") as raised:
        page_of(result())
    assert raised.value.hint == "install it: pip install 'hil-harness[report]'"


# -- style -------------------------------------------------------------------------------------

CSS = (Path(page_module.__file__).parent / "templates" / "page.css").read_text()


def colours(scheme: str) -> dict[str, str]:
    """Colours of a scheme, by name: the second block is the dark one's."""
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    light = dict(re.findall(r"--([\w-]+): (#\w{6});", blocks[0]))
    dark = dict(re.findall(r"--([\w-]+): (#\w{6});", blocks[1]))
    return light if scheme == "light" else {**light, **dark}


def contrast(first: str, second: str) -> float:
    """The contrast of two colours by WCAG 2.2, "relative luminance" and "contrast ratio"."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(c * weight for c, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(scheme: str) -> None:
    found = colours(scheme)
    pairs = [(ink, back) for ink in ("ink", "soft", "link") for back in ("page", "card")]
    pairs += [(mood, f"{mood}-back") for mood in ("good", "bad", "odd")] + [("good", "card")]
    assert {
        pair: contrast(found[pair[0]], found[pair[1]]) >= 4.5 for pair in pairs
    } == dict.fromkeys(pairs, True)


def over(colour: str, back: str, share: float) -> str:
    """The colour that is seen where ``colour`` of this opacity covers ``back``."""
    parts = [
        round(share * int(colour[i : i + 2], 16) + (1 - share) * int(back[i : i + 2], 16))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_in_boxes_have_enough_contrast(scheme: str) -> None:
    """Where boxes of a plan overlap, too; those of a treemap do not."""
    found = colours(scheme)
    box, part = (
        float(re.findall(rf"--{name}: ([\d.]+);", CSS)[scheme == "dark"])
        for name in ("box", "part")
    )
    for colour, _, _ in KINDS.values():
        once = over(colour, found["card"], box)
        for back in (once, over(colour, once, box)):
            assert contrast(found["ink"], back) >= 4.5, (colour, back)
    for colour in PALETTE:
        assert contrast(found["ink"], over(colour, found["card"], part)) >= 4.5, colour


def test_a_reference_that_is_not_independent() -> None:
    """The verdict, the exactness and the summary say so."""
    own = result()
    own["verify"] |= {"independent": False, "reference": "hilc"}
    said = "this compiler's own interpreter, not independent"
    page = page_of(own)
    assert page.verdict == f"The result equals its reference; the reference is {said}"
    assert f"equals the reference ({said})" in html.unescape(page.html)
    assert f"samples, hilc ({said})" in html.unescape(page.html)
    other = result("mps3-an547")
    page = page_of(own, other)
    assert page.verdict == (
        f"All 2 results equal their references; the reference of 1 result is {said}"
    )
    assert said not in page_of(other).html


def test_the_strength_of_a_match_is_shown() -> None:
    strong = result()
    strong["verify"] |= {
        "missed_fault_rate": {"rate": 0.02951, "confidence": 0.95, "samples": 100},
        "float_tolerance": 1e-5,
    }
    text = page_of(strong).html
    assert "A fault in 3 % or more of such inferences would show (95 % confidence)." in text
    assert "Floats are equal within 1e-05 of the largest of their tensor." in text


def test_what_the_tolerance_does_not_judge() -> None:
    unusual = result()
    unusual["verify"]["float_tolerance"] = 1e-5
    (output, *_) = unusual["verify"]["outputs"]
    output |= {"ill_conditioned": {"elements": 6, "max_abs_diff": 3e-7}, "nans": 1}
    text = html.unescape(page_of(unusual).html)
    assert f"6 elements of {output['name']}, whose terms cancel, differ by up to 3e-07" in text
    assert f"1 element of {output['name']}: NaN in both." in text
    output |= {"infinities": 2, "nans": 0}
    text = html.unescape(page_of(unusual).html)
    assert f"2 elements of {output['name']}: infinite in both." in text
    assert "NaN in both" not in text


def test_outputs_of_a_measurement() -> None:
    checked = {"samples": 1, "reference": "tflm", "match": False, "independent": True}
    for match, verdict in (
        (False, "Of 1 result, 1 different from the reference"),
        (True, "The result equals its reference"),
    ):
        bench = {**result()["bench"], "checked": {**checked, "match": match}}
        measured = {"model": "kws", "board": "b", "bench": bench}
        assert page_of(measured).verdict == verdict


BENCHED: Json = {
    **result()["bench"],
    "checked": {"samples": 9, "reference": "tflm", "match": True, "independent": True},
}
WRONG: Json = {**BENCHED, "checked": {**BENCHED["checked"], "match": False}}


@pytest.mark.parametrize("later", [BENCHED, result()["bench"]], ids=["right", "not compared"])
def test_a_measurement_of_wrong_outputs_stays(later: Json) -> None:
    page = make_page([*results_in(WRONG, "a"), *results_in(later, "b")])
    assert page.verdict == "Of 1 result, 1 different from the reference"
    page = make_page([*results_in(later, "a"), *results_in(WRONG, "b")])
    assert page.verdict == "Of 1 result, 1 different from the reference"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"skipped": "too large"}, "was skipped, and has a result"),
        ({"exit_code": 1}, "exit_code is 1, and the result says otherwise"),
        ({"exit_code": "1"}, "exit_code"),
    ],
)
@pytest.mark.parametrize("form", ["report", "verify", "bench", "boards"])
def test_an_end_that_contradicts_the_result(form: str, changes: Json, told: str) -> None:
    forms = {"report": result(), "verify": result()["verify"], "bench": BENCHED}
    data = {**forms.get(form, BENCHED), **changes}
    with pytest.raises(InputError) as caught:
        results_in({"boards": [data]} if form == "boards" else data, "the file")
    assert told in caught.value.fact


def test_the_exit_code_of_several_boards() -> None:
    """It is that of one of them."""
    boards = [BENCHED, {**WRONG, "board": "x", "exit_code": 1}]
    assert len(results_in({"boards": boards, "exit_code": 1}, "it")) == 2
    with pytest.raises(InputError, match="exit_code is 1"):
        results_in({"boards": boards[:1], "exit_code": 1}, "it")


def test_a_history_has_a_result_for_each_goal() -> None:
    def entry(goal: str | None, count: int) -> Json:
        options = {"optimize": goal} if goal else {}
        run = {**BENCHED, "per_inference": count, "provenance": {"options": options}}
        return {"kind": "bench", "model": "m", "board": "b", "time": "now", "result": run}

    entries = [entry("speed", 10), entry(None, 40), entry("balanced", 41), entry("speed", 11)]
    found = results_in({"entries": entries}, "it")
    counts = [[run.per_inference for run in one.history or ()] for one in found]
    assert [one.goal for one in found] == ["speed", ""]
    assert counts == [[10, 11], [40, 41]]
