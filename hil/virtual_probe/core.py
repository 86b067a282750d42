"""The debug registers of a Cortex-M on top of QEMU's gdbstub; QEMU itself lacks them.

Names and bits are those of the Armv7-M and Armv8-M architecture reference manuals, part C1 (debug).
Accesses to all other addresses go to the machine.
"""

from __future__ import annotations

from collections.abc import Callable

from hil.support.gdb import Gdb
from hil.support.qemu import Machine, Memory
from hilc.target.cores import Cpu, Debug

_DFSR = 0xE000_ED30
_AIRCR = 0xE000_ED0C
_DHCSR = 0xE000_EDF0
_DCRSR = 0xE000_EDF4
_DCRDR = 0xE000_EDF8
_DEMCR = 0xE000_EDFC
_VTOR = 0xE000_ED08

_ICSR = 0xE000_ED04
_PENDSTSET, _PENDSTCLR = 1 << 26, 1 << 25
_NOP = 0xBF00_BF00
#: The upper byte of this instruction.
_BKPT = 0xBE

_DHCSR_KEY = 0xA05F
_C_DEBUGEN, _C_HALT, _C_STEP, _C_CONTROL = 1 << 0, 1 << 1, 1 << 2, 0x2F
_S_REGRDY, _S_HALT, _S_LOCKUP = 1 << 16, 1 << 17, 1 << 19
_S_RETIRE_ST, _S_RESET_ST = 1 << 24, 1 << 25

_DFSR_HALTED, _DFSR_BKPT, _DFSR_VCATCH = 1 << 0, 1 << 1, 1 << 3
_VC_CORERESET = 1 << 0
_AIRCR_KEY = 0x05FA
_AIRCR_RESETS = 1 << 2 | 1 << 0  # SYSRESETREQ, VECTRESET
_DCRSR_WRITE = 1 << 16

_FPB = 0xE000_2000
_FPB_COMPARATORS = 8

#: DCRSR's selectors of registers with these names in the gdbstub.
_PLAIN = {**{n: f"r{n}" for n in range(13)}, 13: "sp", 14: "lr", 15: "pc", 16: "xpsr", 33: "fpscr"}
#: DCRSR's selectors of special registers, and their SYSm numbers in MRS and MSR.
_SPECIAL = {17: 8, 18: 9, 24: 0x88, 25: 0x89, 26: 0x08, 27: 0x09}
#: SYSm by byte position: CONTROL, FAULTMASK, BASEPRI and PRIMASK share selector 20.
_CFBP = ((20, 24), (19, 16), (17, 8), (16, 0))
_FIRST_FLOAT = 64

# Entries of the ROM table: component's address, part number, class, DEVARCH.
_ROM_TABLE = 0xE00F_F000
_SCS = 0xE000_E000
_GENERIC, _ROM, _CORESIGHT = 0xE, 0x1, 0x9
_ARM_DESIGNER = 0x23B


