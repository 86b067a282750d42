"""Errors of the harness, below the project's one root :class:`hilc.errors.HilError`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from hilc.errors import HilError, HilWarning, InputError, LoopBoundError

__all__ = [
    "Attempt",
    "BoardError",
    "BuildError",
    "ConsoleError",
    "DeviceError",
    "EmulatorError",
    "FlashError",
    "HangError",
    "HilError",
    "HilWarning",
    "InputError",
    "InternalError",
    "LinkError",
    "LoopBoundError",
    "NotRunError",
    "NumericError",
    "ProbeError",
    "Remedy",
    "StackError",
    "UsageError",
]


def __getattr__(name: str) -> Any:
    """Refuse the former name of :class:`Remedy`, with the new one."""
    if name == "Mend":
        # No AttributeError: `from hil.errors import Mend` would drop its message.
        raise ImportError(
            "hil.errors.Mend is hil.errors.Remedy since 0.2, and the parameter and attribute "
            "mend of a DeviceError is remedy"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class UsageError(InputError):
    """The command line itself is wrong."""


class BoardError(InputError):
    """A board description is not valid; the message names file and key."""


class BuildError(HilError):
    """The firmware could not be built: a tool is missing or failed, or the image does not fit."""

    exit_code = 3
    kind = "build"


class Remedy(IntEnum):
    """Remedies for a failed board, the mildest first; :mod:`hil.device.recovery` takes them."""

    RESET = 1
    #: Programming it again and starting the firmware.
    FLASH = 2
    #: Switching it off and on; the emulator or process in place of a board is started anew.
    POWER = 3


@dataclass(frozen=True)
class Attempt:
    """A step of a board's recovery that was taken (:mod:`hil.device.recovery`)."""

    #: Name of the board.
    board: str
    #: The step: ``a reset``, ``programming it again`` and so on.
    step: str
    #: Fact of the error that caused it.
    reason: str
    seconds: float
    #: Why the step failed; empty on success.
    failure: str = ""
    #: Which of the boards of that name: the unique id of its probe, its port, or its place in a
    #: lab. Empty for one that is started here, such as an emulated board.
    unit: str = ""

    def __str__(self) -> str:
        end = f"failed: {self.failure}" if self.failure else "the board was back"
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.board}{unit}: {self.reason}; {self.step} took {self.seconds:.1f} s, {end}"

    def to_json(self) -> dict[str, Any]:
        """Return the object that JSON outputs have in ``recoveries``."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


class DeviceError(HilError):
    """Board, emulator, probe or firmware failed.

    ``remedy`` is the mildest step that may help; None if no step can.
    """

    exit_code = 4
    kind = "device"

    def __init__(
        self, fact: str, hint: str = "", *, remedy: Remedy | None = None, is_lost: bool = False
    ) -> None:
        super().__init__(fact, hint)
        self.remedy = remedy
        #: Steps that recovery took in vain before this error was raised.
        self.recoveries: tuple[Attempt, ...] = ()
        #: Whether the board cannot be reached: no step brought it back, or its probe is missing.
        self.is_lost = is_lost
        #: Whether it is the end of a process without an error: exit code 0.
        self.is_good_end = False

    def is_like(self, other: DeviceError) -> bool:
        """Return whether ``other`` was the same failure, so that a restart would be in vain."""
        return False


class HangError(DeviceError):
    """The firmware has begun something and does not come back from it."""

    def is_like(self, other: DeviceError) -> bool:
        """Return whether ``other`` is a hang too: a job that hangs twice in a row always hangs."""
        return isinstance(other, HangError)


class StackError(DeviceError):
    """The stack went deeper than the image's code can take it."""


class ProbeError(DeviceError):
    """A debug probe is missing, busy or failed."""

    kind = "link"


class EmulatorError(DeviceError):
    """An emulator, a simulator or a probe's server cannot be started, or ended by no act of the
    firmware.
    """

    kind = "link"


class FlashError(DeviceError):
    """The board's flash differs from the programmed image."""

    kind = "flash"


class LinkError(DeviceError):
    """The serial link failed: closed, no answer before the deadline, not our protocol."""

    kind = "link"


class NumericError(HilError):
    """The board computed something else than the reference."""

    exit_code = 1
    kind = "numeric"


class ConsoleError(HilError):
    """A firmware of the user did not print what was expected, or its own tests failed."""

    exit_code = 1
    kind = "console"


class InternalError(HilError):
    """A bug of this program, whose traceback was printed."""

    exit_code = 70
    kind = "internal"

    def __init__(self, error: BaseException) -> None:
        text = " ".join(str(error).split())
        super().__init__(
            f"{type(error).__name__}: {text}" if text else type(error).__name__,
            "this is a bug in hil; please report it with the text above",
        )


class NotRunError(HilError):
    """A combination of a matrix has no result, since the command ended first.

    ``why`` says what ended it, ``exit_code`` is that of the command.
    """

    kind = "interrupted"

    def __init__(self, why: str, exit_code: int) -> None:
        super().__init__(f"not run: {why}")
        self.exit_code = exit_code
