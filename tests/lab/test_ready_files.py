"""The files that users copy: labgrid reads them, and what they say works."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import yaml

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


def test_the_nightly_matrix(tmp_path: Path) -> None:
    """Two boards that fit and one that is too small for the model."""
    script = ROOT / "ci" / "nightly" / "run.py"
    boards = ["--board=native", "--board=mps2-an386", "--board=microbit"]
    done = subprocess.run(
        [sys.executable, str(script), *boards, "--workers=0", "--samples=2"]
        + [f"--output={tmp_path}", str(DIGITS)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = list(ElementTree.parse(tmp_path / "junit.xml").iter("testcase"))
    assert len(cases) == 3
    reports = sorted(path.name for path in tmp_path.glob("*.json"))
    assert "digits-mps2-an386.json" in reports
    assert json.loads((tmp_path / "digits-mps2-an386.json").read_text())["verify"]["match"] is True
    summary = (tmp_path / "summary.md").read_text()
    assert summary.count("| exact |") == len(reports)
    assert "passed" in (tmp_path / "log.txt").read_text()


def test_the_workflow_starts_what_there_is() -> None:
    workflow = yaml.safe_load((ROOT / "ci" / "nightly" / "nightly.yml").read_text())
    jobs = workflow["jobs"]
    assert set(jobs) == {"emulated", "lab"}
    for job in jobs.values():
        commands = [step["run"] for step in job["steps"] if "run" in step]
        assert commands[0] == "make setup"
        words = commands[1].split()
        assert words[:2] == [".venv/bin/python", "ci/nightly/run.py"]
        # Its options are those of the script, and its artefacts are kept whatever happened.
        known = subprocess.run(
            [sys.executable, str(ROOT / words[1]), "--help"], capture_output=True, text=True
        ).stdout
        assert all(word in known for word in words if word.startswith("--"))
        keep = job["steps"][-1]
        assert keep["if"] == "always()"
        assert keep["with"]["path"] == words[words.index("--output") + 1]
