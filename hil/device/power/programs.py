"""Switches behind programs of this machine: commands of the user, and uhubctl."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hil.device.power.switch import Switch, state
from hil.errors import DeviceError, InputError
from hilc.support.packages import install_command
from hilc.support.process import run

#: Debian installs uhubctl there, which is not on the path of every user.
_SYSTEM_PROGRAMS: Final = "/usr/sbin"
_NEW_STATUS: Final = "New status for hub "


@dataclass(frozen=True)
class OnOff(Switch):
    """Two commands of the user's configuration, as lists of words."""

    on_words: tuple[str, ...]
    off_words: tuple[str, ...]

    def turn(self, on: bool) -> None:
        _run(self, self.on_words if on else self.off_words)


@dataclass(frozen=True)
class Cycle(Switch):
    """One command of the user's configuration that switches off and on."""

    words: tuple[str, ...]

    def turn(self, on: bool) -> None:
        raise InputError(
            f"{self.board} has one command for its power, cycle, and none for {state(on)}",
            f"state on and off instead in {self.file}, or a driver",
        )

    def cycle(self, off_s: float) -> None:
        _run(self, self.words)


@dataclass(frozen=True)
class Uhubctl(Switch):
    """A port of a USB hub that switches power for each port."""

    location: str
    port: int

    def turn(self, on: bool) -> None:
        program = shutil.which("uhubctl", path=_search_path())
        if program is None:
            raise self.failed("needs uhubctl, which is not installed", install_command("uhubctl"))
        port = str(self.port)
        words = (program, "-l", self.location, "-p", port, "-a", state(on))
        said = _run(self, words, "uhubctl without options lists the hubs that it can switch")
        # It ends with 0 also where the hub has no such port or refuses the request.
        after = re.findall(rf"^\s*Port {port}: (.*)$", said.partition(_NEW_STATUS)[2], re.MULTILINE)
        if not after:
            raise self.failed(
                f"was not switched: uhubctl reports no port {port} of the hub {self.location}",
                "uhubctl without options lists the hubs and their ports",
            )
        for status in after:
            if ("power" in status.split()) is not on:
                raise self.failed(
                    f"did not switch {state(on)}: uhubctl reports {status.strip()!r} for port "
                    f"{port} of the hub {self.location}",
                    "does the hub switch power for each port?",
                )


def _search_path() -> str:
    return os.pathsep.join((os.environ.get("PATH", os.defpath), _SYSTEM_PROGRAMS))


def _run(switch: Switch, words: Sequence[str], remedy: str = "run it by hand") -> str:
    """Return the output of a command of ``switch``."""
    text = shlex.join(words)

    def failed(problem: str) -> DeviceError:
        hint = f"{remedy}; it is stated in {switch.file}"
        return DeviceError(f"the power command of {switch.board} {problem}", hint)

    try:
        # What it has started ends with it past the deadline, or when this program ends.
        done = run(words, Path(), limit_s=switch.timeout_s, errors_apart=False)
    except subprocess.TimeoutExpired:
        raise failed(f"did not end within {switch.timeout_s:g} s: {text}") from None
    except OSError as error:
        raise failed(f"cannot be run: {text}: {error.strerror}") from None
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if line.strip()]
        # uhubctl ends its output with a line about its help.
        reason = next((line for line in reversed(said) if "get usage info" not in line), "")
        raise failed(
            f"failed with {done.returncode}: {text}"
            + (f", saying {reason.strip()!r}" if reason else "")
        )
    return done.stdout
