"""What the page's template shows of results: rows, texts and charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from math import ceil
from typing import TYPE_CHECKING, Any

from hil.page.results import Result, Status
from hil.page.suite import SuiteResult
from hil.results.build import RegionSize
from hil.results.evaluate import MetricEntry, ScoreEntry
from hil.results.parts import TensorDifference
from hil.results.report import RecordedRun
from hil.results.verify import LayerDifference, TensorFidelity
from hil.support.fused import group_text
from hilc.memory.explanation import BEFORE, ArenaSlot, Explanation

if TYPE_CHECKING:
    from markupsafe import Markup

#: Order of statuses, the worst first; mark and word of each.
_STATUSES: Mapping[Status, tuple[str, str]] = {
    "failed": ("\N{BALLOT X}", "failed"),
    "differ": ("\N{BALLOT X}", "differs"),
    "missed": ("\N{BALLOT X}", "limit missed"),
    "measured": ("\N{BULLET}", "not compared"),
    "skipped": ("\N{BULLET}", "skipped"),
    "match": ("\N{CHECK MARK}", "equal"),
}
#: The note on a reference that this project's own code computes.
_NOT_INDEPENDENT = "this compiler's own interpreter, not independent"
_COUNTERS = {
    "instructions": "Instructions are counted by an emulator; they are not cycles.",
    "cycles": "Cycles are counted by the board.",
}
#: Tensors whose errors are drawn for one result.
_MOST_ERRORS = 4
#: Classes of a confusion matrix that is shown whole, and confusions that are listed.
_MOST_CLASSES, _MOST_CONFUSIONS = 32, 20


def number(value: float | int | None) -> str:
    """Return a number with separators; a dash for none."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.3g}"
    return f"{int(value):,}"


def bin_text(error: Any) -> str:
    """Return the range of a bin of the histogram of errors as text."""
    return _charts().bin_text(error)  # type: ignore[no-any-return]


def _ratio(value: float | None) -> str:
    return number(None) if value is None else f"{value:.2f}"


def _charts() -> Any:
    # Not at the top: the plotting library takes a second to import.
    return import_module("hil.page.charts")


@dataclass(frozen=True)
class _Cell:
    """A figure in the summary."""

    label: str
    value: str
    unit: str = ""
    #: Percent of the largest figure of its model, for a bar.
    share: float | None = None


@dataclass(frozen=True)
class _Recovery:
    step: str
    reason: str
    seconds: str
    end: str


@dataclass(frozen=True)
class _Row:
    name: str
    value: str
    is_code: bool = False


@dataclass(frozen=True)
class _Group:
    title: str
    facts: Sequence[_Row]


@dataclass(frozen=True)
class _LayerRow:
    index: int
    op: str
    name: str
    count: int | None
    bar: float
    share: str
    macs: int | None
    per_mac: str
    limit: str
    exact: str
    #: Class of the badge, None where nothing was compared; and its mark.
    status: Status | None
    mark: str


@dataclass(frozen=True)
class _FidelityRow:
    #: ``output``, or the layer's index.
    place: str
    name: str
    #: In the order of the view's columns.
    values: Sequence[str]


@dataclass(frozen=True)
class _FidelityView:
    #: Title of the table, and the rows of outputs and of layers.
    title: str
    key: str
    outputs: Sequence[_FidelityRow]
    layers: Sequence[_FidelityRow]


@dataclass(frozen=True)
class _MetricRow:
    name: str
    who: str
    value: str
    interval: str
    #: Places of the interval and the value on a line that ends at 1; None for other metrics.
    places: Mapping[str, str] | None
    limit: str


@dataclass(frozen=True)
class _ClassRow:
    name: str
    counts: Sequence[int]
    #: Shares of the row's samples.
    shares: Sequence[str]


@dataclass(frozen=True)
class _Errors:
    name: str
    unit: str
    bins: Sequence[Any]
    chart: Markup


@dataclass(frozen=True)
class _RegionRow:
    name: str
    used: int
    size: int
    full: str
    share: float


@dataclass(frozen=True)
class _Owner:
    name: str
    nbytes: int
    share: str
    colour: str


