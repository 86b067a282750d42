"""What ``hil mcp`` does: a server of the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

import argparse
from pathlib import Path

from hil.cli.console import Console
from hil.cli.matrix import board_described
from hil.cli.mcp_reach import Reach
from hilc.support.optional import check_installed


def mcp_command(args: argparse.Namespace, console: Console) -> int:
    """Serve tools on stdin and stdout until stdin ends; return 0.

    Raise :class:`InputError` if the package ``mcp`` is not installed, or a board of ``--allow``
    does not exist.
    """
    check_installed("mcp", "hil mcp")
    for board in args.allow:
        board_described(board)
    # It imports the package.
    from hil.cli.mcp_tools import Tools

    console.log("serving tools on stdin and stdout")
    reach = Reach(Path.cwd().resolve(), frozenset(args.allow), args.allow_code)
    Tools(reach, args.timeout).serve()
    return 0
