"""What CI keeps of outcomes: a JUnit file, a summary in Markdown, and a table."""

from __future__ import annotations

import argparse
import html
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hil.cli.console import table
from hil.cli.render import verify_text
from hil.cli.reports import Outcome
from hil.errors import Attempt, HilError, NotRunError
from hil.firmware.build import Firmware
from hilc.support.outputs import cannot_write, check_place, write_file

if TYPE_CHECKING:
    from hil.verify import Report
    from hil.verify.bench import BenchReport

#: Characters that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Characters of code, links and cells in Markdown; HTML is escaped as entities.
_MARKUP = re.compile(r"[\\|`\[\]]")
_HEADER = ("model", "board", "goal", "result", "per inference", "counted", "workspace", "flash")


def check_files(args: argparse.Namespace) -> None:
    """Raise if a file that the arguments name cannot be written, before anything is done."""
    for path in (getattr(args, "junit", None), getattr(args, "summary", None)):
        if path is not None:
            check_place(Path(path), is_folder=False)


class OutcomeFiles:
    """The files of ``--junit`` and ``--summary``, both up to date after every combination.

    ``pending`` are the outcomes of the combinations that have none yet. The JUnit file is replaced
    as a whole after each combination. The summary, to which others append too, only grows: first
    the number of combinations, then a row for each that has ended. A failure to write is kept until
    :meth:`finish`, since the combinations after it have results of their own.
    """

    def __init__(self, args: argparse.Namespace, pending: Sequence[Outcome]) -> None:
        self._junit: str | None = getattr(args, "junit", None)
        self._summary: str | None = getattr(args, "summary", None)
        self._outcomes = list(pending)
        self._cases = [_case_texts(outcome) for outcome in pending] if self._junit else []
        #: Text that the summary lacks, as bytes; positions of the outcomes that it has.
        self._unwritten = b""
        self._listed: set[int] = set()
        self._has_foot = False
        self._failure: HilError | None = None

    def begin(self) -> None:
        """Write the files as if nothing had been run; an older JUnit file is gone from then on."""
        self._unwritten = _summary_head(self._outcomes).encode()
        self._write()
        self._raise()

    def add(self, index: int, outcome: Outcome) -> None:
        """Add the outcome of a combination, by its position."""
        self._take(index, outcome)
        self._write()

    def finish(self, outcomes: Sequence[Outcome]) -> None:
        """Write the outcomes of all combinations; raise if a file cannot be written.

        A second call completes the files if the first was interrupted.
        """
        for index, outcome in enumerate(outcomes):
            if index not in self._listed:
                self._take(index, outcome)
        self._unwritten += self._foot(outcomes).encode()
        self._failure = None
        self._write()
        self._raise()

    def _foot(self, outcomes: Sequence[Outcome]) -> str:
        """Return the end of the summary, once."""
        is_first, self._has_foot = not self._has_foot, True
        return _summary_foot(outcomes) if is_first else ""

    def _take(self, index: int, outcome: Outcome) -> None:
        self._outcomes[index] = outcome
        self._listed.add(index)
        self._unwritten += "".join(map(_markdown_row, _rows([outcome]))).encode()
        if self._junit:
            self._cases[index] = _case_texts(outcome)

    def _write(self) -> None:
        try:
            if self._junit:
                write_file(self._junit, _junit_text(self._outcomes, self._cases))
            if self._summary:
                self._append(self._summary)
        except HilError as error:
            self._failure = error

    def _append(self, path: str) -> None:
        try:
            with open(path, "ab", buffering=0) as file:
                while self._unwritten:
                    # A full disk may take a part.
                    self._unwritten = self._unwritten[file.write(self._unwritten) or 0 :]
        except OSError as error:
            raise cannot_write(path, error) from None

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure


# -- tables ------------------------------------------------------------------------------------


def verdict(outcome: Outcome) -> str:
    """Return the result of a combination in a word or two."""
    if isinstance(outcome.error, NotRunError):
        return "not run"
    if outcome.error is not None:
        return "DIFFER, " * outcome.differs + f"error: {outcome.error.kind}"
    if outcome.skipped:
        return "skipped"
    if outcome.compared:
        return "DIFFER" if outcome.differs else "match"
    return "DIFFER" if outcome.exit_code == 1 else "done"


