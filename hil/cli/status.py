"""The state of a matrix while it runs: a live table on a terminal, lines elsewhere.

The table is drawn by rich, where that is installed (the extra ``watch``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from hil.cli.console import Console
from hil.cli.outcome_files import verdict
from hil.cli.reports import Outcome

_PER_SECOND = 4


class Status:
    """Context that shows which combinations of a matrix wait, run and have ended."""

    def __init__(self, console: Console, labels: Sequence[str], may_be_live: bool) -> None:
        self._console = console
        self._labels = labels
        self._started: dict[int, float] = {}
        self._ended: dict[int, Outcome] = {}
        self._live: Any = None
        #: Whether a live table is shown, which results on the same terminal would tear.
        self.is_live = may_be_live and not console.quiet and sys.stderr.isatty() and _has_rich()
        self._tells = may_be_live and not self.is_live

    def __enter__(self) -> Status:
        if self.is_live:
            from rich.console import Console as RichConsole
            from rich.live import Live

            self._live = Live(
                get_renderable=self._table,
                console=RichConsole(stderr=True),
                refresh_per_second=_PER_SECOND,
                redirect_stdout=False,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, index: int, outcome: Outcome | None) -> None:
        """Record that a combination starts (None), or how it has ended."""
        if outcome is None:
            self._started[index] = time.monotonic()
            return
        self._ended[index] = outcome
        if self._tells:
            done = f"{len(self._ended)} of {len(self._labels)}"
            seconds = f"{outcome.seconds:.1f} s"
            self._console.log(f"{done}: {outcome.label}: {verdict(outcome)} in {seconds}")

    def _table(self) -> Any:
        from rich.table import Table

        shown = Table("combination", "state", "seconds", box=None)
        now = time.monotonic()
        for index, label in enumerate(self._labels):
            if (outcome := self._ended.get(index)) is not None:
                style = "yellow" if outcome.skipped else "green"
                style = "red" if outcome.exit_code else style
                shown.add_row(label, f"[{style}]{verdict(outcome)}", f"{outcome.seconds:.1f}")
            elif index in self._started:
                shown.add_row(label, "running", f"{now - self._started[index]:.0f}")
            else:
                shown.add_row(label, "waiting", "")
        return shown


def _has_rich() -> bool:
    try:
        import rich.live
    except ImportError:
        return False
    return bool(rich.live)
