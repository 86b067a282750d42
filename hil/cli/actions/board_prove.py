"""What ``hil board prove`` does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from hil.access import Connection
from hil.cli.arguments import checked_board, compiled_for, opened
from hil.cli.console import Console
from hil.device import Device
from hil.device.route import route_to
from hil.energy import check_spec
from hil.errors import HilError, InputError, UsageError
from hil.results.boards import ProofCheck, ProofEntry
from hil.results.codec import decode, encode
from hil.verify.acceptance import prove
from hilc.artifact.library import ModelLibrary
from hilc.support.outputs import write_file


def prove_command(args: argparse.Namespace, console: Console) -> int:
    """Check a board, and write what was found; return the exit code of the worst failure.

    Raise :class:`UsageError` without a board, and :class:`InputError` if the output exists.
    """
    if (args.name is None) == (args.board is None):
        raise UsageError("prove checks one board", "name it: hil board prove B")
    args.board = args.board or args.name
    board = checked_board(args)
    if board.is_host:
        raise InputError(f"{board.name} is this machine, not a board", "name a board")
    output = Path(args.output or f"{board.name}.json")
    if output.exists() and not args.force and not _is_proof(output):
        raise InputError(f"{str(output)!r} exists", "give another --output, or --force")
    if not output.parent.is_dir():
        raise InputError(f"there is no folder {str(output.parent)!r}", "create it")
    connection = Connection(args.probe, args.port, board.is_over_rtt, lab=args.lab)
    is_emulated = route_to(board, args.runner, connection).is_machine
    if args.energy:
        check_spec(args.energy, is_emulated=is_emulated)
    models = compiled_for(args, board, console) if args.models else []

    def device(libraries: Sequence[ModelLibrary]) -> AbstractContextManager[Device]:
        return opened(args, board, list(libraries), console)

    def show(check: ProofCheck) -> None:
        if not console.as_json:
            console.line(f"{check.status:8}{check.name:18}{check.text}")

    found, code = prove(
        board, models, device, is_emulated=is_emulated, energy=args.energy, progress=show
    )
    write_file(output, (json.dumps(encode(found), indent=1) + "\n").encode())
    failed = sum(check.status == "failed" for check in found.checks)
    text = f"\n{board.name}: {'proven' if found.proven else f'{failed} checks failed'}; {output}"
    if found.proven and not is_emulated:
        text += "\nhow to add the file to the project: docs/how-to/boards.md, Prove a board"
    console.result(found, text, exit_code=code)
    return code


def _is_proof(path: Path) -> bool:
    """Return whether a file is the result of an earlier run."""
    try:
        data = json.loads(path.read_bytes())
        decode(ProofEntry, data, str(path))
    except (OSError, ValueError, HilError):
        return False
    return True