@dataclass(frozen=True)
class _SectionRow:
    name: str
    place: str
    parts: Sequence[int | None]
    total: int


@dataclass(frozen=True)
class _SlotRow:
    name: str
    what: str
    nbytes: int
    pool: str
    offset: int
    end: int
    life: str


class PageView:
    """What the template shows of all results."""

    def __init__(
        self,
        results: Sequence[Result],
        title: str | None,
        command: str | None,
        made: str | None,
        suite: SuiteResult | None = None,
    ) -> None:
        self.command = command
        self.made = made
        self.suite = suite
        names = list(dict.fromkeys(result.model for result in results))
        self.models = [
            _ModelView(name, f"model-{index}", [r for r in results if r.model == name])
            for index, name in enumerate(names)
        ]
        boards = list(dict.fromkeys(result.board for result in results))
        where = boards[0] if len(boards) == 1 else f"{len(boards)} boards"
        on = f" on {where}" if results else ""
        what = "Tests" if suite else "Results"
        self.title = title or f"{' and '.join(filter(None, names)) or what}{on}"
        views = [view for model in self.models for view in model.views]
        counts = Counter(view.status for view in views)
        self.status = _status(counts, suite)
        self.mark = _STATUSES[self.status][0]
        verdicts = [suite.verdict] if suite else []
        verdicts += [_verdict(counts, len(views)) + _weak_references(results)] if views else []
        self.verdict = ". ".join(verdicts)
        self.recovered = _recovered(results, suite)
        units = dict.fromkeys(v.counter for v in views if v.counter)
        self.counters = " ".join(_COUNTERS.get(unit, "") for unit in units)
        self.summary = f"{_plural(len(names), 'model')}, {_plural(len(boards), 'board')}."
        self.summary = self.summary if results else ""
        #: Columns of the summary: those that some result has.
        labels = dict.fromkeys(cell.label for view in views for cell in view.figures)
        self.columns = [label for label in _COLUMNS if label in labels]
        for view in views:
            view.columns = self.columns


def _status(counts: Mapping[Status, int], suite: SuiteResult | None) -> Status:
    """Return the worst status of the results and the run of tests.

    What nothing was compared with has no verdict, but tests that passed have.
    """
    found = {status for status in _STATUSES if counts[status]}
    if suite is not None:
        found = {*(found - {"measured", "skipped"}), suite.status}
    return next(status for status in _STATUSES if status in found)


def _recovered(results: Sequence[Result], suite: SuiteResult | None) -> str:
    """Return a sentence about failures of boards; empty if there were none."""
    count = sum(len(result.recoveries) for result in results)
    if suite is not None:
        # Those of the tests include those of their results.
        count = max(count, sum(len(case.incidents) for case in suite.cases))
    return f"Boards failed on the way: {_plural(count, 'step')} of recovery." if count else ""


def _verdict(counts: Mapping[Status, int], total: int) -> str:
    if counts["match"] == total:
        if total == 1:
            return "The result equals its reference"
        return f"All {total} results equal their references"
    parts = []
    for status, text in (
        ("failed", "failed"),
        ("differ", "different from the reference"),
        ("missed", "missed a limit"),
        ("measured", "measured without a reference"),
        ("skipped", "skipped"),
        ("match", "equal to the reference"),
    ):
        if counts[status]:  # type: ignore[index]
            parts.append(f"{counts[status]} {text}")  # type: ignore[index]
    return f"Of {_plural(total, 'result')}, {', '.join(parts)}"


def _weak_references(results: Sequence[Result]) -> str:
    """Return how many results were compared only with what this compiler computes itself."""
    weak = sum(r.status == "match" and not r.is_independent for r in results)
    if not weak:
        return ""
    which = "" if weak == len(results) else f" of {_plural(weak, 'result')}"
    return f"; the reference{which} is {_NOT_INDEPENDENT}"


#: Labels of the summary's columns.
_COUNT, _FLASH, _WORKSPACE = "One inference", "Flash of the model, bytes", "Workspace, bytes"
_RAM, _STACK, _METRIC = "Static RAM, bytes", "Stack at its peak, bytes", "On the data set"
_COLUMNS = (_METRIC, _COUNT, _FLASH, _WORKSPACE, _RAM, _STACK)


