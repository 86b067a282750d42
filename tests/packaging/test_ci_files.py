"""The action for GitHub and the template for GitLab: their scripts run here as a runner runs them.

What a runner does besides (checking out, installing Python, collecting artifacts) is not tested.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import answers
import pytest
import yaml
from environments import FROM_LOCK, programs

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
TEMPLATE = ROOT / "templates" / "hil.yml"
NIGHTLY = ROOT / "ci" / "nightly" / "nightly.yml"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step.get("name", step.get("uses")): step for step in ACTION["runs"]["steps"]}
_INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
#: Inputs of the template that say what it installs.
SOURCE = {"repository": str(ROOT), "revision": "0" * 40}


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
    results = answers.entries((tmp_path / outputs["results"]).read_text())
    assert [board["match"] for board in results] == [True] * 2
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
    given |= SOURCE
    job = yaml.safe_load(gitlab(**given, arguments="--samples 1")[1])["hil"]
    (script,) = job["script"]
    done = run(script, tmp_path, SH, job["variables"], program)
    assert done.returncode == 0, done.stderr
    results = answers.entries((tmp_path / "hil-results/results.json").read_text())
    assert [board["goal"] for board in results] == ["ram", "size"]
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
    assert set(jobs) == {"tests", "emulated", "kinds", "sklearn", "lab"}
    assert jobs["tests"]["steps"][-1] == {"run": "make test test-full check"}
    for job in (jobs["emulated"], jobs["lab"]):
        (call,) = [step for step in job["steps"] if step["uses"] == "./"]
        assert set(call["with"]) <= set(ACTION["inputs"])
        keep: dict[str, Any] = job["steps"][-1]
        assert keep["if"] == "always()"
        assert keep["with"]["path"] == call["with"]["output"]


def test_nightly_measurements_exist() -> None:
    """Each is a script of the repository, and each of its options is one that the script has."""
    jobs = yaml.safe_load(NIGHTLY.read_text())["jobs"]
    lines = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    measured = [re.fullmatch(r"make measure NAME=(\w+) ARGS=(--\w+)", line) for line in lines]
    found = {match[1]: match[2] for match in measured if match}
    assert set(found) == {"kinds", "sklearn_models"}
    for name, option in found.items():
        assert f'"{option}"' in (ROOT / "tools" / f"{name}.py").read_text()


@pytest.mark.parametrize("words", [(), ("sklearn",), ("no_such", "python")])
def test_an_environment_that_does_not_exist(words: tuple[str, ...]) -> None:
    script = ROOT / "ci" / "environments.py"
    command = [sys.executable, str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "sklearn" in done.stderr


@pytest.mark.full
def test_the_classifiers_are_those_of_scikit_learn() -> None:
    """In the environment of its lock file, as the nightly workflow does it."""
    script = ROOT / "tools" / "sklearn_models.py"
    command = [str(programs("sklearn") / "python"), str(script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def fresh_environment(folder: Path) -> tuple[Path, dict[str, str]]:
    """The programs of a new environment, where pip finds the dependencies of the running one
    already installed, and the variables that keep it from an index of packages.
    """
    venv.create(folder, with_pip=True, symlinks=True)
    site = sysconfig.get_path("purelib", vars={"base": str(folder)})
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(site, "dependencies.pth").write_text("\n".join(paths))
    (folder / "bin" / "ninja").symlink_to(Path(sysconfig.get_path("scripts")) / "ninja")
    return folder / "bin", {"PIP_NO_INDEX": "1"}


@pytest.mark.full
def test_the_steps_run_in_a_fresh_environment(tmp_path: Path) -> None:
    """As the runner does it, but for the index of packages: pip compares the versions of the lock
    file with those that are there.
    """
    path, offline = fresh_environment(tmp_path / "env")
    checkout = {"HIL_CHECKOUT": str(ROOT)}
    done = run(STEPS["Install hil"]["run"], tmp_path, BASH, offline | checkout, path)
    assert done.returncode == 0, done.stderr
    assert (path / "hil").is_file()
    variables = action_environment("Run the matrix", models=str(DIGITS), boards="mps2-an386")
    cache = {"HIL_CACHE": str(tmp_path / "cache")}
    done = run(STEPS["Run the matrix"]["run"], tmp_path, BASH, variables | cache, path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hil-results" / "junit.xml").is_file()


@pytest.mark.full
def test_the_template_installs_the_commit(tmp_path: Path) -> None:
    """That of its input, out of a repository of this checkout's files."""
    git = ["git", "-C", str(tmp_path / "repository"), "-c", "user.name=n", "-c", "user.email=e"]
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__")
    shutil.copytree(ROOT, tmp_path / "repository", ignore=ignored)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True, timeout=120)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    (tmp_path / "repository" / "hil" / "__init__.py").unlink()
    subprocess.run([*git, "commit", "-q", "-a", "-m", "second"], check=True, timeout=120)
    path, offline = fresh_environment(tmp_path / "env")
    given = {"models": "models", "repository": str(tmp_path / "repository")}
    job = yaml.safe_load(gitlab(**given, revision=head.stdout.strip())[1])["hil"]
    script = job["before_script"][-1]
    done = run(script, tmp_path, SH, job["variables"] | offline, path)
    assert done.returncode == 0, done.stderr
    done = run("hil --version", tmp_path, SH, {}, path)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_the_schemas_accept_them(tmp_path: Path) -> None:
    """Those of GitHub's actions and workflows and of GitLab's pipelines."""
    documents = [tmp_path / "head.yml", tmp_path / "job.yml"]
    for path, text in zip(documents, gitlab(models="models", **SOURCE), strict=True):
        path.write_text(text)
    for schema, files in (
        ("github-actions", [ROOT / "action.yml"]),
        ("github-workflows", [NIGHTLY]),
        ("gitlab-ci", documents),
    ):
        checker = [programs("schemas") / "check-jsonschema", "--builtin-schema", f"vendor.{schema}"]
        command = list(map(str, [*checker, *files]))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def sources(*suffixes: str) -> Iterator[tuple[str, str]]:
    """The names and texts of this repository's files: documents, workflows, scripts."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and (path.suffix in suffixes or path.name in suffixes):
            yield name, path.read_text("utf-8")


def test_every_action_is_named_by_its_commit() -> None:
    """And by its version, in a comment; one version of each in all files."""
    versions: dict[str, set[str]] = {}
    for name, text in sources(".yml", ".yaml", ".md"):
        for used in re.findall(r"^[#\s-]*uses: *(.*)$", text, re.MULTILINE):
            if used == "./" or used.startswith("OWNER/REPOSITORY@COMMIT "):
                continue
            found = re.fullmatch(r"([\w./-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)", used)
            assert found, f"{name}: {used}"
            versions.setdefault(found[1], set()).add(found[2])
    assert {"actions/checkout", "actions/setup-python", "actions/upload-artifact"} == set(versions)
    assert all(len(each) == 1 for each in versions.values()), versions


#: Programs that install packages without hashes, and why they may.
WITHOUT_HASHES = {
    "tests/campaigns/exports.py": "not run by CI; a package of the ecosystems' tools has no wheel",
    "examples/digits/train.py": "not run by CI; trains a model with TensorFlow",
    "examples/networks/make.py": "not run by CI; trains a model with TensorFlow",
    "ci/release.py": "not run by CI; installs the release as its users do, in a new environment",
}


def is_safe(call: str) -> bool:
    """Whether a call of pip takes files by their hashes, or none but this repository's."""
    from_lock = ("--require-hashes", "--only-binary :all:", "-r ")
    return all(word in call for word in from_lock) or all(
        word in call for word in ("--no-index", "--no-deps", "--no-build-isolation")
    )


