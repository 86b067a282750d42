"""A folder like ``site-packages`` with plugins, and commands of an interpreter that has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


class Site:
    """A folder like ``site-packages``, and the commands of an interpreter that has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def install(self, distribution: str, entries: str, *sources: Path) -> None:
        """A distribution with entry points ``NAME = TARGET`` of our group."""
        for source in sources:
            shutil.copy(source, self.folder)
        about = self.folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        )
        (about / "entry_points.txt").write_text(f"[hil.plugins]\n{entries}\n")

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder), *filter(None, sys.path)])
        return {**os.environ, "PYTHONPATH": path, "OWN_RUNNER_LOG": str(self.folder / "log")}

    def hil(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "hil", *map(str, words)],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    @property
    def started(self) -> int:
        """How often the own runner has started a board."""
        log = self.folder / "log"
        return len(log.read_text().splitlines()) if log.is_file() else 0
