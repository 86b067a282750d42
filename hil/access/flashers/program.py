"""A flasher that starts a program for each action; what differs between tools is data.

A subclass states the program, its command lines (:data:`Line`), how the program says that it
succeeded, and the failures that it is known to report. The program runs in a private folder, on an
image with a name of ours: no path or name of the user's reaches a command line or a script, and no
file of the working folder configures the program. Each run has a deadline, and ends with all its
children when this process ends.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import string
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from hil.access.connection import Flashed, ProbeInfo
from hil.access.flashers.usb import Ids, has
from hil.access.protocols import Capability, Flasher, FlasherSession, Need, Progress
from hil.access.usb import UsbDevice, usb_devices
from hil.board.settings import Setting
from hil.errors import DeviceError, FlashError, InputError, ProbeError, Remedy
from hil.firmware.formats import ImageFormat, image_in
from hil.firmware.image import read_image
from hilc.support.process import run
from hilc.support.temporary import TemporaryFolder

if TYPE_CHECKING:
    from hil.access.connection import Connection
    from hil.board import Board
    from hil.board.settings import Value

#: ``unlock`` erases a locked chip to open it; it runs only if the user asks for it.
Action: TypeAlias = Literal["program", "reset", "erase", "verify", "unlock"]


@dataclass(frozen=True)
class When:
    """Words of a command line that depend on a value."""

    #: The name of a value that must not be empty, 0 or false; behind ``!``, that must be.
    condition: str
    words: tuple[str, ...]

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Return whether the words are a part of the command line."""
        name = self.condition.removeprefix("!")
        return bool(values[name]) != (name != self.condition)


def when(condition: str, *words: str) -> When:
    """Return words that depend on a value."""
    return When(condition, words)


#: The arguments of one run: words with ``{placeholders}``.
Line: TypeAlias = "tuple[str | When, ...]"

#: The setting that every program has.
TIMEOUT: Final = Setting("integer", "longest run of the program, in seconds", 120, 1, 3600)
#: The image's name in the folder of a session, without its suffix.
IMAGE: Final = "image"
#: Serial numbers come from USB devices: an option or a word of a script is refused.
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]*\Z")
#: Lines of a program's output that an error quotes.
_QUOTED_LINES = 4


@dataclass(frozen=True)
class Failure:
    """A failure that a program reports."""

    #: Regular expression for its text in the output, in any case.
    pattern: str
    hint: str
    error: type[DeviceError] = FlashError
    remedy: Remedy | None = None
    is_lost: bool = False


#: What the system says of a USB device that this user may not open.
NO_PERMISSION: Final = Failure(
    r"permission denied|LIBUSB_ERROR_ACCESS|insufficient permissions|access denied",
    "install the udev rules of the tool, or join the group that owns the device",
    ProbeError,
)


