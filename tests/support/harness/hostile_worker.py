"""Reads many hostile files of one format: ``hostile_worker.py FORMAT --runs N``.

With ``--atheris`` coverage of the compiler guides what is changed further. The figures go to
``FOLDER/figures.json`` again and again, so that they outlive a process that is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any, NoReturn

sys.path[:0] = [str(p) for p in Path(__file__).resolve().parents[1].iterdir() if p.is_dir()]

#: Share of the time for what is done with files that are accepted.
_USE_SHARE = 1 / 3
_WRITE_EVERY_S = 2.0


def format_called(name: str) -> Any:
    """Return a format of files of models, or of the harness."""
    from hostile_files import FORMATS
    from hostile_settings import SETTINGS

    return FORMATS[name] if name in FORMATS else SETTINGS[name]


def originals_of(chosen: Any, folder: Path) -> list[bytes]:
    """Return a format's originals; the next worker with the folder need not make them again."""
    kept = folder / "originals"
    if not kept.is_dir():
        partial = folder / "originals.new"
        partial.mkdir(exist_ok=True)
        for number, data in enumerate(chosen.originals()):
            (partial / f"{number:05}").write_bytes(data)
        partial.rename(kept)
    return [path.read_bytes() for path in sorted(kept.iterdir())]


class Worker:
    """Judges files, and counts."""

    def __init__(self, format_name: str, folder: Path) -> None:
        from guarded import verdict

        self._format, self._verdict = format_called(format_name), verdict
        self._folder = folder
        self._place = folder / "place"
        self._place.mkdir(exist_ok=True)
        (folder / "breaches").mkdir(exist_ok=True)
        self._start = self._written = time.monotonic()
        self._use_s = 0.0
        self.executions = self.accepted = self.used = 0
        # Asked to end, it ends with what it has counted.
        signal.signal(signal.SIGTERM, lambda number, frame: self.end())
        self.breaches: dict[str, dict[str, Any]] = {}

    def take(self, data: bytes) -> None:
        """Read one file, and use what is accepted as far as time allows."""
        read: list[Any] = []
        self.executions += 1
        seen = self._verdict(lambda: read.append(self._format.read(data, self._place)))
        self._note(seen, data, "read")
        now = time.monotonic()
        if seen.is_accepted:
            self.accepted += 1
            if self._use_s <= _USE_SHARE * (now - self._start):
                self.used += 1
                used = self._verdict(lambda: self._format.use(read[0], self._place))
                self._note(used, data, "use")
                self._use_s += time.monotonic() - now
        if now - self._written > _WRITE_EVERY_S:
            self.write()

    def _note(self, seen: Any, data: bytes, when: str) -> None:
        if not seen.breach:
            return
        known = self.breaches.get(f"{when}: {seen.breach}")
        if known is None:
            number = len(list((self._folder / "breaches").glob("*.txt")))
            (self._folder / "breaches" / f"{number}").write_bytes(data)
            (self._folder / "breaches" / f"{number}.txt").write_text(seen.detail, errors="replace")
            known = self.breaches[f"{when}: {seen.breach}"] = {"count": 0, "file": number}
        known["count"] += 1

    def end(self) -> NoReturn:
        """Keep the figures and end the process, which libFuzzer would not leave otherwise."""
        self.write()
        os._exit(0)

    def write(self) -> None:
        """Keep the figures so far."""
        self._written = time.monotonic()
        figures = {
            "executions": self.executions,
            "accepted": self.accepted,
            "used": self.used,
            "seconds": round(self._written - self._start, 1),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "breaches": self.breaches,
        }
        partial = self._folder / "figures.new"
        partial.write_text(json.dumps(figures, indent=1))
        partial.replace(self._folder / "figures.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("format")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0.0, help="at most (0: no limit)")
    parser.add_argument("--file-seconds", type=float, help="processor time that a file may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True, help="for the figures and breaches")
    parser.add_argument("--atheris", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    warnings.simplefilter("ignore")
    if options.file_seconds:
        import guarded

        guarded.LIMIT_S = options.file_seconds
    if options.atheris:
        _with_atheris(options, folder)
    else:
        _alone(options, folder)


def _alone(options: argparse.Namespace, folder: Path) -> None:
    from guarded import guard

    chosen = format_called(options.format)
    originals = originals_of(chosen, folder)
    worker = Worker(options.format, folder)
    for data in originals[::10]:  # what is imported late
        with contextlib.suppress(Exception):
            chosen.use(chosen.read(data, folder / "place"), folder / "place")
    end = time.monotonic() + (options.seconds or 1e9)
    with guard(folder):
        for number in range(options.runs):
            dice = Random(f"{options.seed} {number}")
            data = dice.choice(originals)
            for _ in range(dice.choice((1, 1, 2, 3))):
                data = chosen.change(dice, data)
            worker.take(data)
            if time.monotonic() > end:
                break
    worker.write()


def _with_atheris(options: argparse.Namespace, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["hilc"]):
        import hilc.artifact.library
        import hilc.frontends  # noqa: F401
    from guarded import guard

    chosen = format_called(options.format)
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    originals = originals_of(chosen, folder)
    for number, data in enumerate(originals):
        (corpus / f"original-{number:04}").write_bytes(data)
    worker = Worker(options.format, folder)
    for data in originals[::10]:
        with contextlib.suppress(Exception):
            chosen.use(chosen.read(data, folder / "place"), folder / "place")
    end = time.monotonic() + (options.seconds or 1e9)

    def one(data: bytes) -> None:
        with guard(folder):
            worker.take(data)
        if worker.executions >= options.runs or time.monotonic() > end:
            worker.end()

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        dice = Random(seed)
        for _ in range(dice.choice((1, 1, 2, 3))):
            data = chosen.change(dice, data)
        return data[:most]

    arguments = [sys.argv[0], f"-seed={options.seed}", "-max_len=65536", "-len_control=0",
                 "-timeout=600", "-report_slow_units=999", "-rss_limit_mb=3000",
                 f"-artifact_prefix={folder}/crash-",
                 "-verbosity=0", str(corpus)]  # fmt: skip
    atheris.Setup(arguments, one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
