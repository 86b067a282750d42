"""The options that add headers and sources to an archive's code."""

from __future__ import annotations

import argparse


def add_code_options(parser: argparse.ArgumentParser, source: str = "") -> None:
    """Add ``--include-dir`` and ``--source``; ``source`` names its other values."""
    group = parser.add_argument_group(
        "additional code", "Headers and sources that the models' code needs, such as CMSIS-NN."
    )
    group.add_argument(
        "--include-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of headers; may be repeated",
    )
    group.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="FILE",
        help="a C, assembly or object file, or a folder of them; may be repeated"
        f"{source and f'; {source}'}",
    )
