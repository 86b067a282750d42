"""What ``hil doctor`` does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from hil.board import Board, load_board
from hil.board.pyocd_targets import check_target
from hil.cli.console import Console, table
from hil.cli.doctor import Finding, Tool, diagnose, missing_for_runner, self_test
from hil.errors import DeviceError, HilError, InputError
from hil.firmware.build import check_cache
from hil.link.ports import lasting_name, serial_ports
from hil.plugins import Plugin, plugins
from hil.probe.probes import ProbeInfo, choose_probe, connected_probes, lines_of
from hil.probe.usb import REMEDY as USB_REMEDY
from hil.probe.usb import forbidden_probes
from hil.verify.oracle import fallback_allowed, installed_reference
from hil.virtual_probe import running_boards
from hilc.references import is_independent


def doctor_command(args: argparse.Namespace, console: Console) -> int:
    """Report installed tools, connected hardware, and remedies for missing ones."""
    board = load_board(args.board) if args.board else None
    findings = diagnose()
    lacking = [finding for finding in findings if finding.problem]
    found_ports = serial_ports()
    ports = [
        {
            "url": port.device,
            "name": lasting_name(port.device, found_ports),
            "description": port.description,
        }
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
        and cache["ok"]
        and not any(finding.tool.required for finding in lacking)
        and all(plugin.problem is None for plugin in found_plugins)
    )
    rows = [[f.tool.name, f.version or "MISSING", f.tool.purpose] for f in findings]
    lines = [table(rows, ["tool", "version", "for"]), ""]
    lines += [f"{f.problem}: {f.tool.remedy}" for f in lacking]
    lines += [
        f"serial port {port['url']}: {port['description']}"
        + (f" (--port {port['name']})" if port["name"] != port["url"] else "")
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
    lines.append(f"cache {cache['result']}" + (f" ({cache['remedy']})" if cache["remedy"] else ""))
    lines.append("emulated boards work" if works else "emulated boards do NOT work")
    data: dict[str, Any] = {
        "ok": works,
        "tools": [finding.json() for finding in findings],
        "ports": ports,
        "probes": [asdict(probe) for probe in probes],
        "forbidden_probes": [{"name": p.name, "node": str(p.node)} for p in forbidden],
        "reference": {
            "name": reference,
            "reference_fallback": asdict(fallback) if fallback else None,
            "independent": independent,
        },
        "self_test": {"ok": problem is None, "result": tested},
        "cache": cache,
        "plugins": [_plugin_json(plugin) for plugin in found_plugins],
    }
    if board is not None:
        needs = _needs(board, probes)
        works = works and all(need["found"] or not need["required"] for need in needs)
        lines += [
            f"{board.name}: {need['what']}: {need['result']}"
            + (f" ({need['remedy']})" if need["remedy"] else "")
            for need in needs
        ]
        data |= {"ok": works, "board": {"name": board.name, "needs": needs}}
    console.result(data, "\n".join(lines))
    return 0 if works else DeviceError.exit_code


def _plugin_line(plugin: Plugin) -> str:
    of = f" of {plugin.distribution} {plugin.version}" if plugin.distribution else ""
    line = f"plugin {plugin.name}: {plugin.target}{of}"
    if plugin.problem is None:
        return line
    return f"{line} CANNOT be loaded: {plugin.told_problem()} ({plugin.remedy})"


def _plugin_json(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "target": plugin.target,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "ok": plugin.problem is None,
        "problem": plugin.told_problem(),
        "remedy": plugin.remedy if plugin.problem else "",
    }


def _cache() -> dict[str, Any]:
    """Return the build cache's folder and whether it is writable."""
    try:
        folder = str(check_cache())
    except HilError as error:
        return {"ok": False, "folder": None, "result": error.fact, "remedy": error.hint}
    return {"ok": True, "folder": folder, "result": f"{folder} can be written", "remedy": ""}


def _probes() -> tuple[list[ProbeInfo], str]:
    """Return the connected probes, or the reason why they cannot be listed."""
    try:
        return connected_probes(), ""
    except HilError as error:
        return [], error.fact


def _needs(board: Board, probes: list[ProbeInfo]) -> list[dict[str, Any]]:
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
            needs.append(
                {
                    "what": what,
                    "found": found,
                    "required": runner == board.default_runner,
                    "result": result,
                    "remedy": remedy,
                }
            )
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