def _compared(report: Report | BenchReport | Firmware) -> Report | None:
    """Return the comparison with a reference; None where nothing was compared."""
    if isinstance(report, Firmware):
        return None
    # Not at the top: a build compares and measures nothing.
    from hil.verify import Report
    from hil.verify.bench import BenchReport

    if isinstance(report, BenchReport):
        return report.checked
    return report if isinstance(report, Report) else None


def _rows(outcomes: Sequence[Outcome]) -> Iterator[list[Any]]:
    for outcome in outcomes:
        whole = verdict(replace(outcome, reports=()))
        if not outcome.reports or outcome.error is not None:
            name = Path(outcome.model).stem if outcome.model else "-"
            yield [name, outcome.board, outcome.goal, whole, None, None, None, None]
        for report in outcome.reports:
            costs = _costs(report)
            result = "done" if outcome.error is not None else verdict(outcome)
            if (compared := _compared(report)) is not None:
                result = "match" if compared.match else "DIFFER"
                result += "" if compared.independent else " (not independent)"
            counter = next((c for c in ("instructions", "cycles", "nanoseconds") if c in costs), "")
            yield [
                _model(report),
                outcome.board,
                outcome.goal,
                result,
                costs.get(counter),
                counter or None,
                costs.get("workspace_bytes"),
                costs.get("flash_bytes"),
            ]