def test_every_installation_in_a_script_has_hashes() -> None:
    """Those of CI's files and of the Makefile."""
    calls = []
    for name, text in sources(".yml", ".sh", "Makefile", "run"):
        for line in re.sub(r"\\\n", " ", text).splitlines():
            found = re.findall(r"(?:\bpip install|pip_install) (.*?)(?=&&|;|\|\||$)", line)
            # But for the body of a shell function, whose calls are looked at.
            calls += [(name, call) for call in found if '"$@"' not in call]
    assert {name for name, _ in calls} == {
        "action.yml",
        "ci/setup.sh",
        "templates/hil.yml",
        "Makefile",
    }
    assert [call for call in calls if not is_safe(call[1])] == []


def test_every_installation_in_a_program_has_hashes() -> None:
    """A function that calls pip has its options from ci/environments.py, or installs no other
    package.
    """
    unsafe = set()
    for name, text in sources(".py"):
        for node in ast.walk(ast.parse(text)) if "pip" in text else ():
            if not isinstance(node, ast.FunctionDef):
                continue
            source = ast.get_source_segment(text, node) or ""
            if re.search(r"\bpip\b", source) and '"install"' in source:
                call = re.sub(r'[",*]+', " ", source.replace("FROM_LOCK", " ".join(FROM_LOCK)))
                unsafe |= set() if is_safe(re.sub(r" +", " ", call)) else {name}
    assert unsafe == set(WITHOUT_HASHES)
