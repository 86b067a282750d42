"""Boards of this machine as places of a lab: board servers, labgrid's exporter, places.

Without an address of a coordinator it starts one: a complete lab on one machine, for trials and
tests.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import secrets
import socket
import sys
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.board import load_board
from hil.errors import DeviceError, InputError
from hil.lab.board_server import BoardServer
from hil.lab.place import Keeper
from hil.support.process import ChildProcess
from hilc.support.optional import install_hint
from hilc.support.temporary import TemporaryFolder

_READY_LIMIT_S = 30.0
_POLL_S = 0.05
_NEEDED = {"NetworkSerialPort", "NetworkService"}


@dataclass(frozen=True)
class Served:
    """The served boards, by place."""

    address: str
    boards: dict[str, BoardServer]
    processes: tuple[ChildProcess, ...]

    def alive(self) -> None:
        """Raise if the exporter or the coordinator has ended."""
        for process in self.processes:
            process.alive()


@contextlib.contextmanager
def served(
    boards: Sequence[str],
    *,
    coordinator: str | None = None,
    host: str = "127.0.0.1",
    folder: Path | None = None,
) -> Iterator[Served]:
    """Serve ``boards`` for as long as the context lasts.

    A board is the name or file of a description, followed by ``@PROBE`` for a real board with that
    probe (``@virtual``: a virtual probe). A preceding ``PLACE=`` names the place; the default is
    ``BOARD-N``. Each place gets the tags ``board``, ``cpu`` and ``emulated``. ``host`` is this
    machine's name for clients, and the address to bind. A coordinator that is started here keeps
    its files in ``folder``, a temporary one by default.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(TemporaryFolder("lab")))
        processes = []
        address = coordinator
        if address is None:
            process, address = _coordinator(stack, folder, host)
            processes.append(process)
        keeper = Keeper(address)
        stack.callback(keeper.close)
        taken = {p["name"] for p in keeper.ask("list")["places"] if p["resources"]}
        servers = _board_servers(stack, boards, host, taken)
        # Places must be unique, also between machines with the same boards.
        exporter = f"{socket.gethostname()}-hil-{secrets.token_hex(4)}"
        processes.append(_exporter(stack, folder, address, exporter, host, servers))
        for place, server in servers.items():
            tags = {
                "board": server.board.name,
                "cpu": server.board.cpu.name,
                "emulated": "yes" if server.is_emulated else "no",
            }
            keeper.ask("define", place=place, tags=tags, match=f"*/{place}/*")
        _wait_for_resources(keeper, servers, processes)
        keeper.close()
        yield Served(address, servers, tuple(processes))


def _board_servers(
    stack: contextlib.ExitStack, boards: Sequence[str], host: str, taken: Container[str]
) -> dict[str, BoardServer]:
    servers: dict[str, BoardServer] = {}
    for word in boards:
        given, _, board_word = word.rpartition("=")
        name, _, probe = board_word.partition("@")
        board = load_board(name)
        numbered = (f"{board.name}-{number}" for number in itertools.count(1))
        place = given or next(p for p in numbered if p not in taken and p not in servers)
        if place in taken or place in servers:
            raise InputError(
                f"the lab already has a place {place!r}", "give another name: PLACE=BOARD"
            )
        server = BoardServer(board, host=host, probe=probe or None)
        stack.callback(server.close)
        servers[place] = server
    return servers


def exporter_config(servers: dict[str, BoardServer], host: str) -> str:
    """Return labgrid's exporter configuration: YAML, of which JSON is a subset."""
    groups = {
        place: {
            "NetworkSerialPort": {"host": host, "port": server.line_port, "protocol": "raw"},
            "NetworkService": {"address": host, "username": "hil", "port": server.control_port},
            **(
                {
                    "NetworkPowerPort": {
                        "model": "rest",
                        "host": f"http://{host}:{server.control_port}/power/{{index}}",
                        "index": "0",
                    }
                }
                if server.is_emulated
                else {}
            ),
        }
        for place, server in servers.items()
    }
    return json.dumps(groups, indent=2) + "\n"


def _coordinator(stack: contextlib.ExitStack, folder: Path, host: str) -> tuple[ChildProcess, str]:
    log = folder / "coordinator.log"
    # The coordinator writes places.yaml and resources.yaml into its working directory.
    process = _start(
        stack, "the coordinator", "coordinator", ["-l", f"{host}:0"], log, working=folder
    )
    port = _line_of(log, process, r"listening on .*:(\d+)$")
    return process, f"{host}:{port}"


def _exporter(
    stack: contextlib.ExitStack,
    folder: Path,
    address: str,
    name: str,
    host: str,
    servers: dict[str, BoardServer],
) -> ChildProcess:
    config = folder / "exporter.yaml"
    config.write_text(exporter_config(servers, host), encoding="utf-8")
    options = ["-c", address, "-n", name, "--hostname", host, str(config)]
    log = folder / "exporter.log"
    process = _start(stack, "the exporter", "exporter", options, log, working=folder)
    _line_of(log, process, r"^(Exporter ready)")
    return process


def _start(
    stack: contextlib.ExitStack,
    name: str,
    module: str,
    options: Sequence[str],
    log: Path,
    *,
    working: Path,
) -> ChildProcess:
    # Run labgrid's programs by this interpreter: their scripts may not be on PATH.
    # Its folder is changed after its search path is set, which has no relative folders then.
    path = [str(Path(folder).absolute()) for folder in sys.path]
    code = f"import os, sys; sys.path[:] = {path!r}; os.chdir({str(working)!r}); "
    code += f"from labgrid.remote.{module} import main; sys.exit(main())"
    with log.open("wb") as output:
        process = ChildProcess(
            name,
            [sys.executable, "-c", code, *options],
            install_hint=install_hint("labgrid"),
            stdout=output.fileno(),
        )
    stack.callback(process.stop)
    return process


def _line_of(log: Path, process: ChildProcess, pattern: str) -> str:
    """Return the group of ``pattern`` in the process's output."""
    deadline = time.monotonic() + _READY_LIMIT_S
    while time.monotonic() < deadline:
        text = log.read_text(encoding="utf-8", errors="replace")
        if match := re.search(pattern, text, re.MULTILINE):
            return match[1]
        process.alive()
        time.sleep(_POLL_S)
    raise DeviceError(f"{process.name} was not ready within {_READY_LIMIT_S:g} s", f"see {log}")


def _wait_for_resources(
    keeper: Keeper, servers: dict[str, BoardServer], processes: Sequence[ChildProcess]
) -> None:
    deadline = time.monotonic() + _READY_LIMIT_S
    while True:
        places = {place["name"]: place for place in keeper.ask("list")["places"]}
        ready = [
            name for name in servers if set(places.get(name, {}).get("resources", ())) >= _NEEDED
        ]
        if len(ready) == len(servers):
            return
        for process in processes:
            process.alive()
        if time.monotonic() > deadline:
            raise DeviceError(
                f"the coordinator knows {len(ready)} of {len(servers)} boards after "
                f"{_READY_LIMIT_S:g} s",
                "check that exporter and coordinator have the same version of labgrid",
            )
        time.sleep(_POLL_S)
