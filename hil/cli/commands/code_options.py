"""The options for code that an archive's own code includes or calls."""

from __future__ import annotations

import argparse


def add_code_options(parser: argparse.ArgumentParser, source: str = "") -> None:
    """Add ``--include-dir`` and ``--source``; ``source`` is what else the latter may name."""
    group = parser.add_argument_group(
        "code from elsewhere", "What the models' own code includes or calls, CMSIS-NN for one."
    )
    group.add_argument(
        "--include-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of headers; repeat for more",
    )
    group.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="FILE",
        help="C, assembly or an object, or a folder of them; repeat for more"
        f"{source and f'; {source}'}",
    )