class _ModelView:
    """What the template shows of a model: what its results have in common, then each of them."""

    def __init__(self, name: str, key: str, results: Sequence[Result]) -> None:
        self.name = name or "No model"
        self.key = key
        self.groups = _model_facts(results)
        most: dict[str, int] = {}
        for benched in (result.benched for result in results if result.benched):
            unit = benched.counter
            most[unit] = max(most.get(unit, 0), benched.per_inference)
        self.views = [
            _ResultView(result, f"{key}-{index}", most) for index, result in enumerate(results)
        ]


def _model_facts(results: Sequence[Result]) -> list[_Group]:
    """Return the facts of a model's results, each different value once."""
    abouts = [result.about for result in results if result.about]
    mades = [result.provenance for result in results if result.provenance]
    references = (
        r.verified.reference_description or r.verified.reference for r in results if r.verified
    )
    inputs = (f"{made.inputs.samples:,} samples" for made in mades)
    return _groups(
        (
            "Model",
            [
                *_distinct("file", (about.file for about in abouts)),
                *_distinct("bytes", (number(a.bytes) for a in abouts if a.bytes is not None)),
                *_distinct("SHA-256", (made.model.sha256 for made in mades), True),
            ],
        ),
        (
            "Inputs",
            [
                *_distinct("values", (about.inputs for about in abouts)),
                *_distinct("number", inputs),
                *_distinct("SHA-256", (made.inputs.sha256 for made in mades), True),
            ],
        ),
        (
            "Reference and rounding",
            [
                *_distinct("reference", references),
                *_distinct("code computes as", (about.arithmetic for about in abouts)),
                *_distinct("rounding", (about.rounding for about in abouts)),
            ],
        ),
    )


def _distinct(name: str, values: Iterable[str | None], is_code: bool = False) -> list[_Row]:
    return [_Row(name, value, is_code) for value in dict.fromkeys(filter(None, values))]


def _groups(*groups: tuple[str, Sequence[_Row]]) -> list[_Group]:
    """Return the groups with facts that have a value; no group without any."""
    known = [_Group(title, [fact for fact in facts if fact.value]) for title, facts in groups]
    return [group for group in known if group.facts]


