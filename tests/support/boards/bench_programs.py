"""What programs boards of the fake bench that have no probe: a user's program, and a boot loader.

    python bench_programs.py FOLDER program PORT IMAGE.hex
    python bench_programs.py FOLDER reset PORT

is the program, for the flasher ``command``; ``FOLDER`` is the bench's. :class:`Bootloaders` is the
boot loader, for the flasher ``uf2``: it starts when the board's port is opened at 1200 baud, shows
a drive (a folder), takes an image, and starts it.

Both are stand-ins that write the memory of a QEMU machine. A board's ``fault`` makes them do wrong:
``pretend`` resets the board with the firmware that it has, and ``flip`` programs the image with
wrong constants: those that the bench lists as :attr:`~fake_bench.Bench.flipped`.
"""

from __future__ import annotations

import contextlib
import json
import struct
import sys
import termios
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hil.errors import DeviceError

if TYPE_CHECKING:
    from fake_bench import Bench, FakeBoard

    from hil.virtual_probe import VirtualBoard

#: Of the images that the boot loader accepts.
FAMILY = 0x1234_5678
BOARD_ID = "FAKE-BOOT"
_INFO = f"UF2 Bootloader v1.0\nModel: Fake\nBoard-ID: {BOARD_ID}\n"
_BLOCK = struct.Struct("<8I476sI")
_WRONG_BITS = 0x40
_LOOK_S = 0.03
#: The rate of the line after a touch, as any other program would set it.
_USUAL_BAUD = termios.B115200

#: Blocks of an image: address and content.
Blocks = Iterable[tuple[int, bytes]]


class WrongImage(Exception):
    """The image cannot be programmed."""


def program(machine: VirtualBoard, fault: str, flipped: Iterable[str], blocks: Blocks) -> None:
    """Write an image into the memory of a machine, unless it pretends, and start it.

    Raise :class:`WrongImage` if it has none of the constants that are to be flipped, and OSError
    or BlockingIOError if the machine is dead or in use.
    """
    from hil.support.qemu import Machine, Memory

    segments = _joined(blocks)
    if fault == "flip":
        segments = _wrong(segments, [bytes.fromhex(text) for text in flipped])
    sockets = Path(machine.sockets)
    with contextlib.ExitStack() as stack:
        stack.enter_context(machine.claim())
        if fault != "pretend":
            memory = stack.enter_context(contextlib.closing(Memory.at(sockets / "qtest")))
            for address, data in segments.items():
                memory.write_block(address, data)
        control = stack.enter_context(contextlib.closing(Machine.at(sockets / "qmp")))
        for command in ("system_reset", "cont"):
            control.execute(command)


def _joined(blocks: Blocks) -> dict[int, bytes]:
    """Return the segments of an image whose blocks follow each other."""
    segments: dict[int, bytearray] = {}
    last = -1
    for address, data in sorted(blocks):
        if last >= 0 and address == last + len(segments[last]):
            segments[last] += data
        else:
            last = address
            segments[last] = bytearray(data)
    return {address: bytes(data) for address, data in segments.items()}


def _wrong(segments: Mapping[int, bytes], constants: Iterable[bytes]) -> dict[int, bytes]:
    found = dict(segments)
    for address, data in segments.items():
        for constant in constants:
            if (at := data.find(constant)) >= 0:
                end = at + len(constant)
                wrong = bytes(byte ^ _WRONG_BITS for byte in constant)
                found[address] = data[:at] + wrong + data[end:]
                return found
    raise WrongImage("the image has none of the constants that are to be flipped")


def _hex_records(image: Path) -> Iterator[tuple[int, bytes]]:
    from stub_flasher import records

    return records(image)


def main(folder: str, action: str, port: str, image: str = "") -> int:
    """Program the board at ``port`` with an Intel HEX file, or reset it."""
    from hil.virtual_probe import VirtualBoard

    # Not by fake_bench, which imports pyOCD.
    state: Any = json.loads((Path(folder) / "state.json").read_text())
    serial = next(p["serial_number"] for p in state["ports"] if p["device"] == port)
    about = state["machines"][serial]
    fault = about["fault"] if action == "program" else "pretend"
    blocks = _hex_records(Path(image)) if action == "program" else ()
    try:
        program(VirtualBoard(**about["machine"]), fault, state["flipped"], blocks)
    except (OSError, DeviceError, WrongImage) as error:
        print(f"{serial}: {error}")
        return 1
    print(f"{action}: done")
    return 0


class Bootloaders:
    """The boot loaders of boards of a bench, and the thread in which they run."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._drives: dict[FakeBoard, Path] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, board: FakeBoard) -> Path:
        """Add the boot loader of a board; return the folder that is its drive."""
        drive = self._bench.folder / "drives" / board.serial
        drive.mkdir(parents=True)
        self._drives[board] = drive
        return drive

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            for board, drive in list(self._drives.items()):
                self._look(board, drive)

    def _look(self, board: FakeBoard, drive: Path) -> None:
        """Start a boot loader that is asked for, take its image, or end it with its board."""
        info = drive / "INFO_UF2.TXT"
        is_touched = self._is_touched(board)
        if not board.is_plugged or board.is_dead:
            info.unlink(missing_ok=True)
        elif is_touched:
            info.write_text(_INFO)
        elif info.exists():
            self._take(board, drive, info)

    def _is_touched(self, board: FakeBoard) -> bool:
        with self._bench.lock:
            (port,) = board.ports
            if port.slave < 0:
                return False
            settings = termios.tcgetattr(port.slave)
            if settings[4] != termios.B1200:
                return False
            settings[4] = settings[5] = _USUAL_BAUD
            termios.tcsetattr(port.slave, termios.TCSANOW, settings)
            return True

    def _take(self, board: FakeBoard, drive: Path, info: Path) -> None:
        for image in drive.glob("*.uf2"):
            blocks = _uf2_blocks(image.read_bytes())
            if not blocks:
                continue  # more is to come, or it is another family's
            image.unlink()
            # Not ready yet, or dead: the drive stays, and the host says that nothing starts.
            with contextlib.suppress(OSError, DeviceError, WrongImage):
                program(board.machine, board.fault, self._bench.flipped, blocks)
                info.unlink()


def _uf2_blocks(data: bytes) -> list[tuple[int, bytes]]:
    """Return the blocks of a whole image of the family; none of any other file."""
    if not data or len(data) % _BLOCK.size:
        return []
    blocks = [_BLOCK.unpack_from(data, at) for at in range(0, len(data), _BLOCK.size)]
    if any(block[6] != len(blocks) or block[7] != FAMILY for block in blocks):
        return []
    return [(block[3], block[8][: block[4]]) for block in blocks]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
    sys.exit(main(*sys.argv[1:]))
