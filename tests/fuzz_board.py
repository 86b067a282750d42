"""Fuzzes the firmware's server for a while: ``python tests/fuzz_board.py --seconds 600``.

``make test`` runs the same program for a moment (``tests/hil/test_fuzz.py``).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE.parent), str(_HERE.parent / "compiler")]

from rpc_board import fuzz_program  # noqa: E402

_INPUTS_A_RUN = 200_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long (60)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first (the time)")
    parser.add_argument(
        "--crash", type=Path, default=Path("fuzz-crash"), help="the input goes here"
    )
    options = parser.parse_args()
    end, seed = time.monotonic() + options.seconds, options.seed & 0x7FFF_FFFF
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        programs = [
            fuzz_program(Path(folder) / f"fuzz-{packed}", packed=packed) for packed in (True, False)
        ]
        environment = {**os.environ, "HIL_FUZZ_CRASH": str(options.crash)}
        done = 0
        while time.monotonic() < end:
            for program in programs:
                ended = subprocess.run([program, str(seed), str(_INPUTS_A_RUN)], env=environment)
                if ended.returncode:
                    print(f"failed with seed {seed}: the input is in {options.crash}")
                    return 1
                done += _INPUTS_A_RUN
            seed += 1
    print(f"{done} inputs, none broke the server")
    return 0


if __name__ == "__main__":
    sys.exit(main())
