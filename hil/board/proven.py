"""What ``hil board prove`` found on real boards: files in ``proven`` beside the descriptions."""

from __future__ import annotations

import json
from pathlib import Path

from hil.errors import InputError
from hil.results.boards import ProofEntry
from hil.results.codec import decode


def proof_of(description: Path) -> ProofEntry | None:
    """Return the proof of the real board that a description file describes; None without a file.

    Raise :class:`~hil.errors.InputError` for a file that is damaged, or of another or an emulated
    board, or in which a check failed.
    """
    path = description.parent / "proven" / f"{description.stem}.json"
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    hint = f"write it with: hil board prove {description.stem} -o {path}"
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}", hint) from error
    proof = decode(ProofEntry, data, str(path), hint)
    failed = any(check.status == "failed" for check in proof.checks)
    if proof.board != description.stem or proof.emulated or failed or not proof.proven:
        raise InputError(f"{path} does not prove the real board {description.stem!r}", hint)
    return proof
