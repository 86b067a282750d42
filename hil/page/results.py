"""Results of models on boards, from the JSON of the commands, as the page shows them.

The JSON of ``hil verify``, ``bench``, ``build``, ``evaluate``, ``explain`` and ``report`` is read;
what is about the same model on the same board comes together. It is untrusted input.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Any, Literal

from hil.board import board_names, load_board
from hil.history.measurement import DEFAULT_GOAL, goal_of
from hil.page.figures import check_figures, is_ascending
from hil.page.plan_json import plan_from_json
from hil.verify.errors import ErrorBin
from hilc.errors import InputError
from hilc.memory.explain import Explanation
from hilc.support.inputs import check_regular
from hilc.support.jsondata import decode, has_surrogate, parse_json

#: Version of the JSON of ``hil report``.
VERSION = 1
_REMEDY = "give the JSON that hil report, verify, bench, build, evaluate or explain wrote (--json)"
#: Limit of a file of results, and of a number in it.
_MOST_BYTES, _LARGEST = 1 << 28, 1 << 63
_MOST_NESTED = 40

#: ``missed``: a metric of an evaluation exceeds its limit; ``skipped``: too large for the board.
Status = Literal["match", "differ", "missed", "failed", "measured", "skipped"]
#: Most classes of an evaluation, far above what a microcontroller tells apart.
_MOST_CLASSES = 5000


@dataclass(frozen=True)
class File:
    """A file that a result was made from: the model or the image."""

    sha256: str | None = None
    build_id: str | None = None


@dataclass(frozen=True)
class Samples:
    """The inputs of a result."""

    sha256: str
    samples: int


@dataclass(frozen=True)
class Provenance:
    """What a result was made from, by ``hil verify`` and ``hil bench``."""

    model: File
    image: File
    inputs: Samples
    runner: str = ""
    commit: str | None = None
    dirty: bool | None = None
    c_flags: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True)
class TensorResult:
    """Differences of a tensor over all samples."""

    name: str
    mismatches: int
    max_abs_diff: float | None = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    #: Device minus reference: in steps of an integer type, else relative to the largest value.
    errors: tuple[ErrorBin, ...] = ()


@dataclass(frozen=True)
class VerifiedLayer:
    """Differences of a layer; without ``outputs`` it is not in the model's file."""

    name: str
    op: str
    match: bool
    outputs: tuple[TensorResult, ...] = ()

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true, as :func:`~hil.page.figures.check_figures` wants it."""
        differs = any(output.mismatches for output in self.outputs)
        if self.match == differs:
            how = "matches, with" if differs else "differs, without"
            yield f"layer {self.name!r} {how} mismatches"


@dataclass(frozen=True)
class DifferentElement:
    """The first element that differs, and the layer that it is of, if that is known."""

    tensor: str
    sample: int
    position: tuple[int, ...]
    expected: float | None = None
    got: float | None = None
    index: int | None = None
    op: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The kind of the difference of the first layer that differs."""

    layer: int
    name: str
    op: str
    kind: str
    sentence: str


@dataclass(frozen=True)
class FidelityOfTensor:
    """How far a tensor is from that of another model, in real numbers; None: not defined."""

    name: str
    layer: int | None = None
    rmse: float | None = None
    mae: float | None = None
    max_abs_diff: float | None = None
    l2r: float | None = None
    nse: float | None = None
    cos: float | None = None
    snr_db: float | None = None
    top1: float | None = None
    top5: float | None = None


@dataclass(frozen=True)
class Fidelity:
    """How far a model is from a reference or a model in floats, of ``hil verify --metrics``."""

    against: str
    outputs: tuple[FidelityOfTensor, ...]
    layers: tuple[FidelityOfTensor, ...] = ()


@dataclass(frozen=True)
class MissedFaults:
    """Share of inferences in which a fault would have shown with this confidence."""

    rate: float | None
    confidence: float


