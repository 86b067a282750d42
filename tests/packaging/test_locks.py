"""The lock files in ci/locks: complete, no more than is required, and every file by its hash."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import lock
import pytest
from environments import LOCKS, lock_path
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Where the packages of a lock file are installed: versions of Python, processors of Linux.
PYTHONS = ("3.10.0", "3.11.7", "3.12.1", "3.13.0")
MACHINES = ("x86_64", "aarch64")
_PIN = re.compile(r"^([\w.-]+)==(\S+)(?: ; (.*?))? \\$")
_HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


@dataclass(frozen=True)
class Pin:
    """A version of a package, where ``marker`` holds."""

    name: str
    version: str
    marker: Marker | None

    def holds(self, environment: dict[str, str]) -> bool:
        return self.marker is None or self.marker.evaluate(environment)


def pins(path: Path) -> list[Pin]:
    """The pins of a lock file, each of which must have a hash; nothing else may stand there."""
    found: list[Pin] = []
    hashes = 1
    for line in path.read_text().splitlines()[1:]:
        if match := _PIN.match(line):
            assert hashes > 0, f"{found[-1].name} has no hash"
            marker = Marker(match[3]) if match[3] else None
            found.append(Pin(canonicalize_name(match[1]), match[2], marker))
            hashes = 0
        else:
            assert _HASH.match(line), line
            hashes += 1
    assert hashes > 0
    return found


def applicable(lines: Iterable[str], environment: dict[str, str]) -> Iterator[Requirement]:
    """The requirements whose markers hold."""
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement


def environments() -> list[dict[str, str]]:
    """The values of markers, where the packages are installed."""
    here = {name: str(value) for name, value in default_environment().items()}
    linux = here | {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return [
        linux
        | {"python_full_version": python, "python_version": python.rpartition(".")[0]}
        | {"platform_machine": machine}
        for python in PYTHONS
        for machine in MACHINES
    ]


def test_every_lock_file_is_written_by_ci_lock() -> None:
    assert {path.stem for path in LOCKS.iterdir()} == set(lock.LOCKS)
    for name in lock.LOCKS:
        assert lock_path(name).read_text().startswith(lock._HEADER)


@pytest.mark.parametrize("name", lock.LOCKS)
def test_each_requirement_has_one_version(name: str) -> None:
    locked = pins(lock_path(name))
    for environment in environments():
        for needed in applicable(lock.requirements(name), environment):
            found = [
                pin.version
                for pin in locked
                if pin.name == canonicalize_name(needed.name) and pin.holds(environment)
            ]
            where = f"{needed}, Python {environment['python_version']}: run 'make lock'"
            assert len(found) == 1, where
            assert needed.specifier.contains(found[0], prereleases=True), where


@pytest.mark.parametrize("name", ["development", "action"])
def test_lock_holds_what_is_required_and_no_more(name: str) -> None:
    """In this environment, by what its packages say that they require."""
    here = {key: str(value) for key, value in default_environment().items()}
    locked = {pin.name: pin.version for pin in pins(lock_path(name)) if pin.holds(here)}
    waiting = list(applicable(lock.requirements(name), here))
    seen = set[tuple[str, str]]()
    while waiting:
        requirement = waiting.pop()
        package = canonicalize_name(requirement.name)
        distribution = importlib.metadata.distribution(package)
        assert distribution.version == locked.get(package), f"{package}: run 'make setup'"
        for extra in {"", *requirement.extras} - {extra for name, extra in seen if name == package}:
            seen.add((package, extra))
            waiting += applicable(distribution.requires or (), here | {"extra": extra})
    assert set(locked) == {package for package, _ in seen}


def test_action_has_the_versions_of_development() -> None:
    """So that the tests test what the action installs."""
    tested = {(pin.name, pin.version, str(pin.marker)) for pin in pins(lock_path("development"))}
    assert {(p.name, p.version, str(p.marker)) for p in pins(lock_path("action"))} <= tested
