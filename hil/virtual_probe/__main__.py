"""``python -m hil.virtual_probe BOARD``: run a virtual board until interrupted."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from hil.board import load_board
from hil.errors import HilError
from hil.virtual_probe.machine import start

_POLL_S = 0.2


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # do not interrupt the cleanup
    raise KeyboardInterrupt  # leaves the with block, which ends the machine


def main() -> int:
    """Print the probe's unique id and the serial line, then wait."""
    parser = argparse.ArgumentParser(prog="python -m hil.virtual_probe", description=__doc__)
    parser.add_argument("board", metavar="BOARD", help="a board of `hil boards` that QEMU emulates")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with start(load_board(args.board)) as (virtual, process):
            print(f"probe {virtual.uid}\nserial {virtual.url}", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    process.alive()
                    time.sleep(_POLL_S)
    except HilError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