@dataclass(frozen=True)
class Verified:
    """Result of ``hil verify``."""

    samples: int
    reference: str
    match: bool
    outputs: tuple[TensorResult, ...]
    reference_description: str = ""
    seconds: float | None = None
    layers: tuple[VerifiedLayer, ...] | None = None
    first_difference: DifferentElement | None = None
    first_different_layer: DifferentElement | None = None
    diagnosis: Diagnosis | None = None
    metrics: tuple[Fidelity, ...] = ()
    provenance: Provenance | None = None
    #: Whether other people's code computed the reference, not this compiler's interpreter.
    independent: bool = True
    missed_fault_rate: MissedFaults | None = None
    #: Share of the largest magnitude of a tensor within which its floats are equal.
    float_tolerance: float | None = None

    @property
    def is_good(self) -> bool:
        return self.match

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        differ = any(output.mismatches for output in self.outputs)
        differ = differ or not all(layer.match for layer in self.layers or ())
        if self.match == differ:
            yield f"match is {str(self.match).lower()}, and the tensors say otherwise"
        # Older files have no shapes; () is the shape of one element as well.
        if not any(prod(output.shape) for output in self.outputs):
            yield "no element of an output was compared"
        of_layers = (output for layer in self.layers or () for output in layer.outputs)
        for output in (*self.outputs, *of_layers):
            elements = prod(output.shape) * self.samples
            if output.shape and output.mismatches > elements:
                yield f"{output.name!r} has {output.mismatches} mismatches of {elements} elements"


@dataclass(frozen=True)
class MeasuredLayer:
    """Share of a layer in an inference."""

    name: str
    op: str
    macs: int
    count: int
    #: Operators of a fused group; empty for a single layer.
    ops: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerLimit:
    """Instructions below which the core cannot do a layer, and how many times as many it took."""

    instructions: int | None
    ratio: float | None


@dataclass(frozen=True)
class Limit:
    """The same of the model, and of each layer."""

    instructions: int | None
    ratio: float | None
    layers: tuple[LayerLimit, ...]


@dataclass(frozen=True)
class Estimate:
    """Estimated cycles of the core: from and to, and by which table."""

    cycles: Mapping[str, int]
    core: str = ""
    source: str = ""
    assumes: str = ""


@dataclass(frozen=True)
class Energy:
    """Energy of an inference in microjoules, median over the inferences that were recorded."""

    per_inference_uj: float
    inferences: int
    source: str = ""
    min_uj: float | None = None
    max_uj: float | None = None
    mean_power_mw: float | None = None

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if not is_ascending(self.min_uj, self.per_inference_uj, self.max_uj):
            yield "per_inference_uj is not from min_uj to max_uj"


@dataclass(frozen=True)
class Checked:
    """Comparison of the outputs of a measured firmware with a reference."""

    samples: int
    reference: str
    match: bool
    independent: bool = True


@dataclass(frozen=True)
class Benched:
    """Result of ``hil bench``."""

    counter: str
    per_inference: int
    model_flash_bytes: int
    firmware_flash_bytes: int
    workspace_bytes: int
    ram_bytes: int
    stack_peak_bytes: int
    layers: tuple[MeasuredLayer, ...]
    io_bytes: int = 0
    io_in_workspace: bool = False
    state_bytes: int = 0
    macs: int | None = None
    counts: tuple[int, ...] = ()
    warmup: int | None = None
    clock_hz: int | None = None
    #: Microseconds at the board's clock; None where instructions were counted.
    latency_us: float | None = None
    stack_bytes: int | None = None
    flash_by_owner: Mapping[str, int] = field(default_factory=dict)
    limit: Limit | None = None
    estimate: Estimate | None = None
    energy: Energy | None = None
    provenance: Provenance | None = None
    #: None where the outputs were not compared.
    checked: Checked | None = None

    @property
    def is_good(self) -> bool:
        return self.checked is None or self.checked.match


