"""The image for CI: it has what ci/setup.sh installs, and Docker builds it where it runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from image_steps import instructions

ROOT = Path(__file__).resolve().parents[2]
DEVCONTAINER = ROOT / ".devcontainer" / "devcontainer.json"
#: Names in ci/setup.sh that depend on the release, and what they are in that of the image.
OF_BOOKWORM = {
    "python$python_version-venv": "python3.11-venv",
    "$(libfuzzer_package)": "libclang-rt-14-dev",
}
#: What a container needs besides: ci/setup.sh finds it on a machine with a checkout.
BASICS = {"ca-certificates", "git", "make", "python3"}
KNOWN = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENV", "CMD"}
BUILD_LIMIT_S = 3600


def installed(command: str) -> list[str]:
    """The packages that a command of apt installs."""
    found = re.search(r"apt-get -qq -y install --no-install-recommends ((?:[^&]\S* )+)&&", command)
    assert found, command
    return found[1].split()


def test_the_dockerfile_has_known_instructions() -> None:
    names = [name for name, _ in instructions()]
    assert names[:2] == ["ARG", "FROM"]
    assert set(names) == KNOWN
    base, tools, last = [text for name, text in instructions() if name in ("ARG", "FROM")]
    assert base == "BASE=debian:bookworm-slim"
    assert (tools, last) == ("${BASE} AS tools", "tools")
    commands = [text for name, text in instructions() if name == "RUN"]
    assert [command.split()[:2] for command in commands] == [
        ["apt-get", "-qq"],
        ["bash", "ci/setup.sh"],
    ]


def test_its_packages_are_those_of_the_setup() -> None:
    text = (ROOT / "ci" / "setup.sh").read_text()
    found = re.findall(r'\b(?:needed|optional)\+=\("?([^")\s]+(?:\(\))?[^")\s]*\)?)"?\)', text)
    names = {OF_BOOKWORM.get(name, name) for name in found}
    assert len(found) == len(re.findall(r"(?:needed|optional)\+=", text))
    assert set(OF_BOOKWORM) <= set(found)
    packages = installed(next(text for name, text in instructions() if name == "RUN"))
    assert packages == sorted(names | BASICS)


def test_the_context_has_no_outputs() -> None:
    """A virtual environment of the host, or the outputs of its builds, are not copied."""
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert {".git", ".venv", "build", "dist", "**/__pycache__"} <= ignored
    needed = ("ci/setup.sh", "ci/locks/development.txt", "pyproject.toml", "hil", "compiler")
    assert not ignored & {part for name in needed for part in (name, name.split("/")[0])}


def test_the_devcontainer_has_the_same_packages() -> None:
    about = json.loads(DEVCONTAINER.read_text())
    build = about["build"]
    assert (DEVCONTAINER.parent / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (DEVCONTAINER.parent / build["context"]).resolve() == ROOT
    assert ("FROM", f"${{BASE}} AS {build['target']}") in instructions()
    script = about["postCreateCommand"].removeprefix("bash ")
    assert (ROOT / script).is_file()


def has_daemon() -> bool:
    """Whether a Docker daemon answers."""
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False)
    return asked.returncode == 0


@pytest.mark.full
def test_docker_builds_the_image() -> None:
    if not has_daemon():
        pytest.skip("no Docker daemon answers here: the image is built where one runs")
    tag = "hil-test-image"
    subprocess.run(
        ["docker", "build", "-q", "-t", tag, "."], cwd=ROOT, timeout=BUILD_LIMIT_S, check=True
    )
    words = ["docker", "run", "--rm", tag, "hil", "verify"]
    words += ["/opt/hil/examples/digits/digits.tflite", "--board", "mps2-an386", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True)
    assert json.loads(done.stdout)["exit_code"] == 0
