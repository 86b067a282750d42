"""A user's program that programs an emulated board through QEMU's own sockets.

python flash_machine.py SOCKETS program IMAGE.hex
python flash_machine.py SOCKETS reset
python flash_machine.py SOCKETS pretend IMAGE.hex     # resets the board, and programs nothing
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from stub_flasher import StubSession


def main(sockets: str, action: str, image: str = "") -> int:
    """Program, reset, or only pretend."""
    session = StubSession(sockets, "")
    if action == "program":
        session.program(Path(image), None)
    session.reset()
    print(f"{action}: done")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