@dataclass(frozen=True)
class Score:
    """A metric's value and its 95% confidence interval; None where it is not defined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    #: How the interval was computed.
    interval: str = ""

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if not is_ascending(self.low, self.value, self.high):
            yield "its interval does not hold its value"


@dataclass(frozen=True)
class ScoredMetric:
    """A metric of the device's outputs, and of the reference's."""

    name: str
    device: Score
    reference: Score
    min: float | None = None
    max: float | None = None
    met: bool = True

    @property
    def is_within_limits(self) -> bool:
        """Whether the device's value keeps the limits; one that is not defined keeps none."""
        value = self.device.value
        if value is None:
            return self.min is None and self.max is None
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if self.met != self.is_within_limits:
            yield f"met is {str(self.met).lower()}, and the value and its limits say otherwise"


@dataclass(frozen=True)
class Evaluated:
    """Result of ``hil evaluate``."""

    samples: int
    metrics: tuple[ScoredMetric, ...]
    reference: str
    #: Samples whose outputs differ from the reference's.
    mismatches: int
    met: bool = True
    reference_description: str = ""
    classes: tuple[str, ...] | None = None
    #: Of the labels (rows) and the device's classes (columns).
    confusion: tuple[tuple[int, ...], ...] | None = None
    transport: str = ""
    seconds: float | None = None
    provenance: Provenance | None = None
    independent: bool = True

    @property
    def is_good(self) -> bool:
        return self.met and not self.mismatches

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot all be true."""
        if self.mismatches > self.samples:
            yield f"{self.mismatches} of {self.samples} samples differ"
        if not self.metrics:
            yield "it has no metric"
        if self.met != all(metric.met for metric in self.metrics):
            yield f"met is {str(self.met).lower()}, and the metrics say otherwise"
        if (told := sum(map(sum, self.confusion or ()))) > self.samples:
            yield f"its confusion matrix is of {told} samples, and there are {self.samples}"


@dataclass(frozen=True)
class Region:
    """Use of a memory region, stacks included."""

    name: str
    used: int
    size: int


@dataclass(frozen=True)
class Section:
    """Bytes of one kind of section, by owner."""

    name: str
    in_flash: bool
    in_ram: bool
    parts: Mapping[str, int]


@dataclass(frozen=True)
class Built:
    """Result of ``hil build``."""

    flash_bytes: int
    ram_bytes: int
    regions: tuple[Region, ...] = ()
    sections: tuple[Section, ...] = ()
    build_id: str = ""
    stack_bytes: int | None = None
    handler_stack_bytes: int | None = None
    stack_bound_bytes: int | None = None


@dataclass(frozen=True)
class About:
    """Descriptions of the model and the board, by ``hil report``."""

    #: File name and size of the model.
    file: str = ""
    nbytes: int | None = None
    #: Which reference's arithmetic the code computes, and how it rounds.
    arithmetic: str = ""
    rounding: str = ""
    inputs: str = ""
    options: str = ""
    board: str = ""
    cpu: str = ""
    clock_hz: int | None = None


@dataclass(frozen=True)
class Run:
    """A measurement of the history."""

    #: In words: date and time, and the commit if there was one.
    time: str
    counter: str
    per_inference: int
    workspace_bytes: int | None = None
    model_flash_bytes: int | None = None
    ram_bytes: int | None = None
    commit: str | None = None


@dataclass(frozen=True)
class Failure:
    """Error in place of a result."""

    message: str
    hint: str = ""


@dataclass(frozen=True)
class RecoveryStep:
    """A step that was taken to bring a failed board back, or a run that was repeated."""

    step: str
    reason: str
    board: str = ""
    seconds: float = 0.0
    #: Why it failed; empty if the board was back.
    failure: str = ""


@dataclass(frozen=True)
class _Recovered:
    """The key that every result of a board has."""

    recoveries: tuple[RecoveryStep, ...] = ()


@dataclass(frozen=True)
class Result:
    """What is known of a model on a board; a part that nobody measured is None."""

    model: str
    board: str
    verified: Verified | None = None
    benched: Benched | None = None
    built: Built | None = None
    evaluated: Evaluated | None = None
    plan: Explanation | None = None
    about: About | None = None
    #: Measurements of the same model on the same board, the oldest first.
    history: tuple[Run, ...] | None = None
    log: tuple[str, ...] | None = None
    command: str | None = None
    failure: Failure | None = None
    #: Why it was skipped; empty if it ran.
    skipped: str = ""
    #: Goal of the compiler, where a matrix has several.
    goal: str = ""
    #: What it took to bring the board back.
    recoveries: tuple[RecoveryStep, ...] = ()

    @property
    def provenance(self) -> Provenance | None:
        """Provenance of the comparison; of the measurement where nothing was compared."""
        parts = (self.verified, self.benched, self.evaluated)
        return next((part.provenance for part in parts if part and part.provenance), None)

    @property
    def status(self) -> Status:
        if self.failure is not None:
            return "failed"
        if self.skipped:
            return "skipped"
        if self.verified is not None and not self.verified.match:
            return "differ"
        if self.benched is not None and not self.benched.is_good:
            return "differ"
        if self.evaluated is not None and not self.evaluated.met:
            return "missed"
        if self.evaluated is not None and self.evaluated.mismatches:
            return "differ"
        return "match" if self.comparisons else "measured"

    @property
    def comparisons(self) -> tuple[Verified | Checked | Evaluated, ...]:
        """The comparisons with a reference."""
        checked = self.benched.checked if self.benched is not None else None
        found = (self.verified, checked, self.evaluated)
        return tuple(part for part in found if part is not None)

    @property
    def is_independent(self) -> bool:
        """Whether other people's code computed a reference that it was compared with."""
        return any(part.independent for part in self.comparisons)