class ProgramFlasher(Flasher):
    """A flasher that starts ``program``; a subclass is a table."""

    #: The program, found on PATH.
    program: str
    #: How to install it.
    install: str
    #: The words with which it prints its version; none if it would use a probe.
    version: tuple[str, ...] = ("--version",)
    #: The format in which the program takes the image. The flasher itself takes the ELF file, for
    #: its addresses.
    image: ImageFormat = "hex"
    #: The command lines of each action, run in this order.
    lines: Mapping[Action, Sequence[Line]]
    #: Lines of the file ``script`` that an action's run reads.
    scripts: Mapping[Action, Sequence[str]] = {}
    #: Text that a successful action prints, where the exit code does not say enough.
    success: Mapping[Action, str] = {}
    failures: Sequence[Failure] = ()
    #: The USB devices that the program uses.
    usb_ids: Ids = {}
    #: Whether it is given a device by the path of its socket (``1-2.4``), not by a serial number.
    by_path: bool = False
    #: What the user checks after a failure that is not one of these.
    check_hint: str = (
        "check the cable, the board's supply and the flasher's settings (hil boards BOARD)"
    )
    #: What the user does where the flasher cannot reset.
    by_hand: str = "press the board's reset button"

    def __init_subclass__(cls) -> None:
        """Derive the capabilities from the command lines."""
        known: tuple[Capability, ...] = ("erase", "verify")
        own = cls.__dict__.get("capabilities", frozenset())
        cls.capabilities = own | {name for name in known if name in cls.lines}
        cls.settings = {**cls.settings, "timeout_s": TIMEOUT}

    def can_reset(self, board: Board) -> bool:
        """Return whether there is a command line for it."""
        return "reset" in self.lines

    def starts_itself(self, board: Board) -> bool:
        """Return whether programming starts the firmware as well: where nothing else can."""
        return not self.can_reset(board)

    def needs(self, board: Board | None) -> Need | None:
        """Return the program."""
        return Need(self.program, self.install, version=self.version)

    def probes(self) -> list[ProbeInfo]:
        """Return the devices on USB that the program can use; none is opened, since the tools stop
        or reset boards when they list them.
        """
        return [
            ProbeInfo(self.uid_of(device), device.name, "", "")
            for device in usb_devices()
            if self.is_probe(device)
        ]

    def uid_of(self, device: UsbDevice) -> str:
        """Return the id by which a device is chosen."""
        return device.path if self.by_path else device.serial or device.path

    def is_probe(self, device: UsbDevice) -> bool:
        """Return whether the program can use a device on USB."""
        return has(self.usb_ids, device.vendor, device.product)

    def words(self) -> list[str]:
        """Return the words that start the program."""
        return [self.program]

    def values(self, board: Board, uid: str, connection: Connection) -> dict[str, Value]:
        """Return the values of placeholders, besides ``file`` and ``origin``: the settings, the
        ``port``, or the device: ``serial``, ``path``, ``bus``, ``address``, ``vid``, ``pid``.
        """
        settings = dict(board.settings[self.name])
        if not self.uses_probe:
            return {**settings, "port": uid}
        device = self.device(uid)
        return {
            **settings,
            **{"serial": device.serial, "path": device.path},
            **{"bus": device.bus, "address": device.address},
            **{"vid": f"{device.vendor:04x}", "pid": f"{device.product:04x}"},
        }

    def device(self, uid: str) -> UsbDevice:
        """Return the connected device; :class:`~hil.errors.ProbeError` if there is none, or the
        program could take another one for it.
        """
        known = [device for device in usb_devices() if self.is_probe(device)]
        device = next((device for device in known if self.uid_of(device) == uid), None)
        if device is None:
            raise ProbeError(f"the device {uid} is not connected", "connect it", is_lost=True)
        if len(known) > 1 and not self.by_path and not device.serial:
            raise ProbeError(
                f"the device at {uid} has no serial number, and {self.title} could take one of "
                f"{len(known) - 1} others for it",
                "unplug the others",
            )
        return device

    def check_settings(self, board: Board, action: Action) -> None:
        """Raise :class:`~hil.errors.InputError` if the settings exclude an action."""

    @contextlib.contextmanager
    def open(
        self, board: Board, uid: str, connection: Connection, *, attach: bool = False
    ) -> Iterator[ProgramSession]:
        """Yield a session in a folder of its own; it opens nothing before its first action."""
        values = self.values(board, uid, connection)
        serial = str(values.get("serial", ""))
        if serial and not _SAFE.match(serial):
            raise ProbeError(
                f"{self.title} is not started for the serial number {serial!r}: only letters, "
                "digits and . _ : + - are passed on",
                "use another flasher, or another probe: --probe UID",
            )
        with TemporaryFolder("flash") as folder:
            session = self.session(board, values, Path(folder), connection)
            try:
                yield session
            finally:
                session.close()

    def session(
        self, board: Board, values: Mapping[str, Value], folder: Path, connection: Connection
    ) -> ProgramSession:
        """Return the session in ``folder``."""
        return ProgramSession(self, board, values, folder, connection.erase_to_unlock)


