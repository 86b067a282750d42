"""``hil explain``: what a model's memory plan does, as text and as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from hil.commands.options import board_of, compile_options
from hil.console import Console, several, writing
from hil.errors import InputError
from hil.plan_report import plan_json, plan_text
from hil.sources import explain_models


def explain_command(args: argparse.Namespace, console: Console) -> int:
    """The plans of the models for the board's core, as firmware for it would have them."""
    # Only a picture needs the plotting library.
    if args.output:
        from hil import picture

        if Path(args.output).suffix.lower() not in picture.FORMATS:
            raise InputError(
                f"--output {args.output!r} does not name a format that a picture can have",
                f"give a name that ends in one of {', '.join(picture.FORMATS)}",
            )
    options = compile_options(args, board_of(args), for_firmware=True)
    plans = explain_models(args.models, options, args.name)
    if args.output:
        if len(plans) != 1:
            raise InputError(
                f"--output is one picture, and there are {len(plans)} models", "give one model"
            )
        with writing(args.output):
            picture.save(picture.plan_figure(plans[0]), args.output)
    text = "\n\n".join(plan_text(plan) for plan in plans)
    if args.output:
        text += f"\n\nthe picture: {args.output}"
    console.result(several([plan_json(plan) for plan in plans]), text)
    return 0
