"""``hil compile``: compile models to C."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from hil.cli.command import Command
from hil.cli.completing import boards, completed_by
from hil.cli.options import add_compile_options, add_cpu, add_force, add_models
from hil.cli.parser import Parser

if TYPE_CHECKING:
    from hil.cli.actions.compile_cache import Answer
    from hil.cli.console import Console


def add_options(parser: Parser) -> None:
    """Add the command's options."""
    add_models(parser)
    parser.add_argument("-o", "--output", required=True, metavar="OUT[.tar]", help="tar or folder")
    add_force(parser)
    target = parser.add_mutually_exclusive_group()
    completed_by(
        target.add_argument("--board", metavar="B", help="compile for this board's core"), boards
    )
    add_cpu(target, "compile for this core (default: host)")
    add_compile_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Compile models to one Model Library Format file or folder."""
    from hil.support.restriction import usable
    from hilc.artifact.archive import check_target, write_files

    start = time.monotonic()
    check_target(usable(args.output), force=args.force)
    answer = _answer(args, console)
    # Again: a folder above may have become a link meanwhile.
    write_files(answer.files, usable(args.output), force=args.force)
    seconds = round(time.monotonic() - start, 3)
    # As JSON, which is kept: their classes would load the compiler.
    written = {"output": args.output, "files": sorted(answer.files), "seconds": seconds}
    entries = [{**model, **written} for model in answer.models]
    lines = [*answer.lines, f"{args.output}: {len(answer.files)} files in {seconds} s"]
    console.result(entries, "\n".join(lines))
    return 0


def _answer(args: argparse.Namespace, console: Console) -> Answer:
    """Return the answer that is kept for a command line, or the compiler's, which is then kept."""
    from hil.cli.actions.compile_cache import answer_key, keep_answer, kept_answer

    # Where the compiler is loaded already, parts of others may be registered that no key knows.
    key = answer_key(args) if "hilc.compiler" not in sys.modules else None
    if (kept := kept_answer(key)) is not None:
        return kept
    # Not at the top: it loads the compiler.
    from hil.cli.actions.compile import compiled_answer

    answer = compiled_answer(args, console)
    # A file may have been replaced meanwhile.
    if key is not None and key == answer_key(args):
        keep_answer(key, answer)
    return answer


COMMAND = Command("Compile models to C in a Model Library Format file.", add_options, run)