class ProgramSession(FlasherSession):
    """A board that is reached by a run of the program for each action."""

    def __init__(
        self,
        flasher: ProgramFlasher,
        board: Board,
        values: Mapping[str, Value],
        folder: Path,
        erase_to_unlock: bool = False,
    ) -> None:
        self.flasher = flasher
        self.board = board
        self.folder = folder
        self.values = dict(values)
        self._erase_to_unlock = erase_to_unlock
        self._is_programmed = False

    def program(self, image: Path, progress: Progress | None) -> Flashed:
        """Program the image; the board's build id shows later that it runs it."""
        begin = time.monotonic()
        self._unlock()
        nbytes = self.stage(image)
        self.act("program")
        self._is_programmed = True
        if progress is not None:
            progress(1.0)
        return Flashed(True, nbytes, time.monotonic() - begin)

    def start(self, image: Path, *, halted: bool = False) -> None:
        """Start the firmware, unless programming has started it."""
        if self._is_programmed and self.flasher.starts_itself(self.board):
            self._is_programmed = False
            return
        self.reset()

    def reset(self) -> str:
        """Reset the board; InputError if the program cannot."""
        if not self.flasher.can_reset(self.board):
            raise InputError(
                f"the flasher {self.flasher.name!r} cannot reset a board that runs its firmware",
                self.flasher.by_hand,
            )
        self.act("reset")
        return "running"

    def erase(self) -> list[tuple[int, int]]:
        """Erase the flash of the board."""
        self._unlock()
        self.act("erase")
        return [(region.origin, region.size) for region in self.board.regions("flash")]

    def verify(self, image: Path) -> None:
        """Raise FlashError if the program finds something else on the board."""
        self.stage(image)
        self.act("verify")

    def error(self, what: str, output: str) -> DeviceError:
        """Return the error that the output of the program explains; ``what`` begins it."""
        for failure in self.flasher.failures:
            if found := re.search(f".*(?:{failure.pattern}).*", output, re.IGNORECASE):
                line = " ".join(found[0].split())
                return failure.error(
                    f"{what}: {line}",
                    failure.hint,
                    remedy=failure.remedy,
                    is_lost=failure.is_lost,
                )
        return FlashError(f"{what}{_quoted(output)}", self.flasher.check_hint, remedy=Remedy.FLASH)

    def close(self) -> None:
        """Do nothing: the probe or port is open only while the program runs."""

    def stage(self, elf: Path) -> int:
        """Put the image into the folder, in the program's format; return its bytes."""
        segments = read_image(elf)
        own = self.folder / f"{IMAGE}.elf"
        shutil.copyfile(elf, own)
        family = self.flasher.uf2_family(self.board)
        file = image_in(own, self.flasher.image, self.folder, family)
        self.values |= {"file": file.name, "origin": segments[0].address}
        return sum(len(segment.data) for segment in segments)

    def act(self, action: Action) -> None:
        """Run the command lines of an action; raise the error of the first that fails."""
        flasher = self.flasher
        flasher.check_settings(self.board, action)
        if action in flasher.scripts:
            lines = [line.format_map(self.values) for line in flasher.scripts[action]]
            (self.folder / "script").write_text("\n".join([*lines, ""]))
        output = "".join(self.run(expand(line, self.values)) for line in flasher.lines[action])
        wanted = flasher.success.get(action)
        if wanted is not None and not re.search(wanted, output, re.IGNORECASE):
            raise self.error(f"{flasher.title} did not report success", output)

    def run(self, arguments: Sequence[str]) -> str:
        """Run the program; return its output. Raise the error that the output explains."""
        flasher, limit_s = self.flasher, float(self.values["timeout_s"])
        try:
            done = run(
                [*flasher.words(), *arguments],
                self.folder,
                limit_s=limit_s,
                errors_apart=False,
                temporary=self.folder,
            )
        except subprocess.TimeoutExpired as error:
            said = error.output if isinstance(error.output, str) else ""
            raise DeviceError(
                f"{flasher.title} did not end within {limit_s:g} s{_quoted(said)}",
                "check the cable and the board's supply; for a large image raise the setting "
                f"timeout_s: --flasher {flasher.name}:timeout_s=S",
                remedy=Remedy.FLASH,
            ) from None
        except OSError as error:
            raise DeviceError(
                f"{flasher.program} cannot be started: {error.strerror}", flasher.install
            ) from None
        if done.returncode != 0:
            raise self.error(f"{flasher.title} failed with {done.returncode}", done.stdout)
        return done.stdout

    def _unlock(self) -> None:
        """Erase a locked chip to open it, if the user asks for it."""
        if not self._erase_to_unlock:
            return
        if "unlock" not in self.flasher.lines:
            raise InputError(
                f"the flasher {self.flasher.name!r} cannot open a locked chip",
                "use the maker's tool, and leave out --erase-to-unlock",
            )
        self.act("unlock")
        self._erase_to_unlock = False


def expand(line: Line, values: Mapping[str, Value]) -> list[str]:
    """Return the words of a command line with their values."""
    words: list[str] = []
    for word in line:
        if isinstance(word, str):
            words.append(word.format_map(values))
        elif word.holds(values):
            words += [part.format_map(values) for part in word.words]
    return words


def placeholders(word: str) -> set[str]:
    """Return the names in ``word``; ValueError if its braces do not match."""
    return {name for _, name, _, _ in string.Formatter().parse(word) if name is not None}


def _quoted(output: str) -> str:
    """Return the last lines of a program's output, for a message."""
    lines = [" ".join(line.split()) for line in re.split(r"[\r\n]+", output)]
    last = [line for line in lines if line][-_QUOTED_LINES:]
    return f"; it printed: {' | '.join(last)}" if last else ", without any output"
