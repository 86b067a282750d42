"""What ``make audit`` says of packages and images."""

from __future__ import annotations

import json

import audit
import pytest
from tiny_library import tiny_library

from hil.board import load_board
from hil.build import build
from hil.firmware.linkmap import LinkMap, Piece, read_map
from hilc.support.toml import tomllib

KNOWN = {"name": "numpy", "version": "2.0", "vulns": []}
BAD = {"name": "idna", "version": "3.0", "vulns": [{"id": "PYSEC-1"}, {"id": "PYSEC-2"}]}
SKIPPED = {"name": "hil-harness", "skip_reason": "not found on PyPI"}


@pytest.mark.parametrize(
    ("dependencies", "expected"),
    [
        ([KNOWN, SKIPPED], (1, [])),
        ([KNOWN, BAD], (2, ["idna 3.0: PYSEC-1, PYSEC-2"])),
        # pip-audit succeeds where no service answers: it has found nothing.
        ([SKIPPED, SKIPPED], (0, [])),
    ],
)
def test_what_no_service_knows_is_not_called_safe(
    dependencies: list[object], expected: tuple[int, list[str]]
) -> None:
    assert audit.verdict(json.dumps({"dependencies": dependencies})) == expected


@pytest.mark.parametrize("text", ["", "Traceback ...", "[]", "{}"])
def test_a_failed_audit_knows_nothing(text: str) -> None:
    assert audit.verdict(text) == (0, [])


def test_the_bill_of_an_image_has_all_of_its_flash() -> None:
    board = load_board("mps2-an386")
    divide = "for (int i = 0; i < 4; ++i) { y[i] = (int32_t)(((int64_t)x[i] << 20) / (x[i] | 1)); }"
    firmware = build([tiny_library(divide, cpu=board.cpu.name)], board)
    link = read_map((firmware.folder / "build" / "firmware.map").read_text())
    parts = {part["name"]: part for part in audit.parts(link, board)}
    assert set(parts) >= {"hil-model", "hil-runtime", "newlib", "libgcc"}
    assert parts["newlib"]["version"][0].isdigit()
    assert len(parts["libgcc"]["sha256"]) == 64
    pieces = [p.size for p in link.pieces if p.output in (".text", ".rodata", ".data")]
    assert sum(part["bytes"] for part in parts.values()) == sum(pieces) > 0


def test_code_of_unknown_archives_is_named() -> None:
    board = load_board("mps2-an386")
    archive = audit.ROOT / "LICENSE"
    piece = Piece(".text", ".text.f", f"{archive}(f.o)", 12)
    (part,) = audit.parts(LinkMap({".text": 12}, (piece,), {}), board)
    assert (part["name"], part["bytes"]) == ("LICENSE", 12)


def test_the_tools_are_no_part_of_what_is_installed() -> None:
    about = tomllib.loads((audit.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    others = str([about["dependencies"], *about["optional-dependencies"].items()])
    assert others.count("pip-audit") == others.count("cyclonedx-bom") == 1