@dataclass(frozen=True)
class _Ended:
    """The keys that say how a combination of a matrix ended."""

    #: Model as it was given; empty where all models are in one image.
    source: str = ""
    error: Failure | None = None
    skipped: str = ""
    exit_code: int = 0

    @property
    def name(self) -> str:
        name, equals, _ = self.source.partition("=")
        return name if equals else Path(self.source).stem


@dataclass(frozen=True)
class _Plain:
    """Keys of one result in the JSON of ``hil report``, beside those with contracts of others."""

    model: str
    board: str
    about: About | None = None
    history: tuple[Run, ...] | None = None
    log: tuple[str, ...] | None = None
    command: str | None = None
    error: Failure | None = None


def read_results(path: str | Path) -> list[Result]:
    """Return the results of a JSON file; :class:`~hilc.errors.InputError` for one that has none."""
    path = Path(path)
    check_regular(path, _REMEDY, most_bytes=_MOST_BYTES)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", _REMEDY) from None
    return results_in(parse_json(text, str(path), _REMEDY), str(path))


def results_in(data: Any, label: str) -> list[Result]:
    """Return the results in a JSON value; ``label`` names it in messages."""
    _check_values(data, label)
    results = list(_results(data, label, ""))
    if not results:
        raise InputError(f"{label} holds no result of a model on a board", _REMEDY)
    return results


def merged(results: Iterable[Result]) -> list[Result]:
    """Return one result for each model, board and goal, in the order of their first mention.

    Of a part that several have, the last counts, but a comparison, a measurement or an evaluation
    that is good does not replace one that is not. A plan, which names no board, is for every board
    of its model whose core is its own.
    """
    found: dict[tuple[str, str, str], Result] = {}
    for_all = []
    for result in results:
        if not result.board:
            for_all.append(result)
            continue
        key = (result.model, result.board, result.goal)
        found[key] = _joined(found[key], result) if key in found else result
    for of_model in for_all:
        for key, result in found.items():
            if of_model.plan and key[0] == of_model.model and of_model.plan.cpu == _core(result):
                found[key] = replace(result, plan=of_model.plan)
    if not found:
        raise InputError("the results name no board, as a plan alone does not", _REMEDY)
    return list(found.values())


def _joined(known: Result, newer: Result) -> Result:
    given = {f.name: value for f in fields(newer) if (value := getattr(newer, f.name))}
    for part in ("verified", "benched", "evaluated"):
        before = getattr(known, part)
        if before is not None and not before.is_good and part in given and given[part].is_good:
            del given[part]
    given["recoveries"] = known.recoveries + newer.recoveries
    return replace(known, **given)


