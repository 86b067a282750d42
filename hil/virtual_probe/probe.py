"""pyOCD's driver for a QEMU machine, registered under the entry point ``pyocd.probe``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from pyocd.board.board_ids import BoardInfo
from pyocd.core import exceptions
from pyocd.core.plugin import Plugin
from pyocd.probe.debug_probe import DebugProbe

from hil.errors import DeviceError
from hil.support.qemu import Machine, Memory, QemuGdb
from hil.virtual_probe.core import Core
from hil.virtual_probe.dap import AccessPort, TransferFault
from hil.virtual_probe.machine import VirtualBoard, running_boards
from hilc.target import load_cpu

#: Faults of :meth:`VirtualProbe.inject`, and the exceptions that pyOCD gets.
FAULTS: dict[str, type[exceptions.Error]] = {
    "fault": exceptions.TransferFaultError,
    "wait": exceptions.TransferTimeoutError,
    "no-ack": exceptions.TransferError,
    "disconnect": exceptions.ProbeDisconnected,
}


class _QemuBus:
    """The machine's bus, including the core's debug registers."""

    def __init__(self, memory: Memory, core: Core, memory_map: Iterable[tuple[int, int]]) -> None:
        self._memory = memory
        self._core = core
        self._map = tuple(memory_map)

    def _require_mapped(self, address: int, size: int) -> None:
        if not any(first <= address and address + size - 1 <= last for first, last in self._map):
            raise TransferFault(f"no memory at {address:#010x}")

    def read(self, address: int, size: int) -> int:
        if self._core.owns(address):
            word = self._core.read(address & ~3)
            return word >> 8 * (address & 3) & (1 << 8 * size) - 1
        self._require_mapped(address, size)
        return self._memory.read(address, size)

    def write(self, address: int, size: int, value: int) -> None:
        if self._core.owns(address):
            self._core.write(address & ~3, value << 8 * (address & 3))
            return
        self._require_mapped(address, size)
        self._memory.write(address, size, value)
        self._core.noticed_write(address, value.to_bytes(size, "little"))

    def read_words(self, address: int, count: int) -> list[int]:
        if not self._is_memory(address, 4 * count):
            return [self.read(address + 4 * index, 4) for index in range(count)]
        data = self._memory.read_block(address, 4 * count)
        return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]

    def write_words(self, address: int, values: Sequence[int]) -> None:
        if not self._is_memory(address, 4 * len(values)):
            for index, value in enumerate(values):
                self.write(address + 4 * index, 4, value)
            return
        data = b"".join(value.to_bytes(4, "little") for value in values)
        self._memory.write_block(address, data)
        self._core.noticed_write(address, data)

    def _is_memory(self, address: int, size: int) -> bool:
        """Return whether the block is only memory; raise if part of it is unmapped."""
        if any(self._core.owns(address + at) for at in range(0, size, 4)):
            return False
        self._require_mapped(address, size)
        # Peripherals are accessed register by register.
        return address < 0x4000_0000 or 0x6000_0000 <= address < 0xA000_0000


class VirtualProbe(DebugProbe):  # type: ignore[misc]
    """A debug probe on a board's emulated machine (:mod:`hil.virtual_probe`)."""

    @classmethod
    def get_all_connected_probes(
        cls, unique_id: str | None = None, is_explicit: bool = False
    ) -> list[VirtualProbe]:
        """Return a probe for each running virtual board."""
        return [cls(board) for board in running_boards()]

    @classmethod
    def get_probe_with_id(cls, unique_id: str, is_explicit: bool = False) -> VirtualProbe | None:
        """Return the probe of the running board with this id; None if there is none."""
        return next((cls(b) for b in running_boards() if b.uid == unique_id), None)

    def __init__(self, board: VirtualBoard) -> None:
        super().__init__()
        self._virtual = board
        self._links = contextlib.ExitStack()
        self._port: AccessPort | None = None
        self._core: Core | None = None
        self._protocol: DebugProbe.Protocol | None = None
        self._in_reset = False
        self._injected: list[tuple[int, type[exceptions.Error]]] = []
        self._transfers = 0

    # -- identification

    @property
    def vendor_name(self) -> str:
        """Name of the vendor in pyOCD's lists."""
        return "hil"

    @property
    def product_name(self) -> str:
        """Name of the product in pyOCD's lists: the board that it is on."""
        return f"virtual probe on {self._virtual.board} (QEMU)"

    @property
    def unique_id(self) -> str:
        """Unique id of the probe."""
        return self._virtual.uid

    @property
    def supported_wire_protocols(self) -> Collection[DebugProbe.Protocol]:
        """The wire protocols: SWD only."""
        return (DebugProbe.Protocol.DEFAULT, DebugProbe.Protocol.SWD)

    @property
    def wire_protocol(self) -> DebugProbe.Protocol | None:
        """The wire protocol of the connection; None without one."""
        return self._protocol

    @property
    def is_open(self) -> bool:
        """Whether the connection to the emulator is open."""
        return self._port is not None

    @property
    def capabilities(self) -> set[DebugProbe.Capability]:
        """The features of the probe, by which pyOCD chooses its accesses."""
        return {DebugProbe.Capability.SWJ_SEQUENCE, DebugProbe.Capability.BANKED_DP_REGISTERS}

    @property
    def associated_board_info(self) -> BoardInfo:
        """The board that the probe is on, and pyOCD's target for it."""
        return BoardInfo(name=self._virtual.board, target=self._virtual.target, vendor="hil")

    # -- opening and connecting

    def open(self) -> None:
        """Connect to the machine and stop it, until :meth:`close` or a command to run."""
        folder = Path(self._virtual.sockets)
        with contextlib.ExitStack() as links, _as_pyocd():
            links.enter_context(_claimed(self._virtual))
            machine = links.enter_context(contextlib.closing(Machine.at(folder / "qmp")))
            memory = links.enter_context(contextlib.closing(Memory.at(folder / "qtest")))
            was_running = machine.execute("query-status")["running"]
            gdb = links.enter_context(contextlib.closing(QemuGdb.at(folder / "gdb")))
            cpu = load_cpu(self._virtual.cpu)
            self._core = Core(memory, gdb, machine, cpu)
            if was_running:
                self._core.take_over()
            bus = _QemuBus(memory, self._core, machine.memory_map())
            self._port = AccessPort(bus, is_v8=cpu.debug.scs_devarch != 0)
            self._links = links.pop_all()

    def close(self) -> None:
        """Disconnect from the machine; it continues to run if it ran."""
        self._port = None
        self._links.close()

    def connect(self, protocol: DebugProbe.Protocol | None = None) -> None:
        """Connect to the target by SWD, whichever protocol is asked for."""
        self._protocol = DebugProbe.Protocol.SWD

    def disconnect(self) -> None:
        """Disconnect from the target."""
        self._protocol = None

    def swj_sequence(self, length: int, bits: int) -> None:
        """Reset the line for a sequence of 50 bits or more; ignore shorter ones."""
        if length >= 50:
            self._open_port().line_reset()

    def set_clock(self, frequency: float) -> None:
        """Do nothing: the sockets have no clock."""

    # -- reset

    def reset(self) -> None:
        """Assert the reset pin and release it."""
        self.assert_reset(True)
        self.assert_reset(False)

    def assert_reset(self, asserted: bool) -> None:
        """Assert or release the reset pin; an asserted one holds the core in reset."""
        assert self._core is not None
        with _as_pyocd():
            if asserted != self._in_reset:
                self._core.hold_in_reset(asserted)
            self._in_reset = asserted

    def is_reset_asserted(self) -> bool:
        """Return whether the reset pin is asserted."""
        return self._in_reset

    # -- transfers

    def read_dp(self, addr: int, now: bool = True) -> Any:
        """Return a debug port register; without ``now`` a function that returns it."""
        return self._transfer(lambda: self._open_port().read_dp(addr), now)

    def write_dp(self, addr: int, data: int) -> None:
        """Write the debug port's register at ``addr``."""
        self._transfer(lambda: self._open_port().write_dp(addr, data))

    def read_ap(self, addr: int, now: bool = True) -> Any:
        """Return an access port register; without ``now`` a function that returns it."""
        return self._transfer(lambda: self._open_port().read_ap(addr), now)

    def write_ap(self, addr: int, data: int) -> None:
        """Write the access port's register at ``addr``."""
        self._transfer(lambda: self._open_port().write_ap(addr, data))

    def read_ap_multiple(self, addr: int, count: int = 1, now: bool = True) -> Any:
        """Return ``count`` reads of a register; without ``now`` a function that returns them."""
        return self._transfer(lambda: self._open_port().read_ap_multiple(addr, count), now)

    def write_ap_multiple(self, addr: int, values: Sequence[int]) -> None:
        """Write each of ``values`` to the register at ``addr``."""
        self._transfer(lambda: self._open_port().write_ap_multiple(addr, values))

    def inject(self, what: str, after: int = 0) -> None:
        """Make a transfer fail after ``after`` successful ones; ``what`` is a key of ``FAULTS``."""
        self._injected.append((self._transfers + after, FAULTS[what]))

    def _open_port(self) -> AccessPort:
        if self._port is None:
            raise exceptions.ProbeDisconnected(f"probe {self.unique_id} is not open")
        return self._port

    def _transfer(self, access: Callable[[], Any], now: bool = True) -> Any:
        """Return the result of ``access``; if not ``now``, a function that returns it or raises.

        Every access is executed at once, so a deferred one gives the same answers in order.
        """
        try:
            result = self._checked(access)
        except exceptions.Error as error:
            if now:
                raise
            failure = error

            def fail() -> Any:
                raise failure

            return fail
        return result if now else lambda: result

    def _checked(self, access: Callable[[], Any]) -> Any:
        number, self._transfers = self._transfers, self._transfers + 1
        for entry in self._injected:
            if entry[0] <= number:
                self._injected.remove(entry)
                raise entry[1]("injected")
        with _as_pyocd():
            return access()


@contextlib.contextmanager
def _as_pyocd() -> Any:
    """Translate errors of the machine to pyOCD's."""
    try:
        yield
    except TransferFault:
        raise exceptions.TransferFaultError() from None
    except DeviceError as error:
        raise exceptions.ProbeDisconnected(error.fact) from None


def _claimed(board: VirtualBoard) -> IO[bytes]:
    try:
        return board.claim()
    except BlockingIOError:
        raise exceptions.ProbeError(f"probe {board.uid} is busy: another session uses it") from None
    except OSError as error:
        raise exceptions.ProbeDisconnected(f"probe {board.uid}: {error.strerror}") from None


class VirtualProbePlugin(Plugin):  # type: ignore[misc]
    """Registers the probe with pyOCD; the entry point names this class."""

    def load(self) -> type[VirtualProbe]:
        """Return the class of the probe."""
        return VirtualProbe

    @property
    def name(self) -> str:
        """Name of the plugin."""
        return "hil"

    @property
    def description(self) -> str:
        """Description of the plugin in pyOCD's lists."""
        return "Virtual debug probe on boards that QEMU emulates"
