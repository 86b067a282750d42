"""The picture of a plan: every box is in it, no label runs into another, nothing is clipped."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import models
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from small_models import SMALL_MODELS

import hilc
from hil.page.plan_picture import FORMATS, is_unchanged, plan_figure, save
from hilc.memory.explanation import Explanation

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full


def explained(model: str, ram: int | None = None) -> Explanation:
    source = SMALL_MODELS[model]() if model in SMALL_MODELS else models.model_path(model)
    return hilc.explain(
        source, cpu="cortex-m4", name=model, pools="external", io_in_pool=True, ram=ram
    )


def extents(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every visible text and where it stands, in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    shown = [t for t in figure.findobj(Text) if t.get_text() and t.get_visible()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in shown]


CASES = [
    *((name, None) for name in sorted(SMALL_MODELS)),
    ("kws", None),
    ("kws", 4016),
]


@pytest.mark.parametrize(("model", "ram"), CASES)
def test_no_two_labels_touch(model: str, ram: int | None) -> None:
    figure = plan_figure(explained(model, ram))
    (axes,) = figure.axes
    upright = {label.get_text() for label in axes.get_xticklabels()}
    # Names below the columns are slanted, so their extents say nothing; they stand one line apart.
    level = [(text, where) for text, where in extents(figure) if text not in upright]
    assert len(level) > 2
    for (text, here), (other, there) in combinations(level, 2):
        assert not here.overlaps(there), (text, other)


@pytest.mark.parametrize("model", sorted(SMALL_MODELS))
def test_every_box_has_a_tooltip(model: str, tmp_path: Path) -> None:
    plan = explained(model)
    save(plan_figure(plan), tmp_path / "plan.svg")
    root = ElementTree.parse(tmp_path / "plan.svg").getroot()
    titles = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}title")]
    for slot in plan.slots:
        wanted = f"{slot.name}: {slot.bytes:,} bytes, {slot.offset:,} to {slot.end:,}"
        assert wanted in titles


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_same_plan_gives_the_same_file(suffix: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(plan_figure(explained("convolutions")), tmp_path / f"{name}{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
    assert first == second
    assert len(first) > 1000
    assert is_unchanged(tmp_path / f"a{suffix}")
    # Wherever somebody has edited it.
    for edited in (first[:-1], first[:900] + b" " + first[901:], first + b" ", b"", b"x"):
        (tmp_path / f"a{suffix}").write_bytes(edited)
        assert is_unchanged(tmp_path / f"a{suffix}") == (edited == first)


def test_nothing_is_clipped(tmp_path: Path) -> None:
    """A long title and long names: the margin of the picture stays white on all four sides."""
    plan = replace(explained("convolutions"), model="a_model_with_a_rather_long_name" * 6)
    save(plan_figure(plan), tmp_path / "plan.png")
    pixels = imread(tmp_path / "plan.png")[..., :3]
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert (edge == 1).all()


def test_a_plan_of_hundreds_of_layers_is_drawn(tmp_path: Path) -> None:
    plan = explained("convolutions")
    wide = replace(plan, steps=plan.steps * 200, slots=plan.slots)
    save(plan_figure(wide), tmp_path / "plan.png")
    height, width = imread(tmp_path / "plan.png").shape[:2]
    assert width < 12_000
    assert height < 3_000
