"""MLPerf Tiny: a device under test, the benchmark's performance and accuracy, a submission's files.

:mod:`hil.firmware.mlperf` builds the firmware. Everything here goes over the commands that
``docs/how-to/mlperf.md`` lists, so any other firmware that answers them will do as well.
"""

from __future__ import annotations

from hil.mlperf.dut import Dut, Inference, open_dut
from hil.mlperf.runs import Accuracy, Item, Performance, accuracy, performance
from hil.mlperf.submission import write_submission

__all__ = [
    "Accuracy",
    "Dut",
    "Inference",
    "Item",
    "Performance",
    "accuracy",
    "open_dut",
    "performance",
    "write_submission",
]
