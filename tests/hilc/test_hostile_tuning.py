"""Logs of `hil tune` that nobody measured: refused, or compiled by like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from campaigns import cases
from small_models import convolutions

import hilc
from hilc.errors import InputError
from hilc.lowering.choice import Group
from hilc.schedule.tuning import FORMAT, Measured, TunedGroup, TunedLayer, TunedProgram, Tuning
from hilc.source import prepare
from hilc.support.version import __version__
from hilc.target import get_cpu

CPU = "cortex-m4"


@pytest.fixture(scope="module")
def log() -> dict[str, Any]:
    """A log of a model, as JSON has it."""
    source = prepare(convolutions(), "net", get_cpu(CPU))
    kernels = (Measured("generic.conv2d.s8", 100), Measured("dsp.conv2d.s8", 90))
    layer = TunedLayer("c", "CONV_2D", kernels)
    group = TunedGroup(Group(("padded", "c"), 1), 150)
    programs = [
        TunedProgram(goal, {"d": "generic.matmul.s8"}, (group,), 512, 180)
        for goal in ("balanced", "speed")
    ]
    written = Tuning(
        FORMAT, "net", source.digest, CPU, __version__, "b", "cycles", (layer,), tuple(programs)
    )
    return dict(json.loads(written.to_json()))


def _compiled(log: Any, folder: Path, goal: str = "balanced") -> Any:
    path = folder / "log.json"
    path.write_text(json.dumps(log))
    return hilc.compile(convolutions(), name="net", cpu=CPU, tuning=path, optimize=goal)


def _set(*keys: Any, to: Any) -> Callable[[Any], None]:
    def change(log: Any) -> None:
        for key in keys[:-1]:
            log = log[key]
        log[keys[-1]] = to

    return change


_GROUP = ("programs", 0, "groups", 0)


@cases(
    ("change", "told"),
    [
        (_set("layers", 0, "kernels", 0, "count", to=-1), "a count is -1, which nothing measures"),
        (_set("layers", 0, "kernels", 0, "count", to=10**400), "a count is 1000"),
        (
            _set("layers", 0, "kernels", 0, "count", to=float("nan")),
            "count is NaN; expected",
        ),
        (_set("programs", 0, "count", to=-5), "a count is -5"),
        (_set("programs", 1, "workspace_bytes", to=-1), "no such workspace"),
        (_set(*_GROUP, "count", to=1 << 60), "which nothing measures"),
        (_set(*_GROUP, "group", "nodes", to=[]), "a group has no layers"),
        (_set(*_GROUP, "group", "rows", to=0), "a group of 0 rows"),
        (_set(*_GROUP, "group", "kernels", to=["x"]), "not one kernel a layer"),
        (_set("cpu", to="cortex-m55"), "made for another core: cortex-m55, not cortex-m4"),
        (_set("digest", to="0" * 64), "made for another model"),
        (_set("compiler", to="9.9"), "another version of the compiler: 9.9"),
        (_set("format", to=1), "is not a tuning log of format"),
    ],
    first=3,
)
def test_a_log_that_nobody_measured_is_refused(
    change: Callable[[Any], None], told: str, log: dict[str, Any], tmp_path: Path
) -> None:
    log = json.loads(json.dumps(log))
    assert _compiled(log, tmp_path).reports["net"].tuned
    change(log)
    with pytest.raises(InputError) as caught:
        _compiled(log, tmp_path)
    assert told in caught.value.fact
    assert caught.value.hint


def test_a_truncated_log_is_refused(log: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    text = json.dumps(log)
    for size in (0, 1, len(text) // 2, len(text) - 1):
        path.write_text(text[:size])
        with pytest.raises(InputError, match="is not JSON"):
            hilc.compile(convolutions(), name="net", cpu=CPU, tuning=path)


def test_names_of_no_layer_or_kernel_are_refused(log: dict[str, Any], tmp_path: Path) -> None:
    """Names of other layers beside the model's count for nothing."""
    dice = Random(3)
    compiled, messages = 0, list[str]()
    names = ["c", "c", "c", "nobody", ""]
    variants = ["generic.conv2d.s8", "dsp.conv2d.s8", "x"]
    for _ in range(20):
        changed = json.loads(json.dumps(log))
        changed["layers"][0]["name"] = dice.choice(names)
        for program in changed["programs"]:
            program["kernels"] = {dice.choice(names): dice.choice(variants)}
            group = program["groups"][0]["group"]
            group["nodes"] = dice.choices(names, k=dice.choice([1, 2, 3]))
            group["rows"] = dice.choice([1, 2, 1 << 40])
        try:
            report = _compiled(changed, tmp_path, dice.choice(["speed", "size"])).reports["net"]
        except InputError as error:
            messages.append(error.fact)
            continue
        assert report.chosen.instructions > 0
        compiled += 1
    assert all("the tuning log names" in message for message in messages)
    assert min(compiled, len(messages)) > 2