class _ResultView:
    """What the template shows of a model on a board."""

    def __init__(self, result: Result, key: str, most: Mapping[str, int]) -> None:
        self.result = result
        self.key = key
        self.board = result.board + (f", goal {result.goal}" if result.goal else "")
        self.status = result.status
        self.mark, self.word = _STATUSES[result.status]
        self.columns: Sequence[str] = ()
        self._most = most

    # Heads

    @property
    def core(self) -> str:
        return self.result.about.cpu if self.result.about else ""

    @property
    def board_text(self) -> str:
        about = self.result.about
        if about is None:
            return ""
        clock = f" at {about.clock_hz / 1e6:g} MHz" if about.clock_hz else ""
        return "; ".join(filter(None, (about.board, f"{about.cpu}{clock}")))

    @cached_property
    def groups(self) -> list[_Group]:
        """Facts about the image and the tools of this result."""
        made, built = self.result.provenance, self.result.built
        about = self.result.about
        if made is None:
            facts = [_Row("build id", built.build_id, True)] if built and built.build_id else []
            return [_Group("Image", facts)] if facts else []
        image = [
            _Row("SHA-256", made.image.sha256 or "", True),
            _Row("build id", made.image.build_id or "", True),
            _Row("run by", made.runner),
        ]
        tools = [_Row(name, version) for name, version in made.versions.items()]
        tools.append(_Row("compiler flags", " ".join(made.c_flags), True))
        if about:
            tools.append(_Row("options", about.options, True))
        if made.commit:
            tools.append(
                _Row("commit", made.commit + (", with changes" if made.dirty else ""), True)
            )
        return _groups(("Image", image), ("Compiler, toolchain, emulator", tools))

    @property
    def command(self) -> str:
        made = self.result.provenance
        return self.result.command or (made.command if made else "")

    @property
    def recoveries(self) -> list[_Recovery]:
        """Steps that brought the board back, for a table."""
        return [
            _Recovery(step.step, step.reason, f"{step.seconds:.1f}", step.failure or "back")
            for step in self.result.recoveries
        ]

    @property
    def compared(self) -> str:
        compared = next(iter(self.result.comparisons), None)
        if compared is None:
            return ""
        own = "" if compared.independent else f" ({_NOT_INDEPENDENT})"
        return f"{_plural(compared.samples, 'sample')}, {compared.reference}{own}"

    # Exactness

    @property
    def exactness(self) -> str:
        verified = self.result.verified
        assert verified is not None
        samples = _plural(verified.samples, "sample")
        what = "reference" if verified.independent else f"reference ({_NOT_INDEPENDENT})"
        lines = (
            f"Every element of every output over {samples} equals the {what}."
            if not sum(output.mismatches for output in verified.outputs)
            else f"The outputs over {samples} differ from the {what}."
        )
        if verified.float_tolerance is not None:
            tolerance = f"{verified.float_tolerance:g}"
            lines += f" Floats are equal within {tolerance} of the largest of their tensor."
            lines += "".join(map(_beyond_tolerance, verified.outputs))
        missed = verified.missed_fault_rate
        if verified.match and missed is not None and missed.rate is not None:
            lines += (
                f" A fault in {ceil(1000 * missed.rate) / 10:g} % or more of such inferences would "
                f"show ({100 * missed.confidence:g} % confidence)."
            )
        if verified.layers is None:
            return lines
        compared = [layer for layer in verified.layers if layer.outputs]
        equal = sum(layer.match for layer in compared)
        lines += f" {equal} of {_plural(len(compared), 'layer')} equal it"
        rest = len(verified.layers) - len(compared)
        return f"{lines}; {rest} exist in the compiled model only." if rest else f"{lines}."

    @cached_property
    def errors(self) -> list[_Errors]:
        verified = self.result.verified
        if verified is None:
            return []
        tensors = list(verified.outputs)
        for layer in verified.layers or ():
            if not layer.match:
                tensors += [t for t in layer.outputs if t.name not in {o.name for o in tensors}]
        shown = [t for t in tensors if t.mismatches and t.errors][:_MOST_ERRORS]
        return [
            _Errors(tensor.name, unit, tensor.errors, chart)
            for index, tensor in enumerate(shown)
            for unit in (_error_unit(tensor),)
            for chart in (
                _charts().histogram(tensor.errors, f"{self.key}-errors-{index}", tensor.name, unit),
            )
        ]

    # Fidelity

    @property
    def fidelity_columns(self) -> Sequence[str]:
        """Titles of the figures of :attr:`fidelity`."""
        return [title for title, _ in _FIDELITY]

    @cached_property
    def fidelity(self) -> list[_FidelityView]:
        """How far the model is from others, in real numbers."""
        verified = self.result.verified
        return [
            _FidelityView(
                f"Compared with {metric.against}, in real numbers",
                f"{self.key}-fidelity-{index}",
                [_fidelity_row(tensor) for tensor in metric.outputs],
                [_fidelity_row(tensor) for tensor in metric.layers],
            )
            for index, metric in enumerate(verified.metrics if verified else ())
        ]

    # Figures

    @cached_property
    def figures(self) -> list[_Cell]:
        benched, built = self.result.benched, self.result.built
        evaluated = self.result.evaluated
        cells = []
        if benched:
            share = 100 * benched.per_inference / max(1, self._most[benched.counter])
            cells += [
                _Cell(_COUNT, number(benched.per_inference), self._unit, share),
                _Cell(_FLASH, number(benched.model_flash_bytes)),
                _Cell(_WORKSPACE, number(benched.workspace_bytes)),
                _Cell(_RAM, number(benched.ram_bytes)),
                _Cell(_STACK, number(benched.stack_peak_bytes)),
            ]
        elif built:
            cells.append(_Cell(_RAM, number(built.ram_bytes)))
        if evaluated and evaluated.metrics:
            first = evaluated.metrics[0]
            cells.append(_Cell(_METRIC, _score(first.device.value), first.name))
        return cells

    @property
    def cells(self) -> list[_Cell]:
        """The figures in the order of the summary's columns."""
        found = {cell.label: cell for cell in self.figures}
        return [found.get(label, _Cell(label, number(None))) for label in self.columns]

    @property
    def _unit(self) -> str:
        benched = self.result.benched
        assert benched is not None
        if benched.latency_us is not None:
            return f"{benched.counter}, {benched.latency_us / 1000:,.3g} ms"
        return benched.counter

    @property
    def counter(self) -> str:
        return self.result.benched.counter if self.result.benched else ""

    # Layers

    @property
    def has_counts(self) -> bool:
        return bool(self.result.benched and self.result.benched.layers)

    @property
    def has_exactness(self) -> bool:
        return bool(self.result.verified and self.result.verified.layers)

    @property
    def layers_caption(self) -> str:
        benched = self.result.benched
        if benched is None:
            return "Each layer against the reference"
        spread = ""
        if len(set(benched.counts)) > 1:
            spread = f" (median of {len(benched.counts)} runs"
            spread += f", {min(benched.counts):,} to {max(benched.counts):,})"
        limit = benched.limit
        over = ""
        if limit and limit.ratio is not None:
            unit = "cycles for each instruction of" if benched.counter == "cycles" else "times"
            over = f", {_ratio(limit.ratio)} {unit} the core's limit"
        return f"{benched.per_inference:,} {benched.counter} for each inference{spread}{over}"

    @property
    def ratio_title(self) -> str:
        benched = self.result.benched
        return "Cycles/limit" if benched and benched.counter == "cycles" else "Times limit"

    @property
    def has_limits(self) -> bool:
        return bool(self.result.benched and self.result.benched.limit)

    @cached_property
    def layers(self) -> list[_LayerRow]:
        benched, verified = self.result.benched, self.result.verified
        counts = benched.layers if benched else ()
        compared = (verified.layers if verified else None) or ()
        total = sum(layer.count for layer in counts)
        most = max((layer.count for layer in counts), default=0)
        limits = benched.limit.layers if benched and benched.limit else ()
        rows = []
        for index in range(max(len(counts), len(compared))):
            measured = counts[index] if index < len(counts) else None
            layer = compared[index] if index < len(compared) else None
            named = measured or layer
            assert named is not None
            if measured and layer and measured.name != layer.name:
                layer = next((other for other in compared if other.name == measured.name), None)
            exact, status = _exactness_of(layer)
            count = measured.count if measured else None
            macs = measured.macs if measured else None
            rows.append(
                _LayerRow(
                    index,
                    group_text(named.op, measured.ops if measured else ()),
                    named.name.partition(";")[0],
                    count,
                    100 * (count or 0) / max(1, most),
                    f"{(count or 0) / max(1, total):.1%}",
                    macs,
                    f"{count / macs:.2f}" if count is not None and macs else number(None),
                    _ratio(limits[index].ratio if index < len(limits) else None),
                    exact,
                    status,
                    _STATUSES[status][0] if status else "",
                )
            )
        return rows

    @cached_property
    def energy(self) -> str:
        """Energy of an inference, in words."""
        energy = self.result.benched.energy if self.result.benched else None
        if energy is None:
            return ""
        text = f"Energy: {energy.per_inference_uj:,.4g} \N{MICRO SIGN}J for each inference"
        if energy.min_uj is not None and energy.max_uj is not None and (energy.inferences or 0) > 1:
            text += f", median of {energy.inferences:,} ({energy.min_uj:,.4g} to "
            text += f"{energy.max_uj:,.4g})"
        if energy.mean_power_mw is not None:
            text += f", at {energy.mean_power_mw:,.3g} mW"
        return f"{text}; recorded by {energy.source}." if energy.source else f"{text}."

    @cached_property
    def estimate(self) -> str:
        """Estimated cycles, in words."""
        benched = self.result.benched
        estimate = benched.estimate if benched else None
        if estimate is None or not estimate.cycles.keys() >= {"from", "to"}:
            return ""
        text = f"Estimate for a {estimate.core or 'core'}: {estimate.cycles['from']:,} to "
        text += f"{estimate.cycles['to']:,} cycles"
        if estimate.source:
            text += f", by {estimate.source}"
        text = f"{text}, with {estimate.assumes}." if estimate.assumes else f"{text}."
        chip = estimate.chip
        if chip is not None and chip.cycles.keys() & chip.expected.keys() >= {"from", "to"}:
            text += f" For {chip.chip}, its flash included: {chip.cycles['from']:,} to "
            text += f"{chip.cycles['to']:,} cycles; expect {chip.expected['from']:,} to "
            text += f"{chip.expected['to']:,}, by {chip.source}."
        return text

    # Evaluation

    @cached_property
    def metrics(self) -> list[_MetricRow]:
        evaluated = self.result.evaluated
        start = self.intervals_from
        return [
            _MetricRow(metric.name, who, *_interval(score, start), limit)
            for metric in (evaluated.metrics if evaluated else ())
            for who, score, limit in (
                (self.board, metric.device, _limit(metric)),
                ("the reference", metric.reference, ""),
            )
        ]

    @cached_property
    def intervals_from(self) -> float:
        """Where the lines of intervals begin, to the left of all; they end at 1."""
        metrics = self.result.evaluated.metrics if self.result.evaluated else ()
        lows = [score.low for m in metrics for score in (m.device, m.reference)]
        least = min((low for low in lows if low is not None and 0 <= low <= 1), default=0.0)
        return min(9, int(10 * least)) / 10

    @property
    def evaluation(self) -> str:
        """The evaluation in words."""
        evaluated = self.result.evaluated
        assert evaluated is not None
        samples = _plural(evaluated.samples, "sample")
        if not evaluated.mismatches:
            return f"On each of {samples} the outputs equal those of {evaluated.reference}."
        return (
            f"On {evaluated.mismatches:,} of {samples} outputs differ from {evaluated.reference}."
        )

    @cached_property
    def confusion(self) -> list[_ClassRow]:
        """Rows of the confusion matrix; none where it is too large for a page."""
        evaluated = self.result.evaluated
        if evaluated is None or evaluated.confusion is None or evaluated.classes is None:
            return []
        if len(evaluated.classes) > _MOST_CLASSES:
            return []
        return [
            _ClassRow(name, counts, [f"{count / max(1, sum(counts)):.3f}" for count in counts])
            for name, counts in zip(evaluated.classes, evaluated.confusion, strict=True)
        ]

    @cached_property
    def confusions(self) -> list[tuple[str, str, int]]:
        """The most frequent confusions: label, class of the device, samples."""
        evaluated = self.result.evaluated
        if evaluated is None or evaluated.confusion is None or evaluated.classes is None:
            return []
        names, found = evaluated.classes, []
        for row, counts in enumerate(evaluated.confusion):
            wrong = ((count, column) for column, count in enumerate(counts) if column != row)
            found += [(names[row], names[column], count) for count, column in wrong if count > 0]
        return sorted(found, key=lambda one: -one[2])[:_MOST_CONFUSIONS]

    # History

    @property
    def runs(self) -> Sequence[RecordedRun]:
        """The runs of the history with the counter of the newest."""
        history = self.result.history or ()
        return [run for run in history if run.counter == history[-1].counter]

    @property
    def run_labels(self) -> list[str]:
        """Labels of the runs: days, or minutes where a day has several."""
        days = [run.time.partition("T")[0] for run in self.runs]
        if len(set(days)) == len(days):
            return days
        return [minute(run.time)[5:] for run in self.runs]

    @cached_property
    def history_chart(self) -> Markup | None:
        """The lines of the history; None for a single run, which makes no line."""
        if len(self.runs) < 2:
            return None
        charts = _charts()
        counter = self.runs[-1].counter
        what = f"{counter} of {self.result.model} on {self.board}, run by run"
        chart: Markup = charts.lines(
            self.run_labels,
            [charts.Line(counter, [run.per_inference for run in self.runs])],
            f"{self.key}-history",
            what[0].upper() + what[1:],
            counter,
        )
        return chart

    @cached_property
    def changes(self) -> list[str]:
        """The change of each run since the one before, in percent."""
        counts = [run.per_inference for run in self.runs]
        changes = [number(None)]
        for before, after in zip(counts, counts[1:], strict=False):
            change = f"{after / max(1, before) - 1:+.2%}"
            changes.append("unchanged" if before == after else change)
        return changes

    # Memory

    @cached_property
    def memory(self) -> list[_Row]:
        benched, built = self.result.benched, self.result.built
        facts: list[tuple[str, int | None]] = []
        if benched:
            inside = benched.io_in_workspace
            facts += [
                ("Flash of the model: code, constants, glue", benched.model_flash_bytes),
                ("Flash of the firmware", benched.firmware_flash_bytes),
                ("RAM of the model", benched.model_ram_bytes),
                (
                    f"Workspace{', with inputs and outputs in it' if inside else ''}",
                    benched.workspace_bytes,
                ),
                *([] if inside else [("Inputs and outputs, beside it", benched.io_bytes)]),
                *([("State", benched.state_bytes)] if benched.state_bytes else []),
                ("Static RAM of the firmware", benched.ram_bytes),
                ("Stack, at its peak", benched.stack_peak_bytes),
            ]
        elif built:
            facts += [
                ("Flash of the firmware", built.flash_bytes),
                ("Static RAM of the firmware", built.ram_bytes),
            ]
        if built:
            facts.append(("Stack, reserved", built.stack_bytes))
            facts.append(("Stack, upper bound of all calls", built.stack_bound_bytes))
        return [_Row(name, number(value)) for name, value in facts if value is not None]

    @cached_property
    def regions(self) -> list[_RegionRow]:
        regions: Sequence[RegionSize] = self.result.built.regions if self.result.built else ()
        rows = []
        for region in regions:
            share = region.used_bytes / max(1, region.bytes)
            percent = min(100.0, 100 * share)
            rows.append(
                _RegionRow(region.name, region.used_bytes, region.bytes, f"{share:.1%}", percent)
            )
        return rows

    @cached_property
    def owners(self) -> list[str]:
        sections = self.result.built.sections if self.result.built else ()
        return list(dict.fromkeys(owner for section in sections for owner in section.parts))

    @cached_property
    def sections(self) -> list[_SectionRow]:
        places = {(True, False): "flash", (False, True): "RAM", (True, True): "flash and RAM"}
        return [
            _SectionRow(
                section.name,
                places.get((section.in_flash, section.in_ram), "neither"),
                [section.parts.get(owner) for owner in self.owners],
                sum(section.parts.values()),
            )
            for section in (self.result.built.sections if self.result.built else ())
        ]

    @cached_property
    def _flash(self) -> dict[str, dict[str, int]]:
        """Bytes of flash by owner and kind of section, the largest first."""
        parts: dict[str, Counter[str]] = {}
        for section in self.result.built.sections if self.result.built else ():
            for owner, nbytes in section.parts.items():
                if section.in_flash and nbytes > 0:
                    parts.setdefault(owner, Counter())[section.name] += nbytes
        owners = sorted(parts, key=lambda owner: -parts[owner].total())
        return {owner: dict(parts[owner].most_common()) for owner in owners}

    @cached_property
    def flash_chart(self) -> Markup | None:
        if not self._flash:
            return None
        what = f"Flash of {self.result.model} on {self.board}"
        chart: Markup = _charts().treemap(self._flash, f"{self.key}-flash", what)
        return chart

    @cached_property
    def flash_owners(self) -> list[_Owner]:
        sums = {owner: sum(kinds.values()) for owner, kinds in self._flash.items()}
        total = max(1, sum(sums.values()))
        return [
            _Owner(owner, nbytes, f"{nbytes / total:.1%}", _charts().colour_of(index))
            for index, (owner, nbytes) in enumerate(sums.items())
        ]

    @cached_property
    def plan_chart(self) -> Markup | None:
        if self.result.plan is None:
            return None
        chart: Markup = _charts().plan_chart(self.result.plan, f"{self.key}-plan")
        return chart

    @property
    def plan_caption(self) -> str:
        plan = self.result.plan
        assert plan is not None
        text = "Each box is a buffer: from its first layer to its last, at its place in the memory."
        if not plan.steps:
            return text
        step = plan.steps[plan.peak]
        return f"{text} Layer {plan.peak}, {step.ops}, needs the most: {step.used_bytes:,} bytes."

    @property
    def several_pools(self) -> bool:
        return self.result.plan is not None and len(self.result.plan.pools) > 1

    @cached_property
    def slots(self) -> list[_SlotRow]:
        plan = self.result.plan
        return [_slot_row(plan, slot) for slot in plan.slots] if plan else []


