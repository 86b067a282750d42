"""What CI keeps of outcomes: a JUnit file, a summary in Markdown, and a table."""

from __future__ import annotations

import argparse
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hil.cli.console import table
from hil.cli.render import verify_text
from hil.cli.reports import Outcome
from hil.errors import Attempt
from hil.firmware.build import Firmware
from hil.verify import Report
from hil.verify.bench import BenchReport
from hilc.support.outputs import cannot_write, check_place, write_file

#: Characters that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEADER = ("model", "board", "goal", "result", "per inference", "counted", "workspace", "flash")


def check_files(args: argparse.Namespace) -> None:
    """Raise if a file that the arguments name cannot be written, before anything is done."""
    for path in (getattr(args, "junit", None), getattr(args, "summary", None)):
        if path is not None:
            check_place(Path(path), is_folder=False)


def write_files(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> None:
    """Write the JUnit file of ``--junit``, and append to the summary of ``--summary``."""
    if junit := getattr(args, "junit", None):
        write_file(junit, junit_xml(outcomes))
    if summary := getattr(args, "summary", None):
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(markdown(outcomes))
        except OSError as error:
            raise cannot_write(summary, error) from None


# -- tables ------------------------------------------------------------------------------------


def verdict(outcome: Outcome) -> str:
    """Return the result of a combination in a word or two."""
    if outcome.error is not None:
        return f"error: {outcome.error.kind}"
    if outcome.skipped:
        return "skipped"
    compared = [found for report in outcome.reports if (found := _compared(report)) is not None]
    if compared:
        return "match" if all(report.match for report in compared) else "DIFFER"
    return "DIFFER" if outcome.exit_code == 1 else "done"


def _compared(report: Report | BenchReport | Firmware) -> Report | None:
    """Return the comparison with a reference; None where nothing was compared."""
    match report:
        case Report():
            return report
        case BenchReport():
            return report.checked
    return None


def _rows(outcomes: Sequence[Outcome]) -> Iterator[list[Any]]:
    for outcome in outcomes:
        if not outcome.reports:
            name = Path(outcome.model).stem if outcome.model else "-"
            yield [name, outcome.board, outcome.goal, verdict(outcome), None, None, None, None]
        for report in outcome.reports:
            costs = _costs(report)
            result = verdict(outcome)
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
    lines = [f"| {' | '.join(_HEADER)} |", "|---|---|---|---|---:|---|---:|---:|"]
    for row in _rows(outcomes):
        cells = (f"{c:,}" if isinstance(c, int) else "" if c is None else str(c) for c in row)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    reasons = [
        f"- {outcome.label}: {'; '.join(map(str.strip, why.splitlines()))}"
        for outcome in outcomes
        if (why := outcome.error.fact if outcome.error else outcome.skipped)
    ]
    reasons += [
        f"- {outcome.label}: recovery: {attempt}"
        for outcome in outcomes
        for attempt in outcome.recoveries
    ]
    return "\n".join([*lines, *([""] if reasons else []), *reasons, "", ""])


def _model(report: Report | BenchReport | Firmware) -> str:
    if isinstance(report, Firmware):
        return "+".join(report.sizes.models)
    return report.model


def _costs(report: Report | BenchReport | Firmware) -> dict[str, int]:
    """Return what a model took, by the names that JUnit files have."""
    costs: dict[str, int | None] = {}
    match report:
        case Report() if report.cost is not None:
            cost = report.cost
            costs = {
                cost.counter: cost.per_inference,
                "workspace_bytes": cost.workspace_bytes,
                "flash_bytes": cost.model_flash_bytes,
                "ram_bytes": cost.ram_bytes,
            }
        case BenchReport():
            costs = {
                report.counter: report.per_inference,
                "workspace_bytes": report.workspace_bytes,
                "flash_bytes": report.model_flash_bytes,
                "ram_bytes": report.ram_bytes,
            }
        case Firmware():
            costs = {
                "flash_bytes": report.sizes.flash_bytes,
                "ram_bytes": report.sizes.ram_bytes,
            }
    return {name: value for name, value in costs.items() if value is not None}


# -- JUnit -------------------------------------------------------------------------------------


def junit_xml(outcomes: Sequence[Outcome]) -> str:
    """Return a JUnit file with a test for each model of each combination.

    Its properties are those of the pytest plugin: ``hil_board``, ``hil_instructions`` and so on.
    """
    cases = [case for outcome in outcomes for case in _cases(outcome)]
    counts = {
        kind: str(sum(case.find(kind.rstrip("s")) is not None for case in cases))
        for kind in ("failures", "errors")
    }
    counts["skipped"] = str(sum(case.find("skipped") is not None for case in cases))
    seconds = f"{sum(outcome.seconds for outcome in outcomes):.3f}"
    suite = ElementTree.Element(
        "testsuite", {"name": "hil", "tests": str(len(cases)), "time": seconds, **counts}
    )
    suite.extend(cases)
    root = ElementTree.Element("testsuites", name="hil")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _cases(outcome: Outcome) -> Iterator[ElementTree.Element]:
    if not outcome.reports:
        case = _case(outcome, outcome.label, {}, outcome.recoveries)
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
        own = () if isinstance(report, Firmware) else report.recoveries
        name = f"{_model(report)} on {outcome.board}{goal}"
        case = _case(outcome, name, properties, [*outcome.reruns, *own])
        if compared is not None and not compared.match:
            text = verify_text(compared)
            element = ElementTree.SubElement(
                case, "failure", type="numeric", message=_xml(text.splitlines()[0])
            )
            element.text = _xml(text)
        elif outcome.exit_code and not isinstance(report, Report):
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
