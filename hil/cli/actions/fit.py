"""``hil fit``: say which boards hold a model."""

from __future__ import annotations

import argparse

from hil.cli.arguments import given_options
from hil.cli.console import Console
from hil.cli.fit_report import fit_text
from hil.firmware.fitting import fit
from hil.firmware.sources import parse_sources
from hil.page.fit_page import fit_page
from hil.page.page import check_installed, is_unchanged
from hilc.support.outputs import check_file


def fit_command(args: argparse.Namespace, console: Console) -> int:
    """Print the boards that hold each model; return 1 if there is none for one of them."""
    if args.output:
        check_installed()
        check_file(args.output, ".html", kind="a page", is_own=is_unchanged, force=args.force)
    # Those of the chip have the names of options of the compiler.
    chip = ("cpu", "ram", "flash")
    options = {name: value for name, value in given_options(args).items() if name not in chip}
    entries = []
    for source in parse_sources(args.models, args.name):
        with console.progress_total("compiling", "programs tried") as progress:
            entries.append(
                fit(
                    source.path,
                    args.boards,
                    cpu=args.cpu,
                    ram=args.ram,
                    flash=args.flash,
                    name=source.name,
                    progress=progress,
                    **options,
                )
            )
    text = "\n\n".join(map(fit_text, entries))
    if args.output:
        fit_page(entries).save(args.output)
        text += f"\n\nthe page: {args.output}"
    good = all(any(board.fits != "no" for board in entry.boards) for entry in entries)
    console.result(entries, text, 0 if good else 1)
    return 0 if good else 1