#: Title and attribute of each figure of a tensor's fidelity.
_FIDELITY = (
    ("RMSE", "rmse"),
    ("MAE", "mae"),
    ("Largest", "max_abs_diff"),
    ("L2r", "l2r"),
    ("NSE", "nse"),
    ("Cosine", "cos"),
    ("SNR, dB", "snr_db"),
    ("Top 1", "top1"),
    ("Top 5", "top5"),
)


def _fidelity_row(tensor: TensorFidelity) -> _FidelityRow:
    values = (getattr(tensor, name) for _, name in _FIDELITY)
    shown = [number(None) if value is None else f"{value:.4g}" for value in values]
    place = "output" if tensor.layer is None else str(tensor.layer)
    return _FidelityRow(place, tensor.name.partition(";")[0], shown)


def _slot_row(plan: Explanation, slot: ArenaSlot) -> _SlotRow:
    first = "the caller" if slot.first == BEFORE else str(slot.first)
    last = "the caller" if slot.last == len(plan.steps) else str(slot.last)
    life = first if first == last else f"{first} to {last}"
    pool = plan.pools[slot.pool][0]
    name = slot.name.partition(";")[0]
    return _SlotRow(name, slot.what, slot.bytes, pool, slot.offset, slot.end, life)


def _beyond_tolerance(output: TensorDifference) -> str:
    """Return sentences on equal elements of floats that the tolerance does not judge."""
    text, cancelled = "", output.ill_conditioned
    if cancelled is not None and cancelled.elements and cancelled.max_abs_diff is not None:
        text = (
            f" {_plural(cancelled.elements, 'element')} of {output.name}, whose terms cancel, "
            f"differ by up to {cancelled.max_abs_diff:.3g}, as by rounding."
        )
    counts = ((output.nans, "NaN"), (output.infinities, "infinite"))
    return text + "".join(
        f" {_plural(count, 'element')} of {output.name}: {what} in both." for count, what in counts
        if count
    )  # fmt: skip


