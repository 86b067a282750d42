"""The action for GitHub and the template for GitLab: their scripts run here as a runner runs them.

What a runner does besides (checking out, installing Python, collecting artifacts) is not tested.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
TEMPLATE = ROOT / "templates" / "hil.yml"
NIGHTLY = ROOT / "ci" / "nightly" / "nightly.yml"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step.get("name", step.get("uses")): step for step in ACTION["runs"]["steps"]}
_INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
_SCHEMAS = "check-jsonschema==0.39.0"


def gitlab(**inputs: str) -> tuple[str, str]:
    """The two documents of the template, the second with its inputs filled in."""
    head, body = TEMPLATE.read_text().split("\n---\n")
    known = yaml.safe_load(head)["spec"]["inputs"]
    values = {name: str(about.get("default", "")) for name, about in known.items()} | inputs
    assert set(values) == set(known)
    return head, re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: values[found[1]], body)


def action_environment(step: str, **inputs: str) -> dict[str, str]:
    """The variables of a step, as GitHub evaluates them."""
    values = {name: about.get("default", "") for name, about in ACTION["inputs"].items()} | inputs
    assert set(values) == set(ACTION["inputs"])
    return {
        name: _INPUT.sub(lambda found: values[found[1]], text)
        for name, text in STEPS[step]["env"].items()
    }


def run(
    script: str, folder: Path, shell: list[str], variables: Mapping[str, str], path: Path
) -> subprocess.CompletedProcess[str]:
    """A script in a folder, with the programs of ``path`` before all others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    search = f"{path}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [*shell, script],
        cwd=folder,
        env={**kept, **files, **variables, "PATH": search},
        capture_output=True,
        text=True,
        timeout=300,
    )


#: How GitHub and GitLab start a script.
BASH, SH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"], ["sh", "-e", "-c"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with this checkout's `hil`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "compiler")))
    text = f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m hil "$@"\n'
    (folder / "hil").write_text(text)
    (folder / "hil").chmod(0o755)
    return folder


@pytest.mark.full  # It changes rarely, and takes long.
def test_the_action_runs_the_matrix(tmp_path: Path, program: Path) -> None:
    """Two goals; the models are those of a folder whose name has a space."""
    models = tmp_path / "my models"
    models.mkdir()
    (models / "digits.tflite").write_bytes(DIGITS.read_bytes())
    given = {"boards": "native\n", "optimize": "ram\nspeed"}
    given |= {"models": "my models\n", "arguments": "--samples\n1", "output": "out put"}
    variables = action_environment("Run the matrix", **given)
    script = STEPS["Run the matrix"]["run"]
    for _ in range(2):
        done = run(script, tmp_path, BASH, variables, program)
        assert done.returncode == 0, done.stderr
    lines = (tmp_path / "GITHUB_OUTPUT").read_text().splitlines()
    outputs = dict(line.split("=", 1) for line in lines)
    assert set(outputs) == set(ACTION["outputs"])
    cases = ElementTree.parse(tmp_path / outputs["junit"]).iter("testcase")
    assert len(list(cases)) == 2
    results = json.loads((tmp_path / outputs["results"]).read_text())
    assert [board["match"] for board in results["boards"]] == [True] * 2
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text().count("| match |") == 4
    assert (tmp_path / "out put" / "summary.md").read_text().count("| match |") == 2


def test_inputs_of_the_action_are_no_code(tmp_path: Path, program: Path) -> None:
    evil = '$(touch evil) `touch evil`"; touch evil #'
    variables = action_environment("Run the matrix", models=evil, boards="native")
    done = run(STEPS["Run the matrix"]["run"], tmp_path, BASH, variables, program)
    assert done.returncode == 2
    assert "does not exist" in done.stderr
    assert not (tmp_path / "evil").exists()
    assert not any("inputs." in step.get("run", "") for step in ACTION["runs"]["steps"])


def test_what_differs_fails_the_step(tmp_path: Path, program: Path) -> None:
    """Here by a board that there is not."""
    variables = action_environment("Run the matrix", models=str(DIGITS), boards="no-such-board")
    done = run(STEPS["Run the matrix"]["run"], tmp_path, BASH, variables, program)
    assert done.returncode == 2
    assert "junit=" in (tmp_path / "GITHUB_OUTPUT").read_text()


@pytest.mark.full  # It changes rarely, and takes long.
def test_the_template_runs_the_matrix(tmp_path: Path, program: Path) -> None:
    given = {"models": str(DIGITS), "boards": "native", "optimize": "ram size"}
    job = yaml.safe_load(gitlab(**given, arguments="--samples 1")[1])["hil"]
    (script,) = job["script"]
    done = run(script, tmp_path, SH, job["variables"], program)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "hil-results/results.json").read_text())
    assert [board["optimize"] for board in results["boards"]] == ["ram", "size"]
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).is_file()


def test_every_input_is_used() -> None:
    text = (ROOT / "action.yml").read_text()
    for name in ACTION["inputs"]:
        assert re.search(rf"inputs\.{name}\b", text), name
    for name in yaml.safe_load(gitlab()[0])["spec"]["inputs"]:
        assert f"$[[ inputs.{name} ]]" in TEMPLATE.read_text(), name


def test_the_nightly_workflow_calls_the_action() -> None:
    """With inputs that it has; the results are kept whatever happened."""
    jobs = yaml.safe_load(NIGHTLY.read_text())["jobs"]
    assert set(jobs) == {"emulated", "lab"}
    for job in jobs.values():
        (call,) = [step for step in job["steps"] if step["uses"] == "./"]
        assert set(call["with"]) <= set(ACTION["inputs"])
        keep: dict[str, Any] = job["steps"][-1]
        assert keep["if"] == "always()"
        assert keep["with"]["path"] == call["with"]["output"]


@pytest.mark.full
def test_the_steps_install_and_run_in_a_fresh_environment(tmp_path: Path) -> None:
    """As the runner does it, but for the index of packages: the dependencies are those of the
    running environment.
    """
    venv.create(tmp_path / "env", with_pip=True, symlinks=True)
    site = sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env")})
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(site, "dependencies.pth").write_text("\n".join(paths))
    programs = tmp_path / "env" / "bin"
    (programs / "ninja").symlink_to(Path(sysconfig.get_path("scripts")) / "ninja")
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    package = {"HIL_PACKAGE": f"{ROOT}[tflm,onnx]"}
    done = run(STEPS["Install hil"]["run"], tmp_path, BASH, offline | package, programs)
    assert done.returncode == 0, done.stderr
    assert (programs / "hil").is_file()
    variables = action_environment("Run the matrix", models=str(DIGITS), boards="mps2-an386")
    cache = {"HIL_CACHE": str(tmp_path / "cache")}
    done = run(STEPS["Run the matrix"]["run"], tmp_path, BASH, variables | cache, programs)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hil-results" / "junit.xml").is_file()


@pytest.mark.full
def test_the_schemas_accept_them(tmp_path: Path) -> None:
    """Those of GitHub's actions and workflows and of GitLab's pipelines."""
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    subprocess.run([programs / "pip", "-q", "install", _SCHEMAS], check=True, timeout=300)
    documents = [tmp_path / "head.yml", tmp_path / "job.yml"]
    for path, text in zip(documents, gitlab(models="models"), strict=True):
        path.write_text(text)
    for schema, files in (
        ("github-actions", [ROOT / "action.yml"]),
        ("github-workflows", [NIGHTLY]),
        ("gitlab-ci", documents),
    ):
        checker = [str(programs / "check-jsonschema"), "--builtin-schema", f"vendor.{schema}"]
        command = [*checker, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
