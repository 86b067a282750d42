"""``hil boards``, ``hil doctor``, ``hil monitor``: list boards, check tools, show output."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from hil.board import Board, board_names, load_board, own_board_names
from hil.board.config import boards_folder
from hil.board.pyocd_targets import check_target
from hil.cli.commands.options import compiled_for, reachable_board
from hil.cli.console import Console, table
from hil.cli.doctor import Finding, Tool, diagnose, missing_for_runner, self_test
from hil.cli.monitor import listen, open_line
from hil.cli.render import board_entry, board_text, memory_bytes, ran_on, size_text
from hil.errors import DeviceError, HilError, InputError
from hil.firmware.build import build, check_cache
from hil.link.line import Line
from hil.link.ports import lasting_name, serial_ports
from hil.plugins import Plugin, plugins
from hil.probe.probes import ProbeInfo, choose_probe, connected_probes, lines_of
from hil.probe.usb import REMEDY as USB_REMEDY
from hil.probe.usb import forbidden_probes
from hil.results.boards import (
    BoardNeed,
    CacheState,
    CheckedBoard,
    ConnectedProbe,
    DoctorEntry,
    ForbiddenProbe,
    InstalledReference,
    PluginState,
    SelfTest,
    SerialPort,
)
from hil.results.run import HeardLine, MonitorEntry
from hil.runners import Choice, start
from hil.verify.oracle import fallback_allowed, installed_reference
from hil.virtual_probe import running_boards
from hilc.references import is_independent


def boards_command(args: argparse.Namespace, console: Console) -> int:
    """List the boards of the project and the user, or describe one board."""
    if args.name is not None:
        board = load_board(args.name)
        console.result(board_entry(board), board_text(board))
        return 0
    boards = [load_board(name) for name in board_names()]
    for name in own_board_names():
        try:
            boards.append(load_board(boards_folder() / f"{name}.toml"))
        except HilError as error:
            console.warn(error.fact)
    rows = [
        [
            board.name,
            board.cpu.name,
            size_text(memory_bytes(board, "flash")),
            size_text(memory_bytes(board, "ram")),
            ran_on(board),
            " ".join(board.runners),
            board.description,
        ]
        for board in boards
    ]
    header = ["board", "core", "flash", "RAM", "ran on", "runners", "description"]
    console.result([board_entry(board) for board in boards], table(rows, header))
    return 0


def doctor_command(args: argparse.Namespace, console: Console) -> int:
    """Report installed tools, connected hardware, and remedies for missing ones."""
    board = load_board(args.board) if args.board else None
    findings = diagnose()
    lacking = [finding for finding in findings if finding.problem]
    found_ports = serial_ports()
    ports = [
        SerialPort(port.device, lasting_name(port.device, found_ports), port.description)
        for port in found_ports
    ]
    probes, probe_problem = _probes()
    forbidden = forbidden_probes()
    problem = None
    try:
        tested = self_test()
    except HilError as error:
        problem = tested = error.fact
    reference, fallback = installed_reference()
    cache = _cache()
    found_plugins = plugins()
    independent = is_independent(reference)
    is_refused = fallback is not None and not independent and not fallback_allowed()
    works = (
        problem is None
        and not is_refused
        and cache.ok
        and not any(finding.tool.required for finding in lacking)
        and all(plugin.problem is None for plugin in found_plugins)
    )
    rows = [[f.tool.name, f.version or "MISSING", f.tool.purpose] for f in findings]
    lines = [table(rows, ["tool", "version", "for"]), ""]
    lines += [f"{f.problem}: {f.tool.remedy}" for f in lacking]
    lines += [
        f"serial port {port.url}: {port.description}"
        + (f" (--port {port.name})" if port.name != port.url else "")
        for port in ports
    ]
    lines += [f"probe {probe.line}, target {probe.target or 'unknown'}" for probe in probes]
    lines += [f"probes: {probe_problem}"] if probe_problem else []
    lines += [f"no permission for {p.name} at {p.node}: {USB_REMEDY}" for p in forbidden]
    lines += [_plugin_line(plugin) for plugin in found_plugins]
    own = "" if independent else " (not independent)"
    own += ", which verify refuses here without --allow-fallback" if is_refused else ""
    lines.append(f"reference {reference}{own}" + (f": {fallback}" if fallback else ""))
    lines.append(f"self-test: {tested}")
    lines.append(f"cache {cache.result}" + (f" ({cache.remedy})" if cache.remedy else ""))
    lines.append("emulated boards work" if works else "emulated boards do NOT work")
    entry = DoctorEntry(
        ok=works,
        tools=tuple(finding.entry() for finding in findings),
        ports=tuple(ports),
        probes=tuple(ConnectedProbe(**asdict(probe)) for probe in probes),
        forbidden_probes=tuple(ForbiddenProbe(p.name, str(p.node)) for p in forbidden),
        reference=InstalledReference(reference, fallback, independent),
        self_test=SelfTest(problem is None, tested),
        cache=cache,
        plugins=tuple(map(_plugin_entry, found_plugins)),
    )
    if board is not None:
        needs = _needs(board, probes)
        works = works and all(need.found or not need.required for need in needs)
        lines += [
            f"{board.name}: {need.what}: {need.result}"
            + (f" ({need.remedy})" if need.remedy else "")
            for need in needs
        ]
        entry = replace(entry, ok=works, board=CheckedBoard(board.name, tuple(needs)))
    code = 0 if works else DeviceError.exit_code
    console.result(entry, "\n".join(lines), code)
    return code


def _plugin_line(plugin: Plugin) -> str:
    of = f" of {plugin.distribution} {plugin.version}" if plugin.distribution else ""
    line = f"plugin {plugin.name}: {plugin.target}{of}"
    if plugin.problem is None:
        return line
    return f"{line} CANNOT be loaded: {plugin.told_problem()} ({plugin.remedy})"


def _plugin_entry(plugin: Plugin) -> PluginState:
    return PluginState(
        name=plugin.name,
        target=plugin.target,
        distribution=plugin.distribution,
        version=plugin.version,
        ok=plugin.problem is None,
        problem=plugin.told_problem(),
        remedy=plugin.remedy if plugin.problem else "",
    )


def _cache() -> CacheState:
    """Return the build cache's folder and whether it is writable."""
    try:
        folder = str(check_cache())
    except HilError as error:
        return CacheState(False, None, error.fact, error.hint)
    return CacheState(True, folder, f"{folder} can be written", "")


