"""Parts of commands that report on models: their outcomes, and the model beside their code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hil.cli.reports import Outcome
from hil.errors import InputError
from hilc.artifact.extra import CODE_SUFFIXES

if TYPE_CHECKING:
    from hil.verify import Report
    from hil.verify.bench import BenchReport


def outcome_with(
    args: argparse.Namespace,
    command: Literal["verify", "bench"],
    board: str,
    reports: Sequence[Report | BenchReport],
) -> Outcome:
    """Return the outcome of ``command`` on ``board``: its reports, with the options of output."""
    return Outcome(
        command,
        board,
        tuple(reports),
        in_detail=args.per_layer,
        limit=getattr(args, "limit", False),
    )


def split_sources(args: argparse.Namespace) -> str | None:
    """Return the model file of ``--source``, or None; leave its code files in ``args.source``.

    Raise :class:`InputError` if it names more than one model.
    """
    if "model_source" in args:
        before: str | None = args.model_source  # an earlier command split these arguments
        return before
    words: list[str] = args.source
    code = [w for w in words if Path(w).suffix in CODE_SUFFIXES or Path(w).is_dir()]
    models = [word for word in words if word not in code]
    if len(models) > 1:
        raise InputError(
            f"--source names {len(models)} models: {', '.join(models)}",
            "name the library's model only",
        )
    model = models[0] if models else None
    args.source, args.model_source = code, model
    return model
