"""Files of a board: the board's own, its chip's, and its chip's family's.

A board names its chip, a chip may name its family; each fact is in one of the three, and none
overrides another. :func:`read_description` joins them into the values of one description, which
:mod:`hil.board` reads. A board without a chip has all facts itself. The keys of each kind of file
are documented in ``docs/reference/board-files.md``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hil.board.ports import (
    ROLES,
    board_settings,
    chip_settings,
    derived_settings,
    port_description,
    port_names,
    port_pins,
    port_pll,
)
from hil.board.settings import Kind as Access
from hil.board.settings import is_known, settings_of
from hil.errors import BoardError
from hilc.support.inputs import check_regular
from hilc.support.resources import data_dir
from hilc.support.suggest import like, nearest
from hilc.support.toml import parse_toml

Kind = Literal["board", "chip", "family"]

#: Folders of the shipped files, in ``targets``.
_NAME_A_CHIP = (
    'name a shipped chip or the path of one of your own, such as chip = "stm32f429zi"; a board '
    "without a chip states its core as cpu, and the rest (docs/how-to/add-board.md)"
)

_FOLDERS: Mapping[Kind, str] = {"board": "", "chip": "chips", "family": "families"}
#: Memory of the firmware itself: a chip has defaults, which a board may override.
_SIZES = ("stack_bytes", "handler_stack_bytes")
_RPC_SIZES = ("frame_max", "rx_max")
_BOARD_KEYS = (
    *("chip", "description", "default", "boot_loader_bytes", "reserved_end_bytes", "usb"),
    *("usb_boot", "memory", *_SIZES, "rpc", *ROLES, "line", "trigger", "runner", "flasher"),
)
_CHIP_KEYS = (
    *("family", "cpu", "clock_hz", "memory", *_SIZES, "rpc", "core", "soc", "timer", "uarts"),
    *("runners", "flashers"),
)
_UART_KEYS = ("port", "renode", "soc", "pin_function", "pin_functions")
#: Setting that a chip adds to those of its soc: the rate that its PLL is set up for.
_PLL_INPUT = "pll_input_hz"

_NOTHING_DERIVED: Mapping[str, str] = {}

#: Tables of a description in the order in which they are written; the rest of the keys come first.
_FIRST = ("description", "cpu", "clock_hz", "stack_bytes", "handler_stack_bytes")
_TABLES = (*ROLES, "line", "rpc", "trigger")
#: The ways to a board: a list of tables in its file, a table for each name in its chip's.
_ACCESS: tuple[Access, ...] = ("runner", "flasher")
_ADDRESSES = ("origin", "fetch_origin", "base", "gpio_base")


@dataclass(frozen=True)
class Description:
    """Values of a board description, and the location of each."""

    path: Path
    values: Mapping[str, Any]
    #: File and key of a key (``uart.base``), where they differ.
    places: Mapping[str, tuple[Path, str]] = field(default_factory=dict)
    #: Files of chip and family; empty if the board has all facts.
    chip_files: tuple[Path, ...] = ()

    def place(self, key: str) -> str:
        """Return the file and key to name in an error about ``key``."""
        known, rest = key, ""
        while known and known not in self.places:
            known, dot, last = known.rpartition(".")
            rest = f"{dot}{last}{rest}"
        path, there = self.places.get(known, (self.path, ""))
        return f"{path}: {there}{rest}" if there else f"{path}: {key}"


def chip_names() -> tuple[str, ...]:
    """Return the chips that ship with the project, sorted."""
    return _shipped("chip")


def read_description(path: Path) -> Description:
    """Return the description in the file ``path`` joined with its chip's.

    Raise :class:`~hil.errors.BoardError` for a file that cannot be read, an unknown key, and a fact
    that two files state.
    """
    board = _File.read(path, "board")
    if "chip" not in board.values:
        if {"family", "uarts"} & set(board.values):
            raise BoardError(
                f"{path} describes a chip, not a board",
                "name it in the description of a board: chip = ...",
            )
        if "cpu" not in board.values:
            if near := like("chip", board.values):
                raise board.error(near[0], "unknown key (did you mean chip?)", _NAME_A_CHIP)
            raise board.error("chip", "the key is missing", _NAME_A_CHIP)
        board.check_forms()
        places: dict[str, tuple[Path, str]] = {}
        ways: dict[str, Any] = {kind: _ways(board, kind, places) for kind in _ACCESS}
        return Description(path, {**board.values, **board.core(), **ways}, places)
    chip = board.named("chip")
    files = [chip]
    if "family" in chip.values:
        files.insert(0, chip.named("family"))
    return _Joined(board, files).description()


def shipped_file(kind: Kind, name: str) -> Path:
    """Return the path of a shipped board, chip or family, which need not exist."""
    return data_dir("targets") / _FOLDERS[kind] / f"{name}.toml"


def _shipped(kind: Kind) -> tuple[str, ...]:
    folder = data_dir("targets") / _FOLDERS[kind]
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))


# -- one file ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    path: Path
    kind: Kind
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, kind: Kind) -> _File:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BoardError(
                f"{path} cannot be read: {error.strerror}", "give another file"
            ) from None
        remedy = "see docs/reference/board-files.md"
        return cls(path, kind, parse_toml(data, path, BoardError, remedy))

    def error(self, key: str, problem: str, hint: str = "") -> BoardError:
        return BoardError(f"{self.path}: {key}: {problem}", hint)

    def core(self) -> dict[str, str]:
        """Return ``cpu``, if it is the path of a core's description: relative to this file."""
        word = self.values.get("cpu")
        if not isinstance(word, str) or not word.endswith(".toml"):
            return {}
        return {"cpu": str((self.path.parent / word).absolute())}

    def named(self, kind: Kind) -> _File:
        """Return the file of the chip or family that this file names."""
        name = self.values[kind]
        if not isinstance(name, str) or not name.strip():
            raise self.error(
                kind, f"{name!r} is not the name of a {kind}", f'write {kind} = "NAME"'
            )
        if name.endswith(".toml") or "/" in name:
            path = self.path.parent / name
            check_regular(path, f"give the path of the {kind}'s .toml file")
            problem = f"there is no file {path}"
            hint = "a path is relative to the folder of the file that names it"
        else:
            path = shipped_file(kind, name)
            problem = f"unknown {kind} {name!r}{nearest(name, _shipped(kind))}"
            hint = (
                f"choose one of {', '.join(_shipped(kind))}, or give the path of a {kind} of your "
                f'own: {kind} = "{name}.toml"'
            )
        if not path.is_file():
            raise self.error(kind, problem, hint)
        return _File.read(path, kind)

    def check_forms(self) -> None:
        """Raise for a key of an earlier release, with its new form: ``runners = [...]`` of a board,
        and the table of a runner or flasher by its name.
        """
        if self.kind == "board" and "runners" in self.values:
            names = self.values["runners"]
            words = [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
            tables = [f'[[{_kind_of(name)}]] name = "{name}"' for name in words]
            raise self.error(
                "runners",
                "this form of a release before 0.2 is not read any more",
                f"write a table for each: {'; '.join(tables) or '[[runner]] name = ...'}",
            )
        for name, value in self.values.items():
            if not isinstance(value, dict) or name in (*_BOARD_KEYS, *_CHIP_KEYS):
                continue
            kind = next((kind for kind in _ACCESS if is_known(kind, name)), None)
            if kind is None:
                continue
            new = (
                f'[[{kind}]] with name = "{name}"' if self.kind == "board" else f"[{kind}s.{name}]"
            )
            raise self.error(
                name,
                "this form of a release before 0.2 is not read any more",
                f"move its keys to {new}",
            )

    def table(self, key: str) -> Mapping[str, Any]:
        """Return the table ``key`` of the file; empty if it has none."""
        return self.part(key, self.values.get(key, {}))

    def part(self, label: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(label, f"{value!r} is not a table")
        return value

    def check(
        self,
        label: str,
        keys: Iterable[str],
        own: Collection[str],
        other: Collection[str] = (),
        derived: Mapping[str, str] = _NOTHING_DERIVED,
    ) -> None:
        """Raise for the first of ``keys`` that is not in ``own``.

        ``other`` are keys of another kind of file; ``derived`` follow from another key.
        """
        prefix = f"{label}." if label else ""
        for key in keys:
            if key in own:
                continue
            if key in derived:
                raise self.error(f"{prefix}{key}", f"this follows from {derived[key]}", "remove it")
            if key in other and self.kind == "board":
                raise self.error(
                    f"{prefix}{key}",
                    "this key belongs to the chip's description",
                    "remove it; for another value, name a chip of your own, or none",
                )
            if key in other:
                raise self.error(
                    f"{prefix}{key}",
                    "this key belongs to a board's description",
                    "move it there",
                )
            allowed = f"the keys here are {', '.join(sorted(own))}" if own else "drop it"
            raise self.error(f"{prefix}{key}", f"unknown key{nearest(key, own)}", allowed)


def _kind_of(name: str) -> Access:
    return "flasher" if is_known("flasher", name) else "runner"


# -- board, chip and family --------------------------------------------------------------------


class _Joined:
    """Values of board, chip and family, each with its location."""

    def __init__(self, board: _File, files: list[_File]) -> None:
        self._board = board
        #: Files of the family (if any) and the chip.
        self._files = files
        self._chip = files[-1]
        self._values: dict[str, Any] = {}
        #: Keys that are stated, and that may be stated, for errors about missing ones.
        self._places: dict[str, tuple[Path, str]] = {}
        self._expected: dict[str, tuple[Path, str]] = {}
        #: The name of the board's UART in Renode's platform, its file and its key there.
        self._renode_uart: tuple[Any, _File, str] | None = None

    def description(self) -> Description:
        board = self._board
        chip_only = set(_CHIP_KEYS) - set(_BOARD_KEYS)
        board.check_forms()
        board.check("", board.values, _BOARD_KEYS, chip_only)
        for file in self._files:
            file.check_forms()
            own = _CHIP_KEYS if file.kind == "chip" else _CHIP_KEYS[1:]
            file.check("", file.values, own, set(_BOARD_KEYS) - set(own))
        plain = ("description", "default", "boot_loader_bytes", "reserved_end_bytes")
        for key in (*plain, "usb", "usb_boot", "line", "trigger"):
            if key in board.values:
                self._put(key, board.values[key], board, key)
        for key in ("cpu", "clock_hz", *_SIZES):
            self._join("", key)
        self._add_sizes()
        self._add_memory()
        ports = {role: self._add_port(role) for role in ROLES if role != "uart"}
        provider = self._provider("uart")
        if not provider:
            self._add_uart(ports["soc"])
        elif "uart" in board.values:
            raise board.error("uart", f"port {provider!r} provides the uart already")
        if ports["soc"]:
            self._add_pll(ports["soc"])
        self._add_access()
        return Description(
            board.path,
            self._values,
            {**self._expected, **self._places},
            tuple(file.path for file in self._files),
        )

    def _put(self, key: str, value: Any, file: _File, there: str) -> None:
        """Add a value, which is ``there`` in ``file``."""
        *tables, last = key.split(".")
        table = self._values
        for name in tables:
            table = table.setdefault(name, {})
        if key in self._places:
            first, first_key = self._places[key]
            raise file.error(
                there, f"it is a duplicate of {first_key} in {first}", "remove one of the two"
            )
        table[last] = value
        self._places[key] = file.path, there

    def _join(self, table: str, key: str) -> None:
        """Add the values of family and chip for ``key``."""
        full = f"{table}.{key}" if table else key
        for file in self._files:
            values = file.table(table) if table else {**file.values, **file.core()}
            if key in values:
                self._put(full, values[key], file, full)
        self._expected[full] = self._chip.path, full

    def _add_sizes(self) -> None:
        """Add the sizes, which the board may override."""
        self._values.setdefault("rpc", {})
        for file in (*self._files, self._board):
            file.check("rpc", file.table("rpc"), _RPC_SIZES)
        for key in _RPC_SIZES:
            self._join("rpc", key)
        for key in _SIZES:
            if key in self._board.values:
                self._places.pop(key, None)
                self._put(key, self._board.values[key], self._board, key)
        for key, value in self._board.table("rpc").items():
            self._places.pop(f"rpc.{key}", None)
            self._put(f"rpc.{key}", value, self._board, f"rpc.{key}")

    def _add_memory(self) -> None:
        """Add all regions: those of each kind in the order of family, chip, board; flash first."""
        regions: list[tuple[Any, _File, str]] = []
        for file in (*self._files, self._board):
            entries = file.values.get("memory", [])
            if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
                raise file.error("memory", f"{entries!r} is not a list of tables")
            regions += [(entry, file, f"memory[{n}]") for n, entry in enumerate(entries)]
        regions.sort(key=lambda region: region[0].get("kind") != "flash")
        if regions:
            self._values["memory"] = [entry for entry, _, _ in regions]
        self._expected["memory"] = self._chip.path, "memory"
        for index, (_, file, there) in enumerate(regions):
            self._places[f"memory[{index}]"] = file.path, there

    def _add_port(self, role: str) -> str:
        """Add the port of ``role`` with its settings; return its name, "" for none."""
        if provider := self._provider(role):
            for file in (*self._files, self._board):
                if role in file.values:
                    raise file.error(role, f"port {provider!r} provides the {role} already")
            return ""
        self._expected[role] = self._chip.path, role
        name = self._port_name(role)
        settings = set(chip_settings(name)) | ({_PLL_INPUT} if port_pll(name) else set())
        for file in self._files:
            file.check(
                role,
                file.table(role),
                {"port", *settings},
                set(board_settings(name)),
                derived_settings(name),
            )
        self._board.check(
            role,
            self._board.table(role),
            set(board_settings(name)),
            {"port", *settings},
            derived_settings(name),
        )
        for key in sorted(settings):
            self._join(role, key)
        self._expect_of_board(role, name)
        for key, value in self._board.table(role).items():
            self._put(f"{role}.{key}", value, self._board, f"{role}.{key}")
        return name

    def _provider(self, role: str) -> str:
        """Return the port of an earlier role that also provides ``role``; "" for none."""
        ports = [self._values.get(earlier, {}).get("port", "") for earlier in ROLES]
        earlier = ports[: ROLES.index(role)]
        return next((p for p in earlier if p and role in port_description(p)["provides"]), "")

    def _expect_of_board(self, role: str, port: str) -> None:
        for key in board_settings(port):
            self._expected[f"{role}.{key}"] = self._board.path, f"{role}.{key}"

    def _port_name(self, role: str) -> str:
        self._join(role, "port")
        name = self._values.get(role, {}).get("port")
        if name is None:
            raise self._chip.error(f"{role}.port", "the key is missing", "add it")
        return self._known_port(name, f"{role}.port")

    def _known_port(self, name: Any, key: str) -> str:
        if not isinstance(name, str) or name not in port_names():
            path, there = self._places[key]
            near = nearest(name, port_names()) if isinstance(name, str) else ""
            raise BoardError(
                f"{path}: {there}: unknown value {name!r}{near}",
                f"choose one of {', '.join(port_names())}",
            )
        return name

    def _add_pll(self, soc: str) -> None:
        """Add the divider from the board's crystal to the input rate of the chip's PLL."""
        pll = port_pll(soc)
        if pll is None:
            return
        table = self._values["soc"]
        wanted = table.pop(_PLL_INPUT, None)
        if wanted is None:
            raise self._chip.error(f"soc.{_PLL_INPUT}", "the key is missing", "add it")
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
            path, there = self._places[f"soc.{_PLL_INPUT}"]
            raise BoardError(f"{path}: {there}: {wanted!r} is not a number of Hz")
        spec = port_description(soc)["settings"][pll.source]
        rate = table.get(pll.source, spec.get("default", 0))
        if not isinstance(rate, int) or isinstance(rate, bool):
            return  # reported by the reader of the values
        rate = rate or pll.internal_hz
        key = f"soc.{pll.source}"
        if not rate and pll.source not in table:
            raise self._board.error(key, "the key is missing", f"add it: {spec['help']}")
        if rate % wanted:
            raise self._board.error(
                key,
                f"{rate} is not a multiple of {wanted}, the input rate of the chip's PLL",
                "describe a chip of your own with another soc.pll_input_hz",
            )
        self._put(f"soc.{pll.divider}", rate // wanted, self._board, key)

    def _add_uart(self, soc: str) -> None:
        """Add the UART that the board uses, of those of its chip."""
        board, table = self._board, self._board.table("uart")
        self._expected["uart"] = board.path, "uart"
        if "port" in table:
            self._add_foreign_uart(table, soc)
            return
        uarts = self._uarts()
        if "instance" not in table:
            raise board.error(
                "uart.instance",
                "the key is missing",
                f"choose one of {', '.join(uarts)}" if uarts else "the chip has none",
            )
        name = table["instance"]
        if not isinstance(name, str) or name not in uarts:
            near = nearest(name, uarts) if isinstance(name, str) else ""
            raise board.error(
                "uart.instance",
                f"the chip has no UART {name!r}{near}",
                f"choose one of {', '.join(uarts)}",
            )
        self._add_instance(name, soc)

    def _add_foreign_uart(self, table: Mapping[str, Any], soc: str) -> None:
        """Add a serial line other than the chip's UARTs: RTT."""
        self._put("uart.port", table["port"], self._board, "uart.port")
        port = self._known_port(table["port"], "uart.port")
        own = ("port", *board_settings(port))
        self._board.check("uart", table, own, {"instance", "tx", "rx", *chip_settings(port)})
        if any(chip_settings(port)):
            raise self._board.error(
                "uart.port",
                f"the settings of {port} belong to the chip's description",
                "choose one of the chip's UARTs: uart.instance",
            )
        if port_pins(soc):
            raise self._board.error(
                "uart.port",
                f"the port {soc} of the chip sets up the pins of a UART, not {port}",
                f"name a UART with uart.instance, uart.tx and uart.rx; --transport {port} takes "
                f"{port} instead of it",
            )
        for key, value in table.items():
            if key != "port":
                self._put(f"uart.{key}", value, self._board, f"uart.{key}")

    def _uarts(self) -> tuple[str, ...]:
        """Return the UARTs of the chip: those that it names, else its family's."""
        named = [tuple(file.table("uarts")) for file in self._files]
        return named[-1] or named[0]

    def _add_instance(self, name: str, soc: str) -> None:
        board, table = self._board, self._board.table("uart")
        label = f"uarts.{name}"
        parts = {
            file.path: file.part(label, file.table("uarts").get(name, {})) for file in self._files
        }
        self._expected["uart"] = self._chip.path, label
        for file in self._files:
            if "port" in parts[file.path]:
                self._put("uart.port", parts[file.path]["port"], file, f"{label}.port")
        if "port" not in self._values.get("uart", {}):
            raise self._chip.error(f"{label}.port", "the key is missing", "add it")
        port = self._known_port(self._values["uart"]["port"], "uart.port")
        settings = set(chip_settings(port))
        self._expect_of_board("uart", port)
        pins_port = next((p for p in (soc, port) if port_pins(p)), "")
        pin_keys = {"tx", "rx"} if pins_port else set()
        board.check(
            "uart",
            table,
            {"instance", *pin_keys, *board_settings(port)},
            {"port", *settings},
            derived_settings(port),
        )
        functions: dict[str, Any] = {}
        for file in self._files:
            part = parts[file.path]
            file.check(
                label,
                part,
                {*_UART_KEYS, *settings},
                set(board_settings(port)),
                derived_settings(port),
            )
            for key in settings & set(part):
                self._put(f"uart.{key}", part[key], file, f"{label}.{key}")
            soc_part = file.part(f"{label}.soc", part.get("soc", {}))
            file.check(
                f"{label}.soc",
                soc_part,
                set(chip_settings(soc)),
                set(board_settings(soc)),
                derived_settings(soc),
            )
            for key, value in soc_part.items():
                self._put(f"soc.{key}", value, file, f"{label}.soc.{key}")
            own = file.part(f"{label}.pin_functions", part.get("pin_functions", {}))
            functions |= {**own, **({"": part["pin_function"]} if "pin_function" in part else {})}
            if "renode" in part:
                self._renode_uart = part["renode"], file, f"{label}.renode"
        for key, value in table.items():
            if key not in ("instance", "tx", "rx"):
                self._put(f"uart.{key}", value, board, f"uart.{key}")
        if pins_port:
            self._add_pins(pins_port, functions, label)

    def _add_pins(self, port: str, functions: Mapping[str, Any], label: str) -> None:
        """Add the settings for TX and RX, and their functions as the UART's pins."""
        pins = port_pins(port)
        assert pins is not None, "the port has pins"
        role = port_description(port)["provides"][0]
        numbers: dict[str, tuple[int, int]] = {}
        of_pins: dict[str, Any] = {}
        for line in ("tx", "rx"):
            name = self._board.table("uart").get(line)
            key = f"uart.{line}"
            if name is None:
                raise self._board.error(
                    key, "the key is missing", f"add the pin, such as {pins.example!r}"
                )
            number = pins.number(name) if isinstance(name, str) else None
            if number is None:
                raise self._board.error(
                    key, f"{name!r} is not a pin", f"write it such as {pins.example!r}"
                )
            numbers[line] = number
            if pins.function:
                of_pins[line] = functions.get(name, functions.get(""))
                if of_pins[line] is None:
                    raise self._board.error(
                        key,
                        f"the chip has no alternate function of {name} for this UART",
                        f"choose one of {', '.join(functions)}, or add it to {label}.pin_functions",
                    )
        for line in ("tx", "rx"):
            self._put(f"{role}.{line}_pin", numbers[line][1], self._board, f"uart.{line}")
        banks = {line: number[0] for line, number in numbers.items()}
        self._put_pair(role, pins.bank, pins.rx_bank, banks, "port")
        self._put_pair(role, pins.function, pins.rx_function, of_pins, "function")

    def _put_pair(
        self, role: str, key: str, rx_key: str, values: Mapping[str, Any], what: str
    ) -> None:
        """Add TX's value, and RX's if it differs."""
        if not key:
            return
        self._put(f"{role}.{key}", values["tx"], self._board, "uart.tx")
        if values["rx"] == values["tx"]:
            return
        if not rx_key:
            raise self._board.error(
                "uart.rx",
                f"its {what} differs from that of uart.tx",
                f"choose two pins of one {what}",
            )
        self._put(f"{role}.{rx_key}", values["rx"], self._board, "uart.rx")

    def _add_access(self) -> None:
        """Add the board's runners and flashers, each with the settings that its chip adds.

        A board with a flasher has all flashers that its chip describes: its own come first.
        """
        for kind in _ACCESS:
            places: dict[str, tuple[Path, str]] = {}
            own = _ways(self._board, kind, places)
            self._values[kind] = {name: {} for name in own}
            for name, table in own.items():
                for key, value in table.items():
                    _, there = places[f"{kind}.{name}.{key}"]
                    self._put(f"{kind}.{name}.{key}", value, self._board, there)
            for file in self._files:
                for name, table in file.table(f"{kind}s").items():
                    label = f"{kind}s.{name}"
                    if not is_known(kind, name):
                        continue  # of a plugin that is not installed here
                    settings = settings_of(name)
                    file.check(label, file.part(label, table), settings)
                    if name not in own and not (kind == "flasher" and own):
                        continue
                    self._expected[f"{kind}.{name}"] = file.path, label
                    self._values[kind].setdefault(name, {})
                    for key, value in table.items():
                        self._put(f"{kind}.{name}.{key}", value, file, f"{label}.{key}")
            if self._renode_uart is not None and "renode" in self._values["runner"]:
                self._put("runner.renode.uart", *self._renode_uart)
                self._renode_uart = None
            for name in own:
                self._expected.setdefault(f"{kind}.{name}", (self._chip.path, f"{kind}s.{name}"))
            self._places |= {key: place for key, place in places.items() if key.count(".") == 1}


def _ways(
    file: _File, kind: Access, places: dict[str, tuple[Path, str]]
) -> dict[str, dict[str, Any]]:
    """Return the settings of each runner or flasher of a board's file, by its name, in the order of
    the file; add the location of each key to ``places``.
    """
    value = file.values.get(kind, [])
    entries = value if isinstance(value, list) else [value]
    found: dict[str, dict[str, Any]] = {}
    for index, entry in enumerate(entries):
        label = f"{kind}[{index}]" if isinstance(value, list) else kind
        table = file.part(label, entry)
        name = table.get("name")
        if not isinstance(name, str) or not name:
            problem = "the key is missing" if name is None else f"{name!r} is not a name"
            raise file.error(f"{label}.name", problem, f'write name = "..." of a {kind}')
        if name in found:
            raise file.error(f"{label}.name", f"{name!r} is a duplicate", "remove one of the two")
        found[name] = {key: part for key, part in table.items() if key != "name"}
        places[f"{kind}.{name}"] = file.path, label
        places |= {f"{kind}.{name}.{key}": (file.path, f"{label}.{key}") for key in found[name]}
    return found


# -- writing TOML ------------------------------------------------------------------------------


def to_toml(values: Mapping[str, Any]) -> str:
    """Return ``values`` as a board description without a chip."""
    tables = (*_TABLES, "memory")
    first = [key for key in _FIRST if key in values]
    first += [key for key in values if key not in (*first, *tables, *_ACCESS)]
    lines = [_line(key, values[key]) for key in first]
    for region in values.get("memory", ()):
        lines += ["", "[[memory]]"]
        order = ("name", "kind", "origin", "size")
        keys = [*order, *(key for key in region if key not in order)]
        lines += [_line(key, region[key]) for key in keys]
    for name in _TABLES:
        if name in values:
            lines += ["", f"[{name}]"]
            lines += [_line(key, value) for key, value in values[name].items()]
    for kind in _ACCESS:
        for name, settings in values.get(kind, {}).items():
            lines += ["", f"[[{kind}]]", _line("name", name)]
            lines += [_line(key, value) for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any) -> str:
    return f"{key} = {_value(key, value)}"


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_value('', item) for item in value)}]"
    if isinstance(value, str):
        # JSON strings are TOML strings, except for characters beyond 16 bits, which stay unescaped.
        return json.dumps(value, ensure_ascii=False)
    if key in _ADDRESSES:
        return f"0x{value >> 16:04X}_{value & 0xFFFF:04X}"
    if key.endswith("_hz"):
        return f"{value:_}"
    if key in ("size", "stack_bytes", "handler_stack_bytes"):
        return _size(value)
    return str(value)


def _size(value: int) -> str:
    for unit, count in (("M", 1 << 20), ("K", 1 << 10)):
        if value % count == 0:
            return f'"{value // count}{unit}"'
    return str(value)
