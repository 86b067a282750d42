"""Commands that install system packages, by the system."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

import pytest

from hilc.support import packages
from hilc.target import cpu_names, get_cpu

#: The contents of /etc/os-release of each system, and the start of its commands.
SYSTEMS = {
    "Debian": ({"ID": "debian"}, "apt install gcc"),
    "Ubuntu": ({"ID": "ubuntu", "ID_LIKE": "debian"}, "apt install gcc"),
    "Mint": ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "apt install gcc"),
    "Fedora": ({"ID": "fedora"}, "dnf install gcc"),
    "Rocky": ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install gcc"),
    "Arch": ({"ID": "arch"}, "pacman -S gcc"),
    "Manjaro": ({"ID": "manjaro", "ID_LIKE": "arch"}, "pacman -S gcc"),
    "unknown": ({"ID": "void"}, "apt install gcc, on Debian"),
}


@pytest.fixture(autouse=True)
def not_cached() -> Iterator[None]:
    packages.manager.cache_clear()
    yield
    packages.manager.cache_clear()


def on(monkeypatch: pytest.MonkeyPatch, release: dict[str, str]) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)


@pytest.mark.parametrize(("release", "command"), SYSTEMS.values(), ids=SYSTEMS)
def test_the_command_of_a_system(
    monkeypatch: pytest.MonkeyPatch, release: dict[str, str], command: str
) -> None:
    on(monkeypatch, release)
    assert packages.install_command("gcc") == command


def test_names_of_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, {"ID": "fedora"})
    found = packages.install_command("gcc-arm-none-eabi libnewlib-arm-none-eabi", "g++")
    assert found == "dnf install arm-none-eabi-gcc-cs arm-none-eabi-newlib gcc-c++"


def test_a_package_that_a_system_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, {"ID": "arch"})
    found = packages.install_command("gcc", "picolibc-riscv64-unknown-elf")
    assert found.startswith("pacman -S gcc, and what Debian packages as picolibc-riscv64-unknown")


def test_a_system_without_a_release_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise OSError

    monkeypatch.setattr(platform, "freedesktop_os_release", missing)
    assert packages.install_command("gcc") == "apt install gcc, on Debian"


def test_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    found = packages.install_command("gcc-arm-none-eabi libnewlib-arm-none-eabi")
    assert found == "brew install --cask gcc-arm-embedded"


def test_packages_of_arm_toolchains_are_known() -> None:
    """A package of a toolchain file has a name on Fedora and Arch, or is one of RISC-V."""
    toolchains = {get_cpu(name).toolchain for name in cpu_names()}
    wanted = {name for t in toolchains for name in f"{t.packages} {t.qemu_package}".split()}
    for manager in (packages._DNF, packages._PACMAN):
        assert manager.names is not None
        assert {n for n in wanted if "riscv64-unknown-elf" not in n} <= set(manager.names)