def _exactness_of(layer: LayerDifference | None) -> tuple[str, Status | None]:
    """Return what a layer's comparison found, and the class of its badge."""
    if layer is None:
        return "not compared", None
    if not layer.outputs:
        return "in the compiled model only", None
    if layer.match:
        return "equal", "match"
    worst = max(layer.outputs, key=lambda output: output.mismatches)
    most = number(worst.max_abs_diff)
    return f"{worst.mismatches:,} differ, by {most} at most", "differ"


def _error_unit(tensor: TensorDifference) -> str:
    if tensor.dtype.startswith("float"):
        return "of the largest value"
    return "steps"


def _score(value: float | None) -> str:
    return number(None) if value is None else f"{value:.4f}"


def _interval(score: ScoreEntry, start: float) -> tuple[str, str, dict[str, str] | None]:
    """Return value and interval as text, and, of shares, their places from ``start`` to 1."""
    if score.value is None or score.low is None or score.high is None:
        return _score(score.value), "", None
    text = f"{score.low:.4f} to {score.high:.4f}"
    if not 0 <= score.low <= score.value <= score.high <= 1:
        return _score(score.value), text, None
    places = {"low": score.low, "high": score.high, "at": score.value}
    shares = {name: 100 * (value - start) / (1 - start) for name, value in places.items()}
    return _score(score.value), text, {name: f"{share:.2f}%" for name, share in shares.items()}


def _limit(metric: MetricEntry) -> str:
    limits = [f"at least {metric.min:g}"] if metric.min is not None else []
    limits += [f"at most {metric.max:g}"] if metric.max is not None else []
    if not limits:
        return ""
    return f"{' and '.join(limits)}: {'met' if metric.met else 'missed'}"


def minute(time: str) -> str:
    """Return day and minute of a time as JSON has it, YYYY-MM-DDTHH:MM:SS."""
    day, _, rest = time.partition("T")
    return f"{day} {rest[:5]}".strip()


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
