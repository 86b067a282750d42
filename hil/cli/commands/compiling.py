"""``hil compile``: compile models to C."""

from __future__ import annotations

import argparse
import sys
import time

from hil.cli.answers import Answer, answer_key, keep_answer, kept_answer
from hil.cli.console import Console
from hilc.artifact.archive import check_target, write_files


def compile_command(args: argparse.Namespace, console: Console) -> int:
    """Compile models to one Model Library Format file or folder."""
    start = time.monotonic()
    check_target(args.output, force=args.force)
    answer = _answer(args, console)
    write_files(answer.files, args.output, force=args.force)
    seconds = round(time.monotonic() - start, 3)
    # As JSON, which is kept: their classes would load the compiler.
    written = {"output": args.output, "files": sorted(answer.files), "seconds": seconds}
    entries = [{**model, **written} for model in answer.models]
    lines = [*answer.lines, f"{args.output}: {len(answer.files)} files in {seconds} s"]
    console.result(entries, "\n".join(lines))
    return 0


def _answer(args: argparse.Namespace, console: Console) -> Answer:
    """Return the answer that is kept for a command line, or the compiler's, which is then kept."""
    # Where the compiler is loaded already, parts of others may be registered that no key knows.
    key = answer_key(args) if "hilc.compiler" not in sys.modules else None
    if (kept := kept_answer(key)) is not None:
        return kept
    # Not at the top: it loads the compiler.
    from hil.cli.commands.compiled import compiled_answer

    answer = compiled_answer(args, console)
    # A file may have been replaced meanwhile.
    if key is not None and key == answer_key(args):
        keep_answer(key, answer)
    return answer
