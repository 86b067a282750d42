"""What a notebook shows of a library: tables and the plan, from names that are not trusted."""

from __future__ import annotations

import copy
import pickle
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

import hilc

MODEL = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
EVIL = "<script>alert(1)</script>\"'&"


@pytest.fixture(scope="module")
def library() -> hilc.ModelLibrary:
    return hilc.compile(MODEL, cpu="cortex-m4")


def elements(library: hilc.ModelLibrary) -> ElementTree.Element:
    """The HTML, which is well-formed XML, too."""
    return ElementTree.fromstring(f"<div>{library._repr_html_()}</div>")


def texts(root: ElementTree.Element, tag: str) -> list[str]:
    return [element.text or "" for element in root.iter(tag)]


def test_the_figures_are_those_of_the_library(library: hilc.ModelLibrary) -> None:
    (module,) = library.modules
    root = elements(library)
    assert texts(root, "h4") == [module.name]
    cells = texts(root, "td")
    assert f"{module.workspace_bytes:,} bytes" in cells
    assert f"{library.reports[module.name].chosen.instructions:,} by estimate" in cells
    for layer in module.layers:
        assert layer.op in cells


def test_the_picture_has_a_box_for_each_buffer(library: hilc.ModelLibrary) -> None:
    plan = hilc.explain(MODEL, cpu="cortex-m4")
    namespace = "{http://www.w3.org/2000/svg}"
    (picture,) = elements(library).iter(f"{namespace}svg")
    titles = texts(picture, f"{namespace}title")
    assert len(titles) == 1 + len(plan.slots)
    for slot in plan.slots:
        assert any(title.startswith(f"{slot.name}: {slot.bytes:,} bytes") for title in titles)
    # All of them within the picture.
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    for box in picture.iter(f"{namespace}rect"):
        x, y, w, h = (float(box.get(key, 0)) for key in ("x", "y", "width", "height"))
        assert -0.02 <= x <= x + w <= width + 0.02
        assert -0.02 <= y <= y + h <= height + 0.02


def test_names_cannot_be_markup(library: hilc.ModelLibrary) -> None:
    (module,) = library.modules
    layers = tuple(replace(layer, op=EVIL, name=EVIL) for layer in module.layers)
    inputs = tuple(replace(tensor, name=EVIL) for tensor in module.inputs)
    plan = library.plans[module.name]()
    slots = tuple(replace(slot, name=EVIL) for slot in plan.slots)
    hostile = replace(
        library,
        modules=(replace(module, layers=layers, inputs=inputs),),
        plans={module.name: lambda: replace(plan, slots=slots)},
    )
    shown = hostile._repr_html_()
    assert "<script" not in shown
    root = elements(hostile)
    assert EVIL in texts(root, "td")
    assert any(title.startswith(EVIL) for title in texts(root, "{http://www.w3.org/2000/svg}title"))


def test_a_library_of_a_file_shows_its_tables(library: hilc.ModelLibrary, tmp_path: Path) -> None:
    library.save(tmp_path / "net.tar")
    loaded = hilc.ModelLibrary.load(tmp_path / "net.tar")
    shown = loaded._repr_html_()
    assert "<table>" in shown
    assert "<svg" not in shown
    assert loaded == library


def test_a_library_is_copied_without_its_plan(library: hilc.ModelLibrary) -> None:
    for other in (copy.deepcopy(library), pickle.loads(pickle.dumps(library))):
        assert other == library
        assert "<table>" in other._repr_html_()
        assert "<svg" not in other._repr_html_()
    merged = hilc.merge([library])
    assert merged._repr_html_() == library._repr_html_()
    assert "<ModelLibrary digits for cortex-m4" in repr(library)
