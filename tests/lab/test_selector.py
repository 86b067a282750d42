"""What users write to ask for a board of a lab."""

from __future__ import annotations

import pytest

from hil.errors import InputError
from hil.lab.selector import Selector, parse_selector


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("lab:bench-3", {"name": "bench-3"}),
        ("cpu=cortex-m4", {"cpu": "cortex-m4"}),
        ("lab:cpu=cortex-m4", {"cpu": "cortex-m4"}),
        ("site=a, cpu=cortex-m4", {"cpu": "cortex-m4", "site": "a"}),
        ("lab:name=bench-3,cpu=cortex-m4", {"cpu": "cortex-m4", "name": "bench-3"}),
    ],
)
def test_specs(text: str, tags: dict[str, str]) -> None:
    selector = parse_selector(text)
    assert selector is not None
    assert dict(selector.tags) == tags
    assert parse_selector(str(selector)) == selector


@pytest.mark.parametrize("text", ["mps2-an386", "boards/a=b.toml", "a=b.toml", "./x=y/z"])
def test_names_and_files_of_boards_ask_for_no_lab(text: str) -> None:
    assert parse_selector(text) is None


@pytest.mark.parametrize("text", ["lab:", "lab:a,b", "cpu=", "=x", "cpu=a,cpu=b", "cpu=a,"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="lab|tag"):
        parse_selector(text)


def test_a_filter_fits_by_all_its_tags() -> None:
    selector = Selector((("cpu", "cortex-m4"), ("site", "a")))
    assert selector.fits("x", {"cpu": "cortex-m4", "site": "a", "more": "b"})
    assert not selector.fits("x", {"cpu": "cortex-m4"})
    assert Selector((("name", "x"),)).fits("x", {})
    assert not Selector((("name", "x"),)).fits("y", {"name": "x"})
