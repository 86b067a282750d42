"""The files that users copy: labgrid reads them, and what they say works."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hil.lab.place import Keeper, acquire
from hil.lab.selector import Selector
from hil.lab.serve import Served

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "hil" / "lab" / "templates"
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"

#: With labgrid's own Python interface: the power driver of the environment's target.
LABGRID = """
import sys
from labgrid import Environment
target = Environment(sys.argv[1]).get_target("main")
serial = target.get_driver("SerialDriver", activate=False)
power = target.get_driver("NetworkPowerDriver")
print(serial.port.protocol, power.get())
power.off()
print(power.get())
power.on()
"""


def test_the_exporter_file_is_one_for_labgrid() -> None:
    from labgrid.remote.config import ResourceConfig

    environment = {"env": {}, "isolated": False, "hostname": "bench", "name": "bench"}
    groups = ResourceConfig(str(TEMPLATES / "exporter.yaml"), environment).data
    (group,) = groups.values()
    assert {"NetworkSerialPort", "NetworkService", "NetworkPowerPort"} == set(group)
    assert group["NetworkSerialPort"]["protocol"] == "raw"


@pytest.mark.full
def test_labgrids_own_clients_use_a_place(lab: Served) -> None:
    with contextlib.closing(Keeper()) as keeper:
        board = acquire(keeper, Selector((("name", "mps2-an385-1"),)))
        environment = {
            **os.environ,
            **keeper.environment,
            "LG_PLACE": board.place,
            "LG_COORDINATOR": lab.address,
        }
        done = subprocess.run(
            [sys.executable, "-c", LABGRID, str(TEMPLATES / "environment.yaml")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["raw", "True", "False"]
    assert lab.boards["mps2-an385-1"].powered
