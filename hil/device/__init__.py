"""Boards that run hil's firmware, and the models in it: :func:`hil.open`, and recovery from
failures.

The room of a board in use: :func:`hil.open`, and bringing it back when it fails.
"""

from __future__ import annotations

from hil.device.console import Console
from hil.device.device import Device, Model
from hil.device.firmware_tests import FirmwareTest
from hilc.executor import Outputs, RunResult

__all__ = ["Console", "Device", "FirmwareTest", "Model", "Outputs", "RunResult"]
