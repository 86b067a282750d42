"""The built-in report formats: text, JSON and HTML."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hil.cli.console import coloured, error_json, recoveries_json
from hil.cli.render import bench_text, build_text, recovery_lines, verify_text
from hil.cli.reports import Outcome, ReportFormat, register_report
from hil.firmware.build import Firmware
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
    match report:
        case Report():
            return verify_text(report, _verdict)
        case BenchReport():
            return bench_text(report, per_layer=outcome.in_detail, limit=outcome.limit)
        case Firmware():
            return build_text(report, by_section=outcome.in_detail)


def _verdict(text: str, good: bool) -> str:
    return coloured(text, "good" if good else "bad", sys.stdout)


def _json(outcomes: Sequence[Outcome]) -> str:
    """Return one JSON object: the data of the only board, or of each board with its exit code."""
    data: Mapping[str, Any] = _data(outcomes[0])
    if (error := outcomes[0].error) is not None:
        data = {**data, "error": error_json(error)}
    if len(outcomes) > 1:
        worst = max(outcome.exit_code for outcome in outcomes)
        data = {"boards": [_of_board(outcome) for outcome in outcomes], "exit_code": worst}
    return json.dumps(data, indent=2, allow_nan=False)


def _of_board(outcome: Outcome) -> dict[str, Any]:
    head: dict[str, Any] = {"board": outcome.board, "exit_code": outcome.exit_code}
    # What only some matrices have.
    more = {"optimize": outcome.goal, "source": outcome.model, "skipped": outcome.skipped}
    head |= {key: value for key, value in more.items() if value}
    if outcome.error is not None:
        head["error"] = error_json(outcome.error)
    return {**head, **_data(outcome)}


def _data(outcome: Outcome) -> Mapping[str, Any]:
    """Return the data of a command, whose recoveries include earlier runs of it."""
    data = outcome.data
    if outcome.command == "build":
        return data
    if isinstance(data.get("models"), list):
        return {**data, "models": [_with_reruns(model, outcome) for model in data["models"]]}
    return _with_reruns(data, outcome)


def _with_reruns(data: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    own = data.get("recoveries", []) or recoveries_json(outcome.error)
    return {**data, "recoveries": [*(a.to_json() for a in outcome.reruns), *own]}


def _check_html() -> None:
    from hil.page.page import check_installed

    check_installed()


def _html(outcomes: Sequence[Outcome]) -> str:
    """Return the page of the outcomes in ASCII, which every standard output can carry."""
    # Not at the top: only a page needs it.
    from hil.page.page import make_page, now
    from hil.page.results import results_in

    data = {"boards": [_of_board(outcome) for outcome in outcomes]}
    page = make_page(results_in(data, "the results"), made=now())
    return page.html.encode("ascii", "xmlcharrefreplace").decode("ascii")


register_report(ReportFormat("text", _text, one_by_one=True))
register_report(ReportFormat("json", _json))
register_report(ReportFormat("html", _html, check=_check_html))