def _core(result: Result) -> str:
    """Return the core of a result's board; empty for a board that is not known here."""
    if result.about is not None:
        return result.about.cpu
    return load_board(result.board).cpu.name if result.board in board_names() else ""


def _results(data: Any, label: str, board: str) -> list[Result]:
    """Return the results in ``data``; raise where its exit code contradicts all of them."""
    found = list(_nested(data, label, board))
    code = _part(_Ended, data, label).exit_code
    if code and found and all(result.status in ("match", "measured") for result in found):
        raise InputError(f"{label}: exit_code is {code}, and the result says otherwise", _REMEDY)
    return found


def _nested(data: Any, label: str, board: str) -> Iterator[Result]:
    if not isinstance(data, dict):
        raise InputError(f"{label} is of type {type(data).__name__}, not an object", _REMEDY)
    board = data["board"] if isinstance(data.get("board"), str) else board
    for key, part in (("results", "result"), ("boards", "board")):
        if isinstance(data.get(key), list):
            for index, one in enumerate(data[key]):
                yield from _results(one, f"{label}, {part} {index}", board)
            return
    if isinstance(data.get("entries"), list):
        yield from _recorded(data["entries"], label)
        return
    if isinstance(data.get("models"), list) and "build_id" not in data:
        for index, one in enumerate(data["models"]):
            if isinstance(one, dict) and "optimize" in data:
                one = {**one, "optimize": data["optimize"]}
            yield from _results(one, f"{label}, model {index}", board)
        if "error" in data:  # it ended the models after these
            ended = _part(_Ended, data, label)
            yield Result(ended.name, board, failure=ended.error)
        return
    goal = data.get("optimize")
    for result in _read(data, label, board):
        _check_skipped(result, _part(_Ended, data, label).skipped, label)
        result = replace(result, recoveries=tuple(_recoveries(data, label)))
        yield replace(result, goal=goal) if isinstance(goal, str) else result


def _read(data: Mapping[str, Any], label: str, board: str) -> Iterator[Result]:
    """Yield the result that one JSON object of a command is."""
    if data.keys() & {"verify", "bench", "build", "evaluate"}:
        yield _whole(data, label)
    elif "model" not in data and data.keys() & {"error", "skipped"}:
        ended = _part(_Ended, data, label)
        yield Result(ended.name, board, failure=ended.error, skipped=ended.skipped)
    elif "build_id" in data and isinstance(data.get("models"), list):
        for model in data["models"]:
            name = model.get("model") if isinstance(model, dict) else None
            yield Result(_name(name, label), board, built=_part(Built, data, label))
    elif "tenants" in data:
        plan = plan_from_json(data, label)
        yield Result(plan.model, "", plan=plan)
    elif "match" in data and "outputs" in data:
        # These may have metrics, too: of tensors, where those of an evaluation are of labels.
        yield Result(_name(data.get("model"), label), board, _part(Verified, data, label))
    elif "metrics" in data and "samples" in data:
        evaluated = _evaluated(data, label)
        yield Result(_name(data.get("model"), label), board, evaluated=evaluated)
    elif "per_inference" in data:
        benched = _part(Benched, data, label)
        yield Result(_name(data.get("model"), label), board, benched=benched)
    elif "error" in data:
        yield _whole(data, label)
    else:
        raise InputError(
            f"{label} is no result that a page can show; its keys are {sorted(data)[:12]}", _REMEDY
        )


def _check_skipped(result: Result, skipped: str, label: str) -> None:
    """Raise for the result of a combination that was skipped."""
    if skipped and (result.comparisons or result.benched or result.failure):
        raise InputError(f"{label} was skipped, and has a result", _REMEDY)


def _recoveries(data: Mapping[str, Any], label: str) -> Iterator[RecoveryStep]:
    """Yield the recoveries of a result, and those of its parts."""
    yield from _part(_Recovered, data, label).recoveries
    for key in ("verify", "bench", "evaluate"):
        if isinstance(data.get(key), dict):
            yield from _part(_Recovered, data[key], f"{label}: {key}").recoveries


