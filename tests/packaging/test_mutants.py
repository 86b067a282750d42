"""The mutants of the campaign ``mutation``: what is changed, and what is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import mutants, of_source, sample, written

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''"""Words."""
LIMIT: int = 5

class Thing:
    """More words."""

    def __repr__(self) -> str:
        return "x" + str(1)

    def least(self, a, b=2):
        assert a != b
        if not a or self.odd:
            raise ValueError(f"{a + 1}", a < 3)
        while a is None:
            self.look(strict=True)
            break
        return min(a, -b) << 1
'''
CHANGES = [
    "5 → 6", "2 → 3", "or → and", "not → nothing", "raise → pass", "is → is not", "call → pass",
    "break → continue", "return → return None", "<< → >>", "min → max", "- → nothing", "1 → 2",
]  # fmt: skip


def test_what_is_changed() -> None:
    found = of_source(SOURCE.encode(), "thing.py")
    assert [mutant.change for mutant in found] == CHANGES
    assert {mutant.function for mutant in found} == {"", "Thing.least"}
    for mutant in found:
        changed = mutant.apply(SOURCE.encode()).decode()
        compile(changed, "thing.py", "exec")
        assert changed != SOURCE


def test_equal_changes_of_a_line_are_told_apart() -> None:
    found = of_source(b"a = 1 + 1\n", "a.py")
    keys = {mutant.key for mutant in found}
    assert len(keys) == len(found) == 3
    assert [mutant.nth for mutant in found if mutant.change == "1 → 2"] == [0, 1]


def test_a_mutant_knows_the_lines_of_its_statement() -> None:
    source = b"""\
TABLE = (
    (1, 2),
)
def f(a):
    if (
        a == 3
    ):
        return (a or
                4)
"""
    found = {m.change: (m.lines, m.statement) for m in of_source(source, "a.py")}
    assert found["2 → 3"] == (range(2, 3), range(1, 4))
    assert found["3 → 4"] == (range(6, 7), range(5, 8))
    assert found["4 → 5"] == (range(9, 10), range(8, 10))


def test_a_change_elsewhere_keeps_what_is_drawn() -> None:
    before = of_source(SOURCE.encode(), "thing.py")
    after = of_source(b"import os\n\n" + SOURCE.encode(), "thing.py")
    assert [m.key for m in sample(before, 5, 1)] == [m.key for m in sample(after, 5, 1)]
    assert [m.key for m in sample(before, 5, 1)] != [m.key for m in sample(before, 5, 2)]


def test_python_rereads_an_equally_old_module(tmp_path: Path) -> None:
    compiled = tmp_path / "__pycache__" / "a.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"")
    written(tmp_path / "a.py", b"x = 1\n")
    assert not compiled.exists()
    assert (tmp_path / "a.py").read_bytes() == b"x = 1\n"


def test_equivalent_mutants_are_those_of_the_sources() -> None:
    """A line that was changed makes its entry stale: read the mutant again."""
    pytest.importorskip("coverage")
    from torture.mutation import AREAS, equivalent

    listed = equivalent()
    assert len({(one.package, one.key) for one in listed}) == len(listed)
    for area in AREAS:
        keys = {mutant.key for mutant in mutants(ROOT / area.package)}
        assert {one.key for one in listed if one.package == area.package} <= keys
        assert all((ROOT / test).is_file() for test in area.tests), area.name
    assert {one.package for one in listed} <= {area.package for area in AREAS}
    assert all(len(one.why) > 20 for one in listed)
