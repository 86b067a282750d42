"""The built-in report formats: text, JSON and HTML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hil.cli.console import answer_text, coloured
from hil.cli.render import bench_text, build_text, recovery_lines, verify_text
from hil.cli.reports import Outcome, ReportFormat, register_report
from hil.firmware.build import Firmware
from hil.results.answer import Answer

if TYPE_CHECKING:
    from hil.verify import Report
    from hil.verify.bench import BenchReport


def _text(outcomes: Sequence[Outcome]) -> str:
    return "\n\n".join(
        "\n".join([_report_text(report, outcome), *_more_lines(outcome)])
        for outcome in outcomes
        for report in outcome.reports
    )


def _more_lines(outcome: Outcome) -> list[str]:
    """Return the goal and the earlier runs of a report's combination."""
    return [f"goal {outcome.goal}"] * bool(outcome.goal) + recovery_lines(outcome.reruns)


def _report_text(report: Report | BenchReport | Firmware, outcome: Outcome) -> str:
    if isinstance(report, Firmware):
        return build_text(report, by_section=outcome.in_detail)
    # Not at the top: a build compares and measures nothing.
    from hil.verify.bench import BenchReport

    if isinstance(report, BenchReport):
        return bench_text(report, per_layer=outcome.in_detail, limit=outcome.limit)
    return verify_text(report, _verdict)


def _verdict(text: str, good: bool) -> str:
    return coloured(text, "ok" if good else "error", sys.stdout)


def _answer(outcomes: Sequence[Outcome]) -> Answer:
    """Return the answer with the entries of all combinations; the highest exit code is its own."""
    worst = max(outcome.exit_code for outcome in outcomes)
    entries = [entry for outcome in outcomes for entry in outcome.results]
    return Answer(outcomes[0].command, worst, entries)


def _json(outcomes: Sequence[Outcome]) -> str:
    return answer_text(_answer(outcomes))


def _check_html() -> None:
    from hil.page.page import check_installed

    check_installed()


def _html(outcomes: Sequence[Outcome]) -> str:
    """Return the page of the outcomes in ASCII, which every standard output can carry."""
    # Not at the top: only a page needs it.
    from hil.page.page import make_page, now
    from hil.page.results import results_of

    page = make_page(list(results_of([_answer(outcomes)], "the results")), made=now())
    return page.html.encode("ascii", "xmlcharrefreplace").decode("ascii")


register_report(ReportFormat("text", _text, one_by_one=True))
register_report(ReportFormat("json", _json))
register_report(ReportFormat("html", _html, check=_check_html))