class Core:
    """One core: its debug registers, halting and running, breakpoints.

    ``reset`` resets the machine (it stays stopped). ``cpu`` determines the ROM table.
    """

    def __init__(self, memory: Memory, gdb: Gdb, machine: Machine, cpu: Cpu) -> None:
        self._memory = memory
        self._gdb = gdb
        self._machine = machine
        self._components = _components(cpu.debug)
        self._has_fpb2 = cpu.debug.fpb_version == 2
        self._running = False
        self._locked_up = False
        self._control = 0
        self._demcr = 0
        self._dfsr = 0
        self._dcrdr = 0
        self._ready = True
        self._was_reset = False
        self._fpb_enabled = False
        self._comparators = [0] * _FPB_COMPARATORS
        #: Addresses of written half-words 0xBExx: QEMU does not stop at BKPT instructions itself.
        self._bkpts: set[int] = set()
        self._inserted: set[int] = set()
        self._bkpt_stop = False
        # RAM in which an MRS or MSR instruction can be placed temporarily.
        self._scratch = next(first for first, _last in machine.memory_map() if first >= 0x2000_0000)

    # -- bus accesses to debug registers

    def owns(self, address: int) -> bool:
        """Return whether ``address`` belongs to a simulated register or debug component."""
        page = address & ~0xFFF
        return address in _REGISTERS or page in self._components or _is_fpb(address)

    def read(self, address: int) -> int:
        """Return a debug register's word."""
        match address:
            case 0xE000ED30:
                return self._dfsr
            case 0xE000EDF0:
                return self._read_dhcsr()
            case 0xE000EDF8:
                return self._dcrdr
            case 0xE000EDFC:
                return self._demcr
            case 0xE000ED0C:
                return self._memory.read(address, 4)
            case 0xE000EDF4:
                return 0
        if _is_fpb(address):
            return self._read_fpb(address)
        words = self._components[address & ~0xFFF]
        word = words.get(address & 0xFFF)
        if word is None:
            # The SCS's page also contains registers of the machine, besides its identification.
            return self._memory.read(address, 4) if address & ~0xFFF == _SCS else 0
        return word

    def write(self, address: int, value: int) -> None:
        """Write a debug register's word."""
        match address:
            case 0xE000ED30:
                self._dfsr &= ~value
            case 0xE000EDF0:
                self._write_dhcsr(value)
            case 0xE000EDF4:
                self._transfer(value)
            case 0xE000EDF8:
                self._dcrdr = value
            case 0xE000EDFC:
                self._demcr = value
            case 0xE000ED0C:
                self._write_aircr(value)
            case _ if _is_fpb(address):
                self._write_fpb(address, value)
            case _ if address & ~0xFFF == _SCS:
                self._memory.write(address, 4, value)

    def noticed_write(self, address: int, data: bytes) -> None:
        """Update the breakpoints after a write to memory, which may change BKPT instructions."""
        for at in range(address & 1, len(data) - 1, 2):
            if data[at + 1] == _BKPT:
                self._bkpts.add(address + at)
            elif address + at in self._bkpts:
                self._bkpts.discard(address + at)

    # -- halting and running

    def _read_dhcsr(self) -> int:
        self._notice_stop()
        value = self._control | _S_RETIRE_ST
        if self._was_reset:
            value |= _S_RESET_ST
            self._was_reset = False
        if self._locked_up:
            value |= _S_LOCKUP
        if not self._running and not self._locked_up:
            # A core that the probe stopped while debugging is off does not report it.
            value |= _S_HALT | _C_HALT if self._control & _C_DEBUGEN else 0
        if self._ready:
            value |= _S_REGRDY
        return value

    def _write_dhcsr(self, value: int) -> None:
        if value >> 16 != _DHCSR_KEY:
            return
        self._notice_stop()
        self._control = value & _C_CONTROL
        debugging = bool(value & _C_DEBUGEN)
        if debugging and value & _C_HALT:
            self.halt()
        elif debugging and value & _C_STEP and not self._running:
            self._step()
        else:
            self.resume()

    def take_over(self) -> None:
        """Resume a machine that was stopped by attaching."""
        self._wake()
        self.resume()

    def halt(self) -> None:
        """Stop the core at its current instruction."""
        if self._locked_up:
            self._locked_up = False
            self._dfsr |= _DFSR_HALTED
        if self._running:
            self._gdb.interrupt()
            self._running = False
            self._dfsr |= _DFSR_HALTED
            self._wake()

    def _wake(self) -> None:
        """End a WFI, as halting does on silicon; QEMU's core would sleep on and never step.

        A pending interrupt ends it: one instruction is executed with interrupts masked.
        """
        icsr = self._memory.read(_ICSR, 4)
        if not icsr & _PENDSTSET:
            self._memory.write(_ICSR, 4, _PENDSTSET)
        self._execute(_NOP, self._gdb.read_register("r0"))
        if not icsr & _PENDSTSET:
            self._memory.write(_ICSR, 4, _PENDSTCLR)

    def resume(self) -> None:
        """Let the core run, unless its next step would be a lock-up, which ends QEMU."""
        if self._running:
            return
        if not self._can_run():
            self._locked_up = True
            return
        self._notice_bkpt()
        self._step_over_breakpoint()
        self._update_breakpoints()
        self._gdb.resume()
        self._running = True

    def _notice_bkpt(self) -> None:
        """Let a BKPT that is the next instruction stop the core, also one of an earlier session.

        For QEMU it is a fault, which ends it if there is no handler.
        """
        pc = self._gdb.read_register("pc")
        if self._memory.read_block(pc, 2)[1] == _BKPT:
            self._bkpts.add(pc)

    def _can_run(self) -> bool:
        """Return whether an instruction can be fetched in the core's state."""
        is_thumb = self._gdb.read_register("xpsr") & 1 << 24
        return bool(is_thumb) and self._is_mapped(self._gdb.read_register("pc"))

    def _is_mapped(self, address: int) -> bool:
        return any(first <= address <= last for first, last in self._machine.memory_map())

    def _step(self) -> None:
        self._remove_breakpoints()
        if self._can_run():
            self._gdb.step()
            self._dfsr |= _DFSR_HALTED
        else:
            self._locked_up = True

    def _step_over_breakpoint(self) -> None:
        """Execute the current instruction even if it has a breakpoint."""
        pc = self._gdb.read_register("pc")
        if pc in self._wanted_breakpoints() and pc not in self._bkpts:
            self._remove_breakpoints()
            self._gdb.step()

    def _notice_stop(self) -> None:
        if not self._running or not self._gdb.has_stopped():
            return
        self._running = False
        pc = self._gdb.read_register("pc")
        self._dfsr |= _DFSR_BKPT if pc in self._inserted else _DFSR_HALTED

    # -- breakpoints

    def _wanted_breakpoints(self) -> set[int]:
        wanted = set(self._bkpts)
        if self._fpb_enabled:
            for comparator in self._comparators:
                wanted |= _fpb_addresses(comparator, self._has_fpb2)
        return wanted

    def _update_breakpoints(self) -> None:
        wanted = self._wanted_breakpoints()
        for address in self._inserted - wanted:
            self._gdb.clear_breakpoint(address)
        for address in wanted - self._inserted:
            self._gdb.set_breakpoint(address)
        self._inserted = wanted

    def _remove_breakpoints(self) -> None:
        for address in self._inserted:
            self._gdb.clear_breakpoint(address)
        self._inserted = set()

    def _read_fpb(self, address: int) -> int:
        if address == _FPB:
            revision = 1 << 28 if self._has_fpb2 else 0
            return revision | _FPB_COMPARATORS << 4 | int(self._fpb_enabled)
        return self._comparators[(address - _FPB - 8) // 4]

    def _write_fpb(self, address: int, value: int) -> None:
        if address == _FPB:
            if value & 2:  # KEY
                self._fpb_enabled = bool(value & 1)
        else:
            self._comparators[(address - _FPB - 8) // 4] = value
        if self._running and self._wanted_breakpoints() != self._inserted:
            # The stub accepts breakpoints only while the machine is stopped.
            self.halt()
            self._dfsr &= ~_DFSR_HALTED
            self.resume()

    # -- reset

    def _write_aircr(self, value: int) -> None:
        if value >> 16 != _AIRCR_KEY or not value & _AIRCR_RESETS:
            self._memory.write(_AIRCR, 4, value)
        else:
            self.reset()

    def reset(self) -> None:
        """Reset the machine; the core then runs unless the debugger catches the reset."""
        was_running = self._running or self._locked_up or not self._control & _C_DEBUGEN
        if self._running:
            self._gdb.interrupt()
            self._running = False
        self._locked_up = False
        self._machine.reset()
        self._was_reset = True
        if self._control & _C_DEBUGEN and self._demcr & _VC_CORERESET:
            self._dfsr |= _DFSR_VCATCH
            self._control |= _C_HALT
        elif was_running or not self._control & _C_HALT:
            self.resume()

    def hold_in_reset(self, asserted: bool) -> None:
        """Drive the reset pin: a held core does not run, and releasing it resets the core."""
        if asserted:
            self.halt()
        else:
            self._control &= ~_C_HALT
            self.reset()

    # -- core registers

    def _transfer(self, selector: int) -> None:
        """Move a register to or from DCRDR (DCRSR); S_REGRDY stays 0 for an invalid selector."""
        self._notice_stop()
        number = selector & 0x7F
        self._ready = False
        if self._running or self._locked_up:
            return
        access = self._register(number)
        if access is None:
            return
        read, write = access
        if selector & _DCRSR_WRITE:
            write(self._dcrdr)
        else:
            self._dcrdr = read()
        self._ready = True

    def _register(self, number: int) -> tuple[Callable[[], int], Callable[[int], None]] | None:
        gdb = self._gdb
        if (name := _PLAIN.get(number)) is not None and name in gdb.registers:
            return lambda: gdb.read_register(name), lambda value: gdb.write_register(name, value)
        if number in _SPECIAL:
            sysm = _SPECIAL[number]
            return lambda: self._mrs(sysm), lambda value: self._msr(sysm, value)
        if number == 20:
            return self._read_cfbp, self._write_cfbp
        double = f"d{(number - _FIRST_FLOAT) // 2}"
        if number >= _FIRST_FLOAT and double in gdb.registers:
            shift = 32 * ((number - _FIRST_FLOAT) % 2)

            def write(value: int) -> None:
                rest = gdb.read_register(double) & ~(0xFFFF_FFFF << shift)
                gdb.write_register(double, rest | value << shift, 8)

            return lambda: gdb.read_register(double) >> shift & 0xFFFF_FFFF, write
        return None

    def _read_cfbp(self) -> int:
        return sum((self._mrs(sysm) & 0xFF) << shift for sysm, shift in _CFBP)

    def _write_cfbp(self, value: int) -> None:
        for sysm, shift in _CFBP:
            self._msr(sysm, value >> shift & 0xFF)

    def _mrs(self, sysm: int) -> int:
        """Execute MRS r0, <special register>."""
        return self._execute(0xF3EF | (0x8000 | sysm) << 16, 0)

    def _msr(self, sysm: int, value: int) -> None:
        """Execute MSR <special register>, r0."""
        self._execute(0xF380 | (0x8800 | sysm) << 16, value)

    def _execute(self, instruction: int, r0: int) -> int:
        """Execute one instruction in scratch memory, restore the rest; return r0's new value."""
        kept = {name: self._gdb.read_register(name) for name in ("r0", "pc", "xpsr")}
        code = self._memory.read_block(self._scratch, 4)
        self._remove_breakpoints()
        try:
            self._memory.write(self._scratch, 4, instruction)
            self._gdb.write_register("r0", r0)
            self._gdb.write_register("pc", self._scratch)
            # Clear the IT state and set Thumb, so that the instruction is always executed.
            self._gdb.write_register("xpsr", kept["xpsr"] & 0xF80F_01FF | 1 << 24)
            self._gdb.step()
            return self._gdb.read_register("r0")
        finally:
            self._memory.write_block(self._scratch, code)
            for name, value in kept.items():
                self._gdb.write_register(name, value)

    def release(self) -> None:
        """Detach the probe: remove breakpoints and run the core."""
        self._control = 0
        self._bkpts.clear()
        self._fpb_enabled = False
        self._notice_stop()
        if not self._running:
            self.resume()


_REGISTERS = frozenset((_DFSR, _AIRCR, _DHCSR, _DCRSR, _DCRDR, _DEMCR))


def _is_fpb(address: int) -> bool:
    return address == _FPB or _FPB + 8 <= address < _FPB + 8 + 4 * _FPB_COMPARATORS


def _fpb_addresses(comparator: int, is_version_2: bool) -> set[int]:
    """Return the addresses at which an FPB comparator stops the core."""
    if not comparator & 1:
        return set()
    if is_version_2:
        return {comparator & ~1}
    word, replace = comparator & 0x1FFF_FFFC, comparator >> 30
    return {word + 2 * half for half in (0, 1) if replace >> half & 1}


def _components(debug: Debug) -> dict[int, dict[int, int]]:
    """Return the ROM table and the identification registers of its entries, by page and offset."""
    entries = {
        _SCS: (debug.scs_part, _CORESIGHT if debug.scs_devarch else _GENERIC, debug.scs_devarch),
        _FPB: (debug.fpb_part, _CORESIGHT if debug.fpb_devarch else _GENERIC, debug.fpb_devarch),
    }
    table = {
        4 * index: (address - _ROM_TABLE) & 0xFFFF_F000 | 3 for index, address in enumerate(entries)
    }
    pages = {
        address: _identification(part, kind, devarch)
        for address, (part, kind, devarch) in entries.items()
    }
    return {**pages, _ROM_TABLE: {**table, **_identification(0x4C4, _ROM, 0)}}


def _identification(part: int, kind: int, devarch: int) -> dict[int, int]:
    """Return the identification registers of a CoreSight component."""
    jep106, continuation = _ARM_DESIGNER & 0x7F, _ARM_DESIGNER >> 7
    words = {
        0xFD0: continuation,
        0xFE0: part & 0xFF,
        0xFE4: (jep106 & 0xF) << 4 | part >> 8,
        0xFE8: 1 << 3 | jep106 >> 4,
        0xFEC: 0,
        0xFF0: 0x0D,
        0xFF4: kind << 4,
        0xFF8: 0x05,
        0xFFC: 0xB1,
    }
    return {**words, **{0xFBC: devarch, 0xFC8: 0, 0xFCC: 0}} if devarch else words