def _probes() -> tuple[list[ProbeInfo], str]:
    """Return the connected probes, or the reason why they cannot be listed."""
    try:
        return connected_probes(), ""
    except HilError as error:
        return [], error.fact


def _needs(board: Board, probes: list[ProbeInfo]) -> list[BoardNeed]:
    """Return the needs of the board's runners, the results of the checks, and remedies.

    The board is usable if everything is present that its default runner needs.
    """
    needs = []
    for runner in board.runners:
        finds: list[tuple[str, Callable[[], str]]] = [(f"runner {runner}", lambda: "ready")]
        if runner == "pyocd":
            finds = [
                ("pyOCD target", partial(_pyocd_target, board)),
                ("probe", partial(_probe, board, probes)),
                ("serial line", partial(_serial_line, board, probes)),
            ]
        elif (tool := missing_for_runner(board, runner)) is not None:
            finds = [(f"runner {runner}", partial(_missing, tool))]
        for what, find in finds:
            try:
                found, result, remedy = True, find(), ""
            except HilError as error:
                found, result, remedy = False, error.fact, error.hint
            required = runner == board.default_runner
            needs.append(BoardNeed(what, found, required, result, remedy))
            if not found:
                break  # the next checks depend on this one
    return needs


def _missing(tool: Tool) -> str:
    raise InputError(Finding(tool, tool.find()).problem, tool.remedy)


def _pyocd_target(board: Board) -> str:
    check_target(board)
    assert board.pyocd is not None, "a board with the runner pyocd has its table"
    return f"{board.pyocd.target} is supported"


def _probe(board: Board, probes: list[ProbeInfo]) -> str:
    return choose_probe(board, None, probes).line


def _serial_line(board: Board, probes: list[ProbeInfo]) -> str:
    if board.is_over_rtt:
        return "RTT, through the probe"
    probe = choose_probe(board, None, probes)
    virtual = next((v for v in running_boards() if v.uid == probe.uid), None)
    if virtual is not None:
        return virtual.url
    names = lines_of(board, probe, None)
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}; proven at each start"


@contextmanager
def _line(
    args: argparse.Namespace, console: Console
) -> Iterator[tuple[str, Line, Callable[[], None], Path | None]]:
    """Open the serial line of a running board, or of a firmware started for this.

    Also yield a function that raises when the firmware has ended, and the firmware's ELF file if
    known.
    """
    if args.port is not None and args.probe is None and args.runner is None:
        if args.models:
            raise InputError(
                "--port listens to a firmware that runs already, so it takes no MODEL",
                "drop --port or the models",
            )
        with open_line(args.port) as port:
            yield args.port, port, lambda: None, None
        return
    if args.board is None:
        raise InputError("monitor has no line to listen to", "give --port URL, or --board B")
    board = reachable_board(args)
    libraries = compiled_for(args, board, console)
    firmware = build(libraries, board, workspace=args.workspace)
    with console.part_done(f"programming {board.name}") as progress:
        choice = Choice(args.probe, args.port, board.is_over_rtt, progress)
        with start(board, firmware, args.runner, choice) as running:
            if running.line is not None:
                yield running.url, running.line, running.alive, firmware.elf
                return
            with open_line(running.url) as port:
                yield running.url, port, running.alive, firmware.elf


def monitor_command(args: argparse.Namespace, console: Console) -> int:
    """Print the board's output until Ctrl-C or the end of --seconds."""
    heard: list[HeardLine] = []
    with _line(args, console) as (url, port, alive, elf):
        console.log(f"listening to {url}; Ctrl-C ends it")
        try:
            for seconds, line in listen(port, args.seconds, alive, elf):
                heard.append(HeardLine(round(seconds, 3), line.kind, line.text))
                if not console.as_json:
                    console.line(f"{seconds:9.3f} {line.kind:5} {line.text}")
        except KeyboardInterrupt:
            # The lines printed so far are the result.
            if console.as_json:
                console.result(MonitorEntry(args.board, tuple(heard)), "")
            raise
    if console.as_json:
        console.result(MonitorEntry(args.board, tuple(heard)), "")
    return 0