def runs_of(entries: Sequence[Mapping[str, Any]], label: str) -> tuple[Run, ...]:
    """Return the measurements among the entries of a history, in their JSON."""
    runs = []
    for index, entry in enumerate(entries):
        told = entry.get("result") if isinstance(entry, Mapping) else None
        if not isinstance(told, Mapping) or entry.get("kind") != "bench":
            continue
        given = {**told, "time": entry.get("time"), "commit": entry.get("commit")}
        runs.append(_part(Run, given, f"{label}, entry {index}"))
    return tuple(runs)


def _recorded(entries: Sequence[Any], label: str) -> Iterator[Result]:
    """Yield the measurements of ``hil history``, those of a model, board and goal together."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for index, entry in enumerate(entries):
        named = entry if isinstance(entry, dict) else {}
        where = f"{label}, entry {index}"
        model, board = _name(named.get("model"), where), _name(named.get("board"), label)
        result = named.get("result")
        goal = goal_of(result, where) if isinstance(result, dict) else None
        # As results have it that are of the default goal.
        shown = "" if goal in (None, DEFAULT_GOAL) else goal
        found.setdefault((model, board, shown), []).append(entry)
    for (model, board, goal), own in found.items():
        if runs := runs_of(own, label):
            yield Result(model, board, history=runs, goal=goal)


def _whole(data: Mapping[str, Any], label: str) -> Result:
    """Return one of the results of ``hil report``."""
    plain = _part(_Plain, data, label)
    parts: Mapping[str, Any] = {
        name: None if data.get(key) is None else _part(kind, data[key], f"{label}: {key}")
        for name, key, kind in (
            ("verified", "verify", Verified),
            ("benched", "bench", Benched),
            ("built", "build", Built),
        )
    }
    plan, evaluate = data.get("plan"), data.get("evaluate")
    return Result(
        plain.model,
        plain.board,
        **parts,
        evaluated=None if evaluate is None else _evaluated(evaluate, f"{label}: evaluate"),
        plan=None if plan is None else plan_from_json(plan, f"{label}: plan"),
        about=plain.about,
        history=plain.history,
        log=plain.log,
        command=plain.command,
        failure=plain.error,
    )


def _evaluated(data: Any, label: str) -> Evaluated:
    evaluated: Evaluated = _part(Evaluated, data, label)
    count, rows = len(evaluated.classes or ()), evaluated.confusion or ()
    if count > _MOST_CLASSES or any(len(row) != len(rows) for row in rows):
        raise InputError(
            f"{label} has a confusion matrix that is not square, or too large", _REMEDY
        )
    if rows and len(rows) != count:
        raise InputError(f"{label} has {count} classes and {len(rows)} rows of confusion", _REMEDY)
    return evaluated


def _part(kind: Any, data: Any, label: str) -> Any:
    part = decode(kind, data, label, exact=False)
    check_figures(part, label, _REMEDY)
    return part


def _name(name: Any, label: str) -> str:
    if not isinstance(name, str) or not name:
        raise InputError(f"{label} names no model", _REMEDY)
    return name


def _check_values(data: Any, label: str) -> None:
    """Raise for numbers and nesting that nothing here could follow."""
    pending: list[tuple[Any, int]] = [(data, 0)]
    while pending:
        value, depth = pending.pop()
        children: Sequence[Any] = ()
        if isinstance(value, dict):
            children = (*value, *value.values())
        elif isinstance(value, list):
            children = value
        is_wrong = (
            depth > _MOST_NESTED
            or (isinstance(value, float) and not math.isfinite(value))
            or (isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST)
            or has_surrogate(value)
        )
        if is_wrong:
            shown = "nesting" if depth > _MOST_NESTED else repr(value)[:40]
            raise InputError(f"{label} holds {shown}, which no result has", _REMEDY)
        pending.extend((child, depth + 1) for child in children)
