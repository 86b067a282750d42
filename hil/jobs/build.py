"""The job of ``hil build``: a firmware of models for a board."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hil.firmware.build import Firmware, build, check_project
from hil.jobs.image import Image, compiled_models, described_board
from hil.jobs.job import Job
from hil.jobs.run import Run


@dataclass(frozen=True, eq=False)
class BuildJob(Job[Firmware]):
    """Build a firmware; no board, emulator or probe is needed."""

    output: str | Path | None = field(default=None, kw_only=True)
    force: bool = field(default=False, kw_only=True)
    #: Returns what the firmware is built for in MLPerf Tiny from the libraries, if anything.
    mlperf: Callable[..., Any] | None = field(default=None, kw_only=True)

    def results(self, run: Run) -> Iterator[Firmware]:
        """Build the firmware; yield it."""
        if self.output is not None:
            check_project(self.output, force=self.force)
        board = described_board(self.board, self.options)
        libraries, options = compiled_models(
            self.models, board, self.options, run, name=self.name, example=self.example
        )
        yield build(
            libraries,
            board,
            None if self.output is None else Path(self.output),
            workspace=options.workspace,
            force=self.force,
            mlperf=None if self.mlperf is None else self.mlperf(libraries),
        )

    def on(self, image: Image, run: Run) -> Iterator[Firmware]:
        """Yield the firmware of an image that was compiled for another job."""
        assert image.route is not None, "an image that is built has a board"
        workspace = self.options.get("workspace", "own")
        yield build(image.libraries, image.route.board, workspace=workspace)

    def is_good(self, result: Firmware) -> bool:
        """Return that a firmware which could be built is good."""
        return True
