"""`hil compare` and `hil gate`: measurements beside others, from files, a history and boards."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import answers
import pytest
from campaigns import cases

from hil.cli import main
from hil.errors import InputError
from hil.history import History
from hil.history.comparison import compare
from hil.history.gate import gates, parse_limit
from hil.history.measurement import Measurement, read_measurements

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
BOARD = "mps2-an386"

BENCH: dict[str, Any] = {
    "model": "kws",
    "board": BOARD,
    "counter": "instructions",
    "per_inference": 1000,
    "model_flash_bytes": 500,
    "firmware_flash_bytes": 2000,
    "workspace_bytes": 300,
    "ram_bytes": 700,
    "stack_peak_bytes": 90,
    "checked": {
        "samples": 1,
        "reference": "tflm",
        "reference_fallback": None,
        "independent": True,
        "match": True,
    },
    "layers": [
        {"name": "a", "op": "CONV_2D", "macs": 9, "count": 600},
        {"name": "b", "op": "CONV_2D", "macs": 9, "count": 300},
        {"name": "c", "op": "SOFTMAX", "macs": 0, "count": 90},
    ],
    "provenance": {"model": {"sha256": "ab" * 32}, "inputs": {"sha256": "cd" * 32}},
}


def changed(layers: dict[str, int] | None = None, **values: Any) -> dict[str, Any]:
    """A measurement with other values, and other counts of some layers."""
    data = {**copy.deepcopy(BENCH), **values}
    for layer in data["layers"]:
        layer["count"] = (layers or {}).get(layer["name"], layer["count"])
    return data


class Folder:
    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._capsys = path, capsys

    def file(self, name: str, data: Any) -> str:
        path = self.path / f"{name}.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return str(path)

    def gate(self, current: Any, *words: str, baseline: Any = BENCH, code: int = 0) -> str:
        """What `hil gate` says; on stderr for an error."""
        line = ["gate", self.file("now", current), "--baseline", self.file("base", baseline)]
        assert main([*line, *words]) == code
        out, err = self._capsys.readouterr()
        return out if code < 2 else err


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Folder:
    monkeypatch.delenv("HIL_HISTORY", raising=False)
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    return Folder(tmp_path, capsys)


@pytest.mark.parametrize(
    ("words", "values", "code"),
    [
        ("--max-slower 2%", {"per_inference": 1020}, 0),
        ("--max-slower 2%", {"per_inference": 1021}, 1),
        ("--max-slower 20", {"per_inference": 1020}, 0),
        ("--max-slower 20", {"per_inference": 1021}, 1),
        ("--max-slower 0", {"per_inference": 999}, 0),
        ("--max-ram 0", {"ram_bytes": 700, "per_inference": 9999}, 0),
        ("--max-ram 0", {"ram_bytes": 701}, 1),
        ("--max-flash 1K", {"firmware_flash_bytes": 3024}, 0),
        ("--max-flash 1K", {"firmware_flash_bytes": 3025}, 1),
        ("--max-workspace 10%", {"workspace_bytes": 331}, 1),
        ("--max-stack 8", {"stack_peak_bytes": 99}, 1),
        ("--max-slower 2% --max-ram 0", {"ram_bytes": 701}, 1),
    ],
)
def test_limits(words: str, values: dict[str, Any], code: int, folder: Folder) -> None:
    folder.gate(changed(**values), *words.split(), code=code)


def test_the_offending_layer_is_named(folder: Folder) -> None:
    slower = changed({"a": 590, "b": 345}, per_inference=1035)
    text = folder.gate(slower, "--max-slower", "2%", "--max-ram", "0", code=1)
    assert text == (
        "kws on mps2-an386: 1,035 instructions (QEMU), not cycles, per inference: 35 more than "
        "1,000 (+3.50 %); the limit is 2% more\n"
        "  most of it in CONV_2D b: 345, 45 more than 300 (+15.00 %)\n"
    )
    data = json.loads(folder.gate(slower, "--max-slower", "2%", "--json", code=1))
    (excess,) = data["results"][0]["excesses"]
    assert not data["results"][0]["passed"]
    assert (excess["layer"], excess["percent"], excess["limit"]) == ("CONV_2D b", 3.5, "2%")
    assert folder.gate(BENCH, "--max-slower", "2%", "--max-ram", "1K", "--max-flash", "0") == (
        "kws on mps2-an386: within the limits (slower 2%, ram 1,024 bytes, flash 0); 1,000 "
        "instructions (QEMU), not cycles, per inference: unchanged; outputs match tflm over 1 "
        "sample\n"
    )


def test_excesses_have_their_units(folder: Folder) -> None:
    more = changed(ram_bytes=712, energy={"per_inference_uj": 3.25})
    base = changed(energy={"per_inference_uj": 3.0})
    words = ("--max-ram", "4", "--max-energy", "0", "--max-slower", "7")
    assert folder.gate(more, *words, baseline=base, code=1) == (
        "kws on mps2-an386: static RAM of the firmware 712 bytes: 12 more than 700 (+1.71 %); the "
        "limit is 4 bytes more\n"
        "kws on mps2-an386: energy 3.25 uJ: 0.25 more than 3 (+8.33 %); the limit is 0 more\n"
    )
    assert "measure it again with --energy" in folder.gate(more, "--max-energy", "0", code=2)
    # A counter of a later version, or of somebody else's file.
    other = changed(counter="ticks", per_inference=1008)
    text = folder.gate(other, *words[4:], baseline=changed(counter="ticks"), code=1)
    assert "1,008 ticks, per inference: 8 more than 1,000 (+0.80 %); the limit is 7 ticks" in text


def test_a_layer_that_was_added_is_named(folder: Folder) -> None:
    more = changed(per_inference=1100)
    more["layers"].insert(1, {"name": "pad", "op": "PAD", "macs": 0, "count": 100})
    text = folder.gate(more, "--max-slower", "2%", code=1)
    assert "most of it in PAD pad: 100, not in the baseline" in text


_OTHER = {"model": {"sha256": "ef" * 32}}
VERIFY: dict[str, Any] = {
    "model": "kws",
    "board": BOARD,
    "samples": 1,
    "reference": "tflm",
    "match": True,
    "outputs": [{"name": "y", "shape": [1], "dtype": "int8", "mismatches": 0, "max_abs_diff": 0}],
}

NO_BASELINE: dict[str, tuple[Any, str]] = {
    "another board": (changed(board="microbit"), "is of kws on microbit, not of kws on mps2"),
    "another model": (changed(model="ad"), "is of ad on mps2-an386, not of kws"),
    "cycles": (changed(counter="cycles"), "counts cycles"),
    "another model file": (changed(provenance=_OTHER), "was measured with another model file"),
    "other inputs": (changed(provenance={"inputs": {"sha256": "00"}}), "with other inputs"),
    "no JSON": ("{", "base.json is not JSON"),
    "no object": ([1], "is of type list, not an object"),
    "a result of verify": (VERIFY, "is not a result of hil bench"),
    "another schema": ({"schema": 2, "command": "bench"}, "this version of hil reads schema 1"),
    "another command": (
        {"schema": 1, "command": "boards", "exit_code": 0, "results": []},
        "is of the command 'boards'",
    ),
    "a failed board": (
        {"boards": [{"board": "x", "exit_code": 4, "error": {"message": "no"}}], "exit_code": 4},
        "there is no measurement on x, which failed",
    ),
    "no number": (changed(per_inference="7"), 'per_inference is "7"; expected is int'),
    "a negative number": (changed(ram_bytes=-7), "ram_bytes is -7"),
    "a huge number": (changed(per_inference=10**400), "which no result has"),
    "no energy": (changed(energy={"per_inference_uj": float("nan")}), "holds nan"),
    "many boards in boards": ('{"boards":[' * 300 + "]}" * 300, "holds nesting"),
    "true": (changed(ram_bytes=True), "ram_bytes is true; expected is int"),
    "a bad layer": (
        changed(layers=None) | {"layers": [5]},
        "layers[0] is 5; expected is an object",
    ),
    "no layers": (changed() | {"layers": {}}, "layers is {}; expected is list"),
    "without that figure": (
        {key: value for key, value in BENCH.items() if key != "ram_bytes"},
        "lacks the key 'ram_bytes'",
    ),
}


@pytest.mark.parametrize("case", NO_BASELINE)
def test_what_is_no_baseline(case: str, folder: Folder) -> None:
    baseline, message = NO_BASELINE[case]
    error = folder.gate(BENCH, "--max-slower", "2%", "--max-ram", "0", baseline=baseline, code=2)
    assert message in error
    assert "hint: " in error


def test_a_stored_difference_stays_a_failure(folder: Folder) -> None:
    wrong = changed(checked={**BENCH["checked"], "match": False})
    text = folder.gate(wrong, "--max-slower", "2%", "--no-check", code=1)
    assert "outputs DIFFER from tflm" in text
    unchecked = changed(checked=None)
    folder.gate(unchecked, "--max-slower", "2%", "--no-check")


def test_another_model_may_be_allowed(folder: Folder) -> None:
    words = ("--max-slower", "2%", "--allow-other-model")
    folder.gate(changed(provenance=_OTHER), *words)
    # An older file does not tell of what model file it is.
    old = {key: value for key, value in BENCH.items() if key != "provenance"}
    folder.gate(BENCH, "--max-slower", "2%", baseline=old)


def test_several_models_and_boards(folder: Folder) -> None:
    both = {"boards": [BENCH, changed(board="microbit")], "exit_code": 0}
    slow = {"models": [changed(board="microbit", per_inference=1500)]}
    text = folder.gate(slow, "--max-slower", "2%", "--allow-missing", baseline=both, code=1)
    assert text.startswith("kws on microbit: 1,500")
    missing = {"boards": [BENCH, changed(board="nrf52dk")]}
    assert "not of kws on nrf52dk" in folder.gate(
        missing, "--max-slower", "2%", baseline=both, code=2
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("gate now.json --baseline now.json", "no limit is given"),
        ("gate now.json --baseline now.json --max-ram 2kg", "'2kg' is not a limit of at"),
        ("gate now.json --baseline now.json --max-ram -1", "'-1' is not a limit of at least 0"),
        ("gate now.json --baseline now.json --max-slower -2%", "'-2%' is not a limit of at"),
        ("gate --baseline now.json --max-ram 0", "no history is chosen"),
        ("gate now.json --baseline none.json --max-ram 0", "the file 'none.json' does not exist"),
        (f"gate now.json --baseline {DIGITS} --max-ram 0", "is no measurement"),
        (
            f"compare now.json {DIGITS}",
            "is no .json file, so it is taken for a model, and no board",
        ),
        ("compare 1 2", "no history is chosen"),
        ("compare now.json main --history none.db", "there is no history"),
    ],
)
def test_bad_usage(
    line: str,
    message: str,
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder.path)
    folder.file("now", BENCH)
    assert main(line.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "before", "after", "allowed"),
    [
        ("2%", 50, 51, True),
        ("2%", 49, 50, False),
        ("0.1%", 1000, 1001, True),
        ("0.1 %", 999, 1000, False),
        ("0%", 5, 5, True),
        ("1k", 0, 1024, True),
        ("1k", 0, 1025, False),
        # No share of nothing.
        ("50%", 0, 1, False),
    ],
)
def test_a_limit_is_exact(text: str, before: int, after: int, allowed: bool) -> None:
    limit = parse_limit(text)
    assert limit is not None
    assert limit.allows(before, after) == allowed


@pytest.mark.parametrize("text", ["", "%", "-1", "2%%", "1e9", "nan", "٣", "2.5", "4GB"])
def test_what_is_no_limit(text: str) -> None:
    assert parse_limit(text) is None


def test_compare_goes_layer_by_layer(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    after = changed({"b": 150}, per_inference=840, ram_bytes=710)
    after["layers"][0] = {"name": "pad", "op": "PAD", "macs": 0, "count": 590}
    assert main(["compare", folder.file("a", BENCH), folder.file("b", after)]) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    counted = "instructions (QEMU), not cycles, per inference 1,000 840 -160 -16.00 %"
    assert counted.split() in rows
    assert ["CONV_2D", "600", "-", "-", "a"] in rows
    assert ["PAD", "-", "590", "-", "pad"] in rows
    assert ["CONV_2D", "300", "150", "-150", "-50.00", "%", "b"] in rows
    assert ["SOFTMAX", "90", "90", "0", "+0.00", "%", "c"] in rows


def test_names_in_files_are_shown_in_a_line(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "m\n\x1b[31mred" + "L" * 5000
    odd = changed(model=evil, counter=evil)
    odd["layers"][0]["name"] = evil
    assert main(["compare", folder.file("a", odd), folder.file("b", odd)]) == 0
    text = capsys.readouterr().out
    slower = {**odd, "per_inference": 9999}
    text += folder.gate(slower, "--max-slower", "1%", baseline=odd, code=1)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 1000


def test_layers_with_new_names_are_paired_by_operator() -> None:
    named = changed()
    for layer in named["layers"]:
        layer["name"] += "_v2"
    (before,), (after,) = (read_measurements(data, "file") for data in (BENCH, named))
    assert [c.difference for c in compare(before, after).layers] == [0, 0, 0]
    assert compare(before, after).most_slowed is None
    with pytest.raises(InputError, match="counts instructions, file counts cycles"):
        compare(before, read_measurements(changed(counter="cycles"), "file")[0])


def test_counts_with_other_memory_are_not_compared() -> None:
    def simulated(model: str) -> Measurement:
        count = {"memory_model": model, "cycles": 1000, "instructions": 900}
        return read_measurements(changed(counter="cycles", simulated=[count]), "file")[0]

    assert compare(simulated("flash 0"), simulated("flash 0")).count.difference == 0
    with pytest.raises(InputError, match="measured with flash 0, file with flash 2") as caught:
        compare(simulated("flash 0"), simulated("flash 2"))
    assert "flash_wait=N" in caught.value.hint


def test_a_history_has_what_is_compared(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By ids, by commits, by names of git; and a gate takes the newest of it."""
    monkeypatch.chdir(folder.path)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    commits = []
    history = History("history.db")
    monkeypatch.setenv("HIL_HISTORY", "history.db")
    subprocess.run(["git", "init", "-q"], check=True)
    for index, count in enumerate((1000, 1040)):
        commit = ["commit", "-q", "--allow-empty", "-m", str(index)]
        subprocess.run(["git", *identity, *commit], check=True)
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
        commits.append(asked.stdout.strip())
        about = {**BENCH["provenance"], "commit": commits[-1], "dirty": False}
        history.record("verify", {"model": "kws", "board": BOARD, "provenance": about})
        history.record("bench", changed(per_inference=count, provenance=about))
    for words in (("2", "4"), (commits[0][:8], commits[1]), ("HEAD~1", "HEAD")):
        assert main(["compare", *words, "--json"]) == 0
        (found,) = answers.entries(capsys.readouterr().out)
        assert found["per_inference"]["percent"] == 4.0
        assert [found[side]["source"] for side in "ab"] == ["entry 2", "entry 4"]
    assert main(["gate", "--baseline", "HEAD~1", "--max-slower", "5%"]) == 0
    assert main(["gate", "--baseline", "HEAD~1", "--max-slower", "3%"]) == 1
    assert main(["gate", "2", "--baseline", "4", "--max-slower", "0"]) == 0
    capsys.readouterr()
    # What is compared with itself is always within its limits.
    for itself in (["--baseline", "4"], ["--baseline", "HEAD"], ["2", "--baseline", "2"]):
        assert main(["gate", *itself, "--max-slower", "0"]) == 2
        assert "would be compared with itself" in capsys.readouterr().err
    # Digits of a commit that could be an id; an id that no database can hold.
    digits = "98765432" * 5
    history.record("bench", changed(provenance={**BENCH["provenance"], "commit": digits}))
    assert main(["compare", "2", digits[:7]]) == 0
    for pair, message in (
        (("2", digits[1:8]), "has no entry 8765432"),
        (("2", "9" * 40), "has no entry 9"),
        (("1", "2"), "entry 1 of the history is of hil verify, which measures nothing"),
        (("9", "2"), "has no entry 9"),
        (("v1.0", "2"), "has no measurement of a commit of this name"),
    ):
        assert main(["compare", *pair]) == 2
        assert message in capsys.readouterr().err
    folder.file("other", changed(board="microbit"))
    assert main(["gate", "--baseline", "other.json", "--max-ram", "0"]) == 2
    assert "has no measurement of kws on microbit" in capsys.readouterr().err


