"""Creation of board descriptions: from another one, from a flasher's facts of a chip, from answers.

A Cortex-M chip with unsupported peripherals gets a description without any: clocks as they are
after reset, SysTick as the time base, RTT through the debug probe as the serial line. That runs on
any Cortex-M with a SysTick, so a new chip runs before a driver exists for it. RISC-V has no such
ports: interrupt controller, timer and UART differ from chip to chip, and are asked for.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hil.board.board import Board, board_names, load_board
from hil.board.chip import Chip, ChipFlasher
from hil.board.description import read_description, to_toml
from hil.board.ports import ROLES, port_description, port_names
from hil.board.settings import settings_of
from hil.errors import BoardError, InputError
from hilc.support.byte_counts import parse_bytes
from hilc.support.temporary import TemporaryFolder
from hilc.target import cpu_names, get_cpu, load_cpu

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_REGION = re.compile(r"(?:([a-z][a-z0-9_]*)=)?(0[xX][0-9a-fA-F]+|\d+):([^:]+)\Z")
#: Ports that run on any chip of an architecture, as far as there are some.
_PLAIN_PORTS: Mapping[str, Mapping[str, str]] = {
    "arm": {"core": "cortex_m", "soc": "fixed_clock", "timer": "systick", "uart": "rtt"},
    "riscv": {"core": "riscv"},
}
#: Examples of answers for ports that do not run on any chip: those of QEMU's machine `virt`.
_PORT_EXAMPLES = {
    "soc": "riscv_virt",
    "timer": "clint,base=0x02000000,hz=10000000",
    "uart": "ns16550,base=0x10000000,irq=10,clock_hz=3686400",
}
#: Exceptions of chips without the standard peripherals, by the start of the chip's name. The nRF51
#: has no SysTick (nRF51 Series Reference Manual, 3 and 18).
_CHIP_PORTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "nrf51": {"timer": {"port": "nrf51_timer", "base": 0x4000_8000, "irq": 8}},
    # Without this port it may lock its debug port: see _IMAGE_RULES.
    "nrf52": {"soc": {"port": "nrf52"}},
}
#: Core clock after reset if it is fixed, by the start of the chip's name (nRF51 Reference Manual,
#: 13; nRF52832, 52833 and 52840 Product Specifications, CLOCK).
_CHIP_CLOCK_HZ = {"nrf51": 16_000_000, "nrf52": 64_000_000}
#: Data that an image for a family of chips must have, and the SoC port that adds it. Without it a
#: chip may lock its debug port, or does not start.
_IMAGE_RULES: Mapping[str, tuple[str, str | None]] = {
    "Kinetis": ("its flash configuration at 0x400, or it may lock itself", "kinetis"),
    "RP2Base": ("a block that its boot ROM looks for", "rp2"),
    "NRF52": ("code that keeps its debug port open after a reset", "nrf52"),
    "NRF91": ("code that keeps its debug port open after a reset", None),
    "NRF54L": ("code that keeps its debug port open after a reset", None),
    "IMXRT": ("a block that its boot ROM looks for", None),
    "PSoC64": ("a signature that its boot ROM checks", None),
}


@dataclass(frozen=True)
class Sizing:
    """RAM for the firmware itself, by the size of the RAM."""

    #: Minimum size of the first RAM region.
    ram_bytes: int
    stack_bytes: int
    handler_stack_bytes: int
    frame_max: int
    rx_max: int
    #: Buffers of RTT, if that is the serial line.
    up_bytes: int
    down_bytes: int


_SIZINGS = (
    Sizing(128 << 10, 16384, 2048, 4096, 8192, 4096, 1024),
    Sizing(48 << 10, 8192, 2048, 2048, 4096, 4096, 1024),
    Sizing(16 << 10, 2048, 768, 512, 640, 1024, 512),
    Sizing(0, 1536, 768, 256, 320, 512, 256),
)


@dataclass(frozen=True)
class Answers:
    """Answers of the user; None for none."""

    base: str | None = None
    #: The flasher, as in ``--flasher``, and the chip that its settings select.
    flasher: ChipFlasher | None = None
    description: str | None = None
    cpu: str | None = None
    clock_hz: str | None = None
    flash: Sequence[str] = ()
    ram: Sequence[str] = ()
    #: Ports by role, as ``PORT[,KEY=N]...``.
    ports: Mapping[str, str] | None = None
    qemu: str | None = None
    #: The flasher if neither ``flasher`` nor the other description names one.
    default_flasher: ChipFlasher | None = None


@dataclass(frozen=True)
class Description:
    """A description as text that the loader has accepted."""

    text: str
    board: Board
    #: Remarks for the user.
    notes: tuple[str, ...]


#: Ask the user: ``(option, question, default) -> answer``; raises if that is not possible.
Ask = Callable[[str, str, str], str]


def describe(name: str, answers: Answers, ask: Ask) -> Description:
    """Return the description of the board ``name``.

    ``ask`` is called for facts that neither the answers nor their sources have. Raise
    :class:`~hil.errors.InputError` for invalid answers, and :class:`~hil.errors.BoardError` if the
    loader refuses the result.
    """
    if not _NAME.match(name):
        raise InputError(
            f"{name!r} is not a valid board name", "use lower-case letters, digits, - and _ and ."
        )
    values = _base_values(answers.base)
    notes: list[str] = []
    chip = answers.flasher.chip if answers.flasher is not None else None
    if chip is not None:
        notes += chip.notes
    cpu = answers.cpu or _cpu(chip) or values.get("cpu") or _asked_cpu(ask)
    if answers.base is not None:
        _check_base(answers.base, cpu, values["cpu"])
    values["cpu"] = cpu
    values["memory"] = _memory(answers, chip, values.get("memory"), ask)
    values["clock_hz"] = _clock_hz(answers.clock_hz, values.get("clock_hz"), chip, ask)
    values["description"] = answers.description or _description(name, answers, chip, values)
    _fill_ports(values, answers.ports or {}, chip, ask)
    if chip is not None:
        _check_image_rule(chip, values["soc"]["port"])
        notes += _relatives(answers)
    _fill_sizes(values)
    _fill_runners(values, answers)
    if values["soc"]["port"] == "fixed_clock":
        notes.append(
            f"nothing sets up the clocks: clock_hz = {values['clock_hz']} must be the core's after "
            "reset, or times will be wrong (results will not)"
        )
    text = to_toml(values)
    return Description(text, _checked(name, text), tuple(notes))


def _base_values(base: str | None) -> dict[str, Any]:
    """Return the keys of another description that are not specific to that board."""
    if base is None:
        return {}
    board = load_board(base)
    if board.is_host:
        raise InputError(f"{base} is this machine, not a board", "name a board with a core")
    values = copy.deepcopy(dict(read_description(board.path).values))
    values.pop("default", None)
    return values


def _cpu(chip: Chip | None) -> str:
    return chip.cpu if chip is not None else ""


def _asked_cpu(ask: Ask) -> str:
    names = [name for name in cpu_names() if not get_cpu(name).is_host]
    return ask("--cpu", f"core, one of {', '.join(names)}", "cortex-m4")


def _check_base(base: str, cpu: str, base_cpu: str) -> None:
    """Raise if the ports of ``base`` are for another architecture than that of ``cpu``."""
    isa, base_isa = _isa(cpu), _isa(base_cpu)
    if "" in (isa, base_isa) or isa == base_isa:
        return
    same = ", ".join(board.name for board in _shipped() if board.cpu.isa == isa)
    raise InputError(
        f"the core {cpu} is for {isa}, but --base {base} has a core for {base_isa} ({base_cpu})",
        f"start with a board for {isa}: {same}; or leave out --base",
    )


def _isa(cpu: str) -> str:
    """Return the architecture of a core; "" for a name that the loader refuses."""
    return load_cpu(cpu).isa if cpu.endswith(".toml") or cpu in cpu_names() else ""


def _memory(
    answers: Answers, chip: Chip | None, base: list[dict[str, Any]] | None, ask: Ask
) -> list[dict[str, Any]]:
    """Return flash and RAM, each from the first source: options, the chip, the other
    description.
    """
    regions: list[dict[str, Any]] = []
    said = {"flash": answers.flash, "ram": answers.ram}
    examples = {"flash": "0x08000000:512K", "ram": "0x20000000:128K"}
    for kind, words in said.items():
        found = [_region(word, kind, index) for index, word in enumerate(words)]
        if not found and chip is not None:
            found = [
                {"name": r.name, "kind": kind, "origin": r.origin, "size": r.size}
                for r in chip.memory
                if r.is_flash == (kind == "flash")
            ]
        if not found and base is not None:
            found = [region for region in base if region["kind"] == kind]
        if not found:
            word = ask(f"--{kind}", f"{kind}, ORIGIN:SIZE", examples[kind])
            found = [_region(word, kind, 0)]
        regions += found
    return regions


def _region(word: str, kind: str, index: int) -> dict[str, Any]:
    match = _REGION.match(word.strip())
    size = None if match is None else parse_bytes(match[3])
    if match is None or size is None:
        raise InputError(
            f"--{kind} {word!r} is not a memory region", "write ORIGIN:SIZE, such as 0x20000000:64K"
        )
    name = match[1] or (kind if index == 0 else f"{kind}_{index + 1}")
    return {"name": name, "kind": kind, "origin": int(match[2], 0), "size": size}


def _clock_hz(said: str | None, base: int | None, chip: Chip | None, ask: Ask) -> int:
    if said is None and base is not None:
        return base
    if said is None and chip is not None and (known := _of_chip(chip, _CHIP_CLOCK_HZ)) is not None:
        return known
    text = said or ask("--clock-hz", "the core's clock after reset, in Hz", "16000000")
    digits = text.replace("_", "")
    if not digits.isdecimal():
        raise InputError(f"--clock-hz {text!r} is not a number of Hz", "write 16000000")
    return int(digits)


def _description(name: str, answers: Answers, chip: Chip | None, values: Mapping[str, Any]) -> str:
    """Return a one-line description, if the user gave none."""
    if chip is None and answers.base is not None:
        return str(values["description"])
    core = load_cpu(str(values["cpu"])).title
    of_chip = f" ({chip.vendor} {chip.target})" if chip is not None else ""
    return f"{name}{of_chip}: {core}"


def _fill_ports(
    values: dict[str, Any], said: Mapping[str, str], chip: Chip | None, ask: Ask
) -> None:
    """Set the ports: those given, those of the other description, the chip's, the generic ones,
    then those that ``ask`` returns.
    """
    special = (_of_chip(chip, _CHIP_PORTS) if chip is not None else None) or {}
    isa = _isa(values["cpu"])
    plain = _PLAIN_PORTS.get(isa, _PLAIN_PORTS["arm"])
    provided: set[str] = set()
    for role in ROLES:
        if role in said:
            values[role] = _port(role, said[role])
        elif role in provided:
            continue
        elif role in special and role not in values:
            values[role] = dict(special[role])
        elif role not in values and role in plain:
            values[role] = {"port": plain[role]}
        elif role not in values:
            known = ", ".join(name for name in port_names() if _serves(name, role, isa))
            word = ask(f"--{role}", f"port of the {role}, one of {known}", _PORT_EXAMPLES[role])
            values[role] = _port(role, word)
        provided.update(port_description(values[role]["port"])["provides"])


def _serves(name: str, role: str, isa: str) -> bool:
    """Return whether a port can be named for a role on an architecture."""
    about = port_description(name)
    return about["provides"][0] == role and about["arch"] in (isa, "any")


def _of_chip(chip: Chip, table: Mapping[str, T]) -> T | None:
    """Return a table's entry for a chip, by the start of the chip's name."""
    return next((value for start, value in table.items() if chip.target.startswith(start)), None)


def _check_image_rule(chip: Chip, port: str) -> None:
    """Raise for an image that could lock a chip, or would not start."""
    rule, needed = _IMAGE_RULES.get(chip.family, ("", None))
    if not rule or port == needed:
        return
    boards = [board.name for board in _shipped() if needed in [p.name for p in board.ports]]
    remedy = (
        f"start with a board that has it (--base {' or '.join(boards)}), or give --soc {needed},..."
        if needed
        else "write a port that brings it: docs/how-to/add-board.md"
    )
    raise InputError(
        f"an image for {chip.target} needs {rule}; the port {port!r} does not add it",
        remedy,
    )


def _relatives(answers: Answers) -> list[str]:
    """Return a remark on shipped boards with the same chip, whose clocks and pins may be reused."""
    flasher = answers.flasher
    if flasher is None or flasher.chip is None or not flasher.chip.memory:
        return []
    target = flasher.chip.target
    same = [
        board.name
        for board in _shipped()
        if target in (str(v).lower() for v in board.settings.get(flasher.name, {}).values())
    ]
    if not same or answers.base is not None:
        return []
    names = " and ".join(same)
    return [f"the same chip is on {names}: --base {same[0]} has its clocks, its pins and its UART"]


def _shipped() -> list[Board]:
    return [load_board(name) for name in board_names()]


def _port(role: str, word: str) -> dict[str, Any]:
    port, *settings = word.split(",")
    if port not in port_names():
        raise InputError(
            f"--{role}: unknown port {port!r}", f"choose one of {', '.join(port_names())}"
        )
    table: dict[str, Any] = {"port": port}
    for setting in settings:
        key, separator, value = setting.partition("=")
        try:
            table[key.strip()] = int(value.replace("_", ""), 0)
        except ValueError:
            separator = ""
        if not separator:
            raise InputError(
                f"--{role}: {setting!r} is not a setting", f"write {port},KEY=N with whole numbers"
            )
    return table


def _fill_sizes(values: dict[str, Any]) -> None:
    """Set stacks and buffers that suit the first RAM region; another description has its own."""
    ram = next(region for region in values["memory"] if region["kind"] == "ram")
    # The loader checks it.
    size = ram["size"] if isinstance(ram["size"], int) else parse_bytes(ram["size"]) or 0
    sizing = next(sizing for sizing in _SIZINGS if size >= sizing.ram_bytes)
    values.setdefault("stack_bytes", sizing.stack_bytes)
    values.setdefault("handler_stack_bytes", sizing.handler_stack_bytes)
    values.setdefault("rpc", {"frame_max": sizing.frame_max, "rx_max": sizing.rx_max})
    if values.get("uart", {}).get("port") == "rtt":
        values["uart"].setdefault("up_bytes", sizing.up_bytes)
        values["uart"].setdefault("down_bytes", sizing.down_bytes)


def _fill_runners(values: dict[str, Any], answers: Answers) -> None:
    flasher = answers.flasher
    can_be_probed = bool(load_cpu(values["cpu"]).debug.part_numbers)
    if flasher is None and not values.get("flasher") and can_be_probed:
        flasher = answers.default_flasher
    if flasher is not None:
        known = settings_of(flasher.name)
        settings = {**values.get("flasher", {}).get(flasher.name, {}), **flasher.settings}
        stated = {key: v for key, v in settings.items() if v != known[key].default}
        values["flasher"] = {flasher.name: stated}
    flashers = values.get("flasher", {})
    # The platform of Renode follows from the ports, which may be others here.
    left_out = {"renode", *flashers}
    runners = {
        name: table for name, table in values.get("runner", {}).items() if name not in left_out
    }
    if answers.qemu is not None:
        # The smallest shift that counts exactly: an instruction takes two ticks or more.
        shortest_ns = 2 * 10**9 / values["clock_hz"]
        shift = next(shift for shift in range(32) if 1 << shift >= shortest_ns)
        runners["qemu"] = {"machine": answers.qemu, "icount_shift": shift}
    if runners and values.get("uart", {}).get("port") == "rtt":
        # RTT on an emulated board needs the virtual probe.
        runners = {next(iter(values["flasher"])): {}, **runners}
    if not runners and not flashers:
        raise InputError(
            f"nothing starts the firmware of a board with the core {values['cpu']}: neither "
            "--flasher nor --qemu is given, and no flasher suits every chip with this core",
            "give --flasher openocd:interface=NAME,target=NAME with the names of OpenOCD's "
            "configuration files, or --qemu MACHINE",
        )
    values["runner"] = runners


def _checked(name: str, text: str) -> Board:
    """Return the loaded board of ``text``, as if it were in its file."""
    with TemporaryFolder("board") as folder:
        path = Path(folder) / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        try:
            return load_board(path)
        except BoardError as error:
            # The user's file is not written yet.
            raise BoardError(error.fact.replace(str(path), path.name), error.hint) from None
