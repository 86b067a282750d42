"""What ``hil doctor`` does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

from hil.access import flasher_named, flashers
from hil.access.connection import ProbeInfo
from hil.access.probes import choose_probe, connected_probes, lines_of
from hil.board import Board, load_board
from hil.cli.command_line import checked_commands
from hil.cli.console import Console, screen_width, table
from hil.cli.doctor import Finding, Tool, diagnose, missing_for_runner, self_test
from hil.errors import DeviceError, HilError, InputError
from hil.firmware.build import check_cache
from hil.link.ports import lasting_name, serial_ports
from hil.plugins import Plugin, plugins
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
from hil.verify.oracle import fallback_allowed, installed_reference
from hil.virtual_probe import running_boards
from hilc.references import is_independent


def doctor_command(args: argparse.Namespace, console: Console) -> int:
    """Report installed tools, connected hardware, and remedies for missing ones."""
    board = load_board(args.board) if args.board else None
    found_plugins = (*plugins(), *checked_commands())  # before what they register is asked for
    findings = diagnose()
    lacking = [finding for finding in findings if finding.problem]
    found_ports = serial_ports()
    ports = [
        SerialPort(port.device, lasting_name(port.device, found_ports), port.description)
        for port in found_ports
    ]
    probes, probe_problem = _probes()
    forbidden = [probe for flasher in flashers().values() for probe in flasher.forbidden()]
    problem = None
    try:
        tested = self_test()
    except HilError as error:
        problem = tested = error.fact
    reference, fallback = installed_reference()
    cache = _cache()
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
    lines = [table(rows, ["tool", "version", "for"], screen_width()), ""]
    lines += [f"{f.problem}: {f.tool.remedy}" for f in lacking]
    lines += [
        f"serial port {port.url}: {port.description}"
        + (f" (--port {port.name})" if port.name != port.url else "")
        for port in ports
    ]
    lines += [f"probe {probe.line}, target {probe.target or 'unknown'}" for probe in probes]
    lines += [f"probes: {probe_problem}"] if probe_problem else []
    lines += [f"no permission for {p.name} at {p.node}: {p.remedy}" for p in forbidden]
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
    return f"{line} CANNOT be loaded: {plugin.problem_text()} ({plugin.remedy})"


def _plugin_entry(plugin: Plugin) -> PluginState:
    return PluginState(
        name=plugin.name,
        target=plugin.target,
        distribution=plugin.distribution,
        version=plugin.version,
        ok=plugin.problem is None,
        problem=plugin.problem_text(),
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
        if (tool := missing_for_runner(board, runner)) is not None:
            finds = [(f"runner {runner}", partial(_missing, tool))]
        elif runner in board.flashers:
            flasher = flasher_named(runner)
            finds = [(f"flasher {runner}", partial(flasher.check, board))]
            if flasher.uses_probe:
                finds += [
                    ("probe", partial(_probe, board, probes)),
                    ("serial line", partial(_serial_line, board, probes)),
                ]
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