def test_a_gate_fails_on_a_slowdown_of_three_per_cent(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measured on an emulated board: a loop in one layer's code, and the same code without it."""
    monkeypatch.chdir(folder.path)
    monkeypatch.setenv("HIL_HISTORY", "history.db")
    assert main(["compile", str(DIGITS), "--board", BOARD, "-o", "library/"]) == 0
    capsys.readouterr()
    assert main(["bench", "library", "--board", BOARD, "--json"]) == 0
    out, err = capsys.readouterr()
    (folder.path / "base.json").write_text(out)
    assert "entry 1 of the history" in err
    measured = answers.entry(out)
    before = measured["per_inference"]
    owners = measured["flash_by_owner"]
    assert sum(owners.values()) == measured["firmware_flash_bytes"]
    own = sum(owners[owner] for owner in ("kernels", "constants", "glue"))
    assert 0 <= measured["model_flash_bytes"] - own <= owners["runtime"]

    line = ["gate", "library", "--board", BOARD, "--baseline", "base.json", "--max-slower", "2%"]
    assert main([*line, "--max-ram", "0", "--max-flash", "0"]) == 0
    assert "within the limits" in capsys.readouterr().out
    # Nobody asked for the other board of this baseline.
    folder.file("two", {"boards": [measured, {**measured, "board": "microbit"}]})
    two = [*line[:-3], "two.json", "--max-slower", "2%", "--no-history"]
    assert main(two) == 0
    capsys.readouterr()

    # An iteration takes three instructions: nop, subtraction, branch.
    iterations = round(0.03 * before / 3)
    loop = f'for (int i = {iterations}; i > 0; i--) {{ __asm__ volatile("nop"); }}'
    source = folder.path / "library" / "codegen" / "host" / "src" / "digits_lib1.c"
    text, replaced = re.subn(
        r"(int32_t tvmgen_digits_fused_max_pool_2d_\d+\([^)]*\) \{)",
        rf"\1 {loop}",
        source.read_text(),
        count=1,
    )
    assert replaced == 1
    source.write_text(text)
    assert main([*line, "--json"]) == 1
    (verdict,) = answers.entries(capsys.readouterr().out)
    (excess,) = verdict["excesses"]
    assert 2.9 < excess["percent"] < 3.1
    assert excess["layer"] == "MAX_POOL_2D digits_1/pool_1/MaxPool2d"
    # Each of these runs is in the history, and the gate takes the newest without another run.
    assert [e.result["model"] for e in History("history.db").entries()] == ["digits"] * 3
    assert main(["gate", "--baseline", "base.json", "--max-slower", "4%"]) == 0
    capsys.readouterr()
    assert main(["gate", "--baseline", "base.json", "--max-slower", "2%"]) == 1
    assert "most of it in MAX_POOL_2D" in capsys.readouterr().out


# -- goals, and measurements that are missing ----------------------------------------------------


def of_goal(goal: str | None, **values: Any) -> dict[str, Any]:
    """A measurement with this goal; None: the options name none, as by default."""
    options = {"optimize": goal} if goal else {}
    return changed(provenance={**BENCH["provenance"], "options": options}, **values)


def test_each_goal_has_its_baseline(folder: Folder) -> None:
    base = {"boards": [of_goal("speed", per_inference=500), of_goal("size", per_inference=4000)]}
    slow = {"boards": [of_goal("speed", per_inference=4000), of_goal("size", per_inference=4000)]}
    for boards in (slow, {"boards": slow["boards"][::-1]}):
        text = folder.gate(boards, "--max-slower", "1%", baseline=base, code=1)
        assert "kws on mps2-an386, goal speed: 4,000" in text
    data = json.loads(folder.gate(slow, "--max-slower", "1%", "--json", baseline=base, code=1))
    assert [(one["goal"], one["passed"]) for one in data["results"]] == [
        ("speed", False),
        ("size", True),
    ]
    assert main(["compare", folder.file("a", base), folder.file("b", slow), "--json"]) == 0
    found = json.loads(folder._capsys.readouterr().out)["results"]
    assert [one["per_inference"]["difference"] for one in found] == [3500, 0]


@cases(
    ("before", "now", "code"),
    [
        ("speed", "speed", 0),
        ("speed", "size", 2),
        ("size", None, 2),
        # The default goal.
        ("balanced", None, 0),
    ],
    first=1,
)
def test_a_baseline_has_the_same_goal(
    before: str, now: str | None, code: int, folder: Folder
) -> None:
    text = folder.gate(of_goal(now), "--max-slower", "1%", baseline=of_goal(before), code=code)
    assert code == 0 or f"is of kws on mps2-an386, goal {before}, not of kws on mps2" in text
    # An older file does not name its goal.
    folder.gate(of_goal(now), "--max-slower", "1%", baseline=BENCH)
    folder.gate(BENCH, "--max-slower", "1%", baseline=of_goal(before))


def test_the_goal_of_a_board_is_that_of_its_models(folder: Folder) -> None:
    base = {"boards": [{"board": BOARD, "optimize": "speed", "models": [BENCH]}]}
    assert "goal speed, not of" in folder.gate(
        of_goal("size"), "--max-ram", "0", baseline=base, code=2
    )


@pytest.mark.parametrize(
    ("current", "baseline", "message"),
    [
        ([BENCH, BENCH], [BENCH], "several measurements of kws on mps2-an386"),
        ([BENCH], [BENCH, BENCH], "has 2 measurements that may be that of kws on mps2-an386"),
        ([BENCH], [of_goal("speed"), of_goal("size")], "has 2 measurements that may be that of"),
        ([], [BENCH], "has no results: nothing was measured"),
        ([BENCH], [], "has no results: nothing was measured"),
        ([{"models": []}], [BENCH], "has no results: nothing was measured"),
        ([BENCH], [BENCH, changed(board="x")], "has kws on x, which was not measured now"),
        ([BENCH], [BENCH, changed(model="ad")], "has ad on mps2-an386, which was not measured"),
        (
            [of_goal("size")],
            [of_goal("speed"), of_goal("size")],
            "has kws on mps2-an386, goal speed, which was not measured now",
        ),
        ([changed(checked={**BENCH["checked"], "samples": 0})], [BENCH], "samples is 0"),
        ([BENCH], [changed(checked={**BENCH["checked"], "samples": 0})], "samples is 0"),
        ([changed(per_inference=0)], [BENCH], "per_inference is 0"),
    ],
)
def test_too_little_was_measured(
    current: list[Any], baseline: list[Any], message: str, folder: Folder
) -> None:
    error = folder.gate(
        {"boards": current}, "--max-slower", "1%", baseline={"boards": baseline}, code=2
    )
    assert message in error
    assert "hint: " in error


def test_gates_of_python_refuse_nothing() -> None:
    baselines = read_measurements(BENCH, "base")
    with pytest.raises(InputError, match="nothing was measured"):
        gates(baselines, [], {})
    assert len(gates(baselines, read_measurements(BENCH, "now"), {})) == 1


@pytest.mark.parametrize("data", [{"boards": []}, {"models": []}])
def test_nothing_is_not_compared(
    data: Any, folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", folder.file("a", data), folder.file("b", data)]) == 2
    assert "nothing was measured" in capsys.readouterr().err


def test_missing_measurements_may_be_allowed(folder: Folder) -> None:
    both = {"boards": [BENCH, changed(board="microbit")]}
    folder.gate(BENCH, "--max-slower", "1%", baseline=both, code=2)
    folder.gate(BENCH, "--max-slower", "1%", "--allow-missing", baseline=both)


def test_an_entry_is_compared_alone(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)
    History("history.db").record("bench", BENCH)
    folder.file("both", {"boards": [BENCH, changed(board="microbit")]})
    words = ["--baseline", "both.json", "--max-slower", "1%", "--history", "history.db"]
    assert main(["gate", "1", *words]) == 0


def test_a_run_is_not_held_to_itself(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By other paths of its file, by a copy of it, and by its entry of the history."""
    monkeypatch.chdir(folder.path)
    run = changed(provenance={**BENCH["provenance"], "run": "f0" * 16})
    folder.file("old", BENCH)
    (folder.path / "link.json").symlink_to("old.json")
    (folder.path / "hard.json").hardlink_to("old.json")
    folder.file("run", run)
    folder.file("copy", run)
    History("history.db").record("bench", run)
    History("history.db").record("bench", BENCH)
    gated = [["old.json", str(folder.path / "old.json")], ["old.json", "./old.json"]]
    gated += [["old.json", "link.json"], ["old.json", "hard.json"], ["run.json", "copy.json"]]
    gated += [["run.json", "1"], ["1", "run.json"], ["2", "2"]]
    for current, baseline in gated:
        words = ["--baseline", baseline, "--max-slower", "1%", "--history", "history.db"]
        assert main(["gate", current, *words]) == 2
        assert "would be compared with itself" in capsys.readouterr().err
    assert main(["gate", "old.json", "--baseline", "run.json", "--max-slower", "1%"]) == 0


def test_the_newest_of_a_goal_is_taken(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the history, and of a commit in it."""
    monkeypatch.chdir(folder.path)
    history = History("history.db")
    commit = "ab" * 20
    for goal, count in (("speed", 900), ("speed", 500), ("size", 4000)):
        one = of_goal(goal, per_inference=count)
        one["provenance"]["commit"] = commit
        history.record("bench", one)
    folder.file("base", of_goal("speed", per_inference=400))
    line = ["gate", "--max-slower", "1%", "--history", "history.db", "--baseline"]
    assert main([*line, "base.json"]) == 1
    assert "goal speed: 500" in capsys.readouterr().out
    now = {"boards": [of_goal("speed", per_inference=500), of_goal("size", per_inference=4000)]}
    assert main([*line, commit, folder.file("now", now)]) == 0
    assert capsys.readouterr().out.count("unchanged") == 2
    assert main(["history", "--history", "history.db"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "(-44.44 %)" in shown[2]
    assert "%" not in shown[3]
