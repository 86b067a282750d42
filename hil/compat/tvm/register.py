"""Register the components for microTVM with the harness (:mod:`hilc.plugins`)."""

from __future__ import annotations

import hil.compat.tvm.results  # noqa: F401 - registers the entries of its commands
from hil.compat.tvm.calls import TvmCalls
from hil.compat.tvm.runtime import TvmFirmware
from hil.firmware.runtime import provide_firmware_runtime
from hil.link.calls import provide_board_calls


def register() -> None:
    """Register TVM's run time in firmware, and the calls of its functions."""
    provide_firmware_runtime(TvmFirmware())
    provide_board_calls(TvmCalls())