def outcome_table(outcomes: Sequence[Outcome]) -> str:
    """Return a row for each model of each combination."""
    return table(list(_rows(outcomes)), _HEADER)


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the same table in Markdown, with the reasons of what failed or was skipped."""
    rows = "".join(map(_markdown_row, _rows(outcomes)))
    return _summary_head(outcomes) + rows + _summary_foot(outcomes)


def _summary_head(outcomes: Sequence[Outcome]) -> str:
    count = len(outcomes)
    # True of the summary of a killed command too, which ends with any row.
    intro = f"{count} combinations, with a row for each that ended.\n\n" if count > 1 else ""
    return f"{intro}| {' | '.join(_HEADER)} |\n|---|---|---|---|---:|---|---:|---:|\n"


def _markdown_row(row: Sequence[Any]) -> str:
    cells = (f"{c:,}" if isinstance(c, int) else "" if c is None else str(c) for c in row)
    return f"| {' | '.join(map(_markdown_text, cells))} |\n"


def _markdown_text(text: str) -> str:
    """Return a text as one line that Markdown shows as it is; names of files are not trusted."""
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return _MARKUP.sub(r"\\\g<0>", html.escape(printable, quote=False))


def _summary_foot(outcomes: Sequence[Outcome]) -> str:
    reasons = [
        f"{outcome.label}: {'; '.join(map(str.strip, why.splitlines()))}"
        for outcome in outcomes
        if (why := outcome.error.fact if outcome.error else outcome.skipped)
    ]
    reasons += [
        f"{outcome.label}: recovery: {attempt}"
        for outcome in outcomes
        for attempt in outcome.recoveries
    ]
    lines = [f"- {_markdown_text(reason)}\n" for reason in reasons]
    return "".join([*(["\n"] if lines else []), *lines, "\n"])


def _model(report: Report | BenchReport | Firmware) -> str:
    if isinstance(report, Firmware):
        return "+".join(report.sizes.models)
    return report.model


def _costs(report: Report | BenchReport | Firmware) -> dict[str, int]:
    """Return what a model took, by the names that JUnit files have."""
    if isinstance(report, Firmware):
        return {"flash_bytes": report.sizes.flash_bytes, "ram_bytes": report.sizes.ram_bytes}
    from hil.verify.bench import BenchReport

    cost = report if isinstance(report, BenchReport) else report.cost
    if cost is None:
        return {}
    costs = {
        cost.counter: cost.per_inference,
        "workspace_bytes": cost.workspace_bytes,
        "flash_bytes": cost.model_flash_bytes,
        "ram_bytes": cost.ram_bytes,
    }
    return {name: value for name, value in costs.items() if value is not None}


# -- JUnit -------------------------------------------------------------------------------------


def junit_xml(outcomes: Sequence[Outcome]) -> str:
    """Return a JUnit file with a test for each model of each combination.

    Its properties are those of the pytest plugin: ``hil_board``, ``hil_instructions`` and so on.
    """
    return _junit_text(outcomes, [_case_texts(outcome) for outcome in outcomes])


def _junit_text(outcomes: Sequence[Outcome], cases: Sequence[Sequence[str]]) -> str:
    """Return the file of outcomes whose tests are made."""
    tests = list(chain.from_iterable(cases))
    counts = {
        kind: str(sum(f"<{tag} " in text for text in tests))
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    seconds = f"{sum(outcome.seconds for outcome in outcomes):.3f}"
    suite = ElementTree.Element(
        "testsuite", {"name": "hil", "tests": str(len(tests)), "time": seconds, **counts}
    )
    head = ElementTree.tostring(suite, encoding="unicode").removesuffix(" />")
    return (
        "<?xml version='1.0' encoding='utf-8'?>\n"
        f'<testsuites name="hil">\n  {head}>\n{"".join(tests)}  </testsuite>\n</testsuites>\n'
    )


def _case_texts(outcome: Outcome) -> list[str]:
    """Return the tests of an outcome as text: of a long matrix only the new ones are made."""
    texts = []
    for case in _cases(outcome):
        ElementTree.indent(case, level=2)
        texts.append(f"    {ElementTree.tostring(case, encoding='unicode')}\n")
    return texts


def _cases(outcome: Outcome) -> Iterator[ElementTree.Element]:
    if not outcome.reports or outcome.error is not None:
        steps = getattr(outcome.error, "recoveries", ()) if outcome.reports else outcome.recoveries
        case = _case(outcome, outcome.label, {}, steps)
        if outcome.error is not None:
            error = outcome.error
            element = ElementTree.SubElement(
                case, "error", type=error.kind, message=_xml(error.fact)
            )
            element.text = _xml(str(error))
        elif outcome.skipped:
            ElementTree.SubElement(case, "skipped", message=_xml(outcome.skipped))
        _add_log(case, outcome)
        yield case
    for report in outcome.reports:
        goal = f" ({outcome.goal})" if outcome.goal else ""
        properties = {f"hil_{name}": str(value) for name, value in _costs(report).items()}
        if (compared := _compared(report)) is not None:
            properties["hil_reference"] = compared.reference
            properties["hil_independent"] = str(compared.independent).lower()
            properties["hil_match"] = str(compared.match).lower()
            properties["hil_samples"] = str(compared.samples)
            if compared.remarks:
                properties["hil_remarks"] = "; ".join(compared.remarks)
        own = () if isinstance(report, Firmware) else report.recoveries
        name = f"{_model(report)} on {outcome.board}{goal}"
        case = _case(outcome, name, properties, [*outcome.reruns, *own])
        if compared is not None and not compared.match:
            text = verify_text(compared)
            element = ElementTree.SubElement(
                case, "failure", type="numeric", message=_xml(text.splitlines()[0])
            )
            element.text = _xml(text)
        elif outcome.exit_code and compared is None and outcome.error is None:
            message = f"{verdict(outcome)}: exit code {outcome.exit_code}"
            ElementTree.SubElement(case, "failure", type="numeric", message=message)
        _add_log(case, outcome)
        yield case


def _case(
    outcome: Outcome, name: str, properties: dict[str, str], recoveries: Sequence[Attempt]
) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=f"hil.{outcome.command}",
        name=_xml(name),
        # The time of a combination is that of all models of its image.
        time=f"{outcome.seconds / max(1, len(outcome.reports)):.3f}",
    )
    own = {"hil_board": outcome.board, **properties}
    if outcome.goal:
        own["hil_optimize"] = outcome.goal
    element = ElementTree.SubElement(case, "properties")
    recovered = [("hil_recovery", str(attempt)) for attempt in recoveries]
    for key, value in [*own.items(), *recovered]:
        ElementTree.SubElement(element, "property", name=key, value=_xml(value))
    return case


def _add_log(case: ElementTree.Element, outcome: Outcome) -> None:
    if outcome.log:
        ElementTree.SubElement(case, "system-err").text = _xml(outcome.log)


def _xml(text: str) -> str:
    """Return a text with what XML cannot hold as escapes; boards and files are not trusted."""
    return _NOT_XML.sub(lambda found: ascii(found[0])[1:-1], text)
