"""Hands over what exists only for microTVM to the rest of the harness (:mod:`hilc.plugins`)."""

from __future__ import annotations

from hil.compat.tvm.calls import TvmCalls
from hil.compat.tvm.runtime import TvmFirmware
from hil.rpc.calls import provide_board_calls
from hil.runtime import provide_firmware_runtime


def register() -> None:
    provide_firmware_runtime(TvmFirmware())
    provide_board_calls(TvmCalls())
