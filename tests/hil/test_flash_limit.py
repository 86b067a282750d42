"""A limit of flash holds for what the linker finds, not only for what the compiler expects."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import answers
import pytest
from models import model_path

import hil.firmware.sources
import hilc
from hil import cli
from hil.board import load_board
from hil.build import build
from hil.errors import InputError
from hil.firmware.sources import ModelOptions, load_libraries

#: It changes rarely, and takes long.
pytestmark = pytest.mark.full

BOARD = load_board("mps2-an386")
ROOT = Path(__file__).resolve().parents[2]


def options(**values: Any) -> ModelOptions:
    return ModelOptions(BOARD.cpu.name, values, board=BOARD)


def flash_bytes(library: hilc.ModelLibrary) -> int:
    return build([library], BOARD).sizes.models["kws"].flash_bytes


def test_a_limit_of_the_estimate_is_kept_measured() -> None:
    word = [f"kws={model_path('kws')}"]
    for limit in range(36_000, 66_000, 1_500):
        (by_estimate,) = load_libraries(word, ModelOptions(BOARD.cpu.name, {"flash": limit}))
        assert by_estimate.reports["kws"].chosen.flash_bytes <= limit
        if flash_bytes(by_estimate) > limit:
            break
    else:
        pytest.fail("every estimate holds")
    (held,) = load_libraries(word, options(flash=limit))
    assert flash_bytes(held) <= limit


def test_each_model_of_an_image_has_the_limit() -> None:
    words = [f"{name}={model_path('kws')}" for name in ("one", "two")]
    limit = 36_000
    libraries = load_libraries(words, options(flash=limit))
    sizes = build(libraries, BOARD).sizes.models
    assert {name for name, model in sizes.items() if model.flash_bytes <= limit} == {"one", "two"}


def test_a_limit_that_no_link_keeps_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[int] = []

    def larger(libraries: list[hilc.ModelLibrary], *_: object, **__: object) -> SimpleNamespace:
        (report,) = libraries[0].reports.values()
        built.append(report.chosen.flash_bytes + 20_000)
        model = SimpleNamespace(flash_bytes=built[-1])
        return SimpleNamespace(sizes=SimpleNamespace(models={"kws": model}))

    monkeypatch.setattr(hil.firmware.sources, "build", larger)
    with pytest.raises(InputError, match=r"'kws' fits 45000 B of flash on mps2-an386") as refusal:
        load_libraries([f"kws={model_path('kws')}"], options(flash=45_000))
    assert f"(the least takes {min(built)} B)" in refusal.value.fact


def test_the_least_that_a_refusal_states_is_accepted() -> None:
    word = [f"digits={ROOT / 'examples' / 'digits' / 'digits.tflite'}"]
    with pytest.raises(InputError) as refusal:
        load_libraries(word, options(flash=100))
    stated = re.search(r"the least takes (\d+) B", refusal.value.fact)
    assert stated is not None
    least = int(stated[1])
    (held,) = load_libraries(word, options(flash=least))
    assert build([held], BOARD).sizes.models["digits"].flash_bytes == least
    with pytest.raises(InputError, match=f"the least takes {least} B"):
        load_libraries(word, options(flash=least - 1))


def test_compile_names_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", str(model_path("kws")), "--board", BOARD.name, "--flash", "40K"]
    arguments += ["-o", str(tmp_path / "kws.tar")]
    assert cli.main(arguments) == 0
    assert "the flash limit is met by estimate" in capsys.readouterr().out
    assert cli.main([*arguments, "--json"]) == 0
    assert answers.entry(capsys.readouterr().out)["flash_limit_kept_by"] == "estimate"
