"""``hil explain``: print a model's memory plan, or draw it."""

from __future__ import annotations

import argparse

from hil.cli.arguments import board_of, compile_options, compiling
from hil.cli.console import Console
from hil.cli.frontier_report import frontier_entry, frontier_text
from hil.cli.plan_report import plan_text
from hil.errors import InputError
from hil.firmware.sources import ModelOptions, explain_models, frontiers_of_models
from hil.page.plan_json import plan_entry
from hilc.support.optional import check_installed
from hilc.support.outputs import check_file


def explain_command(args: argparse.Namespace, console: Console) -> int:
    """Print the plans of the models, compiled as for firmware of the board.

    Raise :class:`InputError` if ``--output`` is given with several models.
    """
    # Not at the top: only a picture needs the plotting library.
    if args.output:
        check_installed("matplotlib", "a picture")
        from hil.page import plan_picture as picture

        if len(args.models) != 1:
            raise InputError(
                f"--output writes one picture, and {len(args.models)} models are given",
                "give one model",
            )
        check_file(
            args.output,
            *picture.FORMATS,
            kind="a picture",
            is_own=picture.is_unchanged,
            force=args.force,
        )
    options = compile_options(args, board_of(args), for_firmware=True)
    if args.frontier:
        return _frontier(args, options, console)
    with compiling(options, console) as reporting:
        plans = explain_models(args.models, reporting, args.name)
    if args.output:
        picture.save(picture.plan_figure(plans[0]), args.output)
    text = "\n\n".join(plan_text(plan) for plan in plans)
    if args.output:
        text += f"\n\nthe picture: {args.output}"
    console.result([plan_entry(plan) for plan in plans], text)
    return 0


def _frontier(args: argparse.Namespace, options: ModelOptions, console: Console) -> int:
    """Print the programs that the user of each model may choose from."""
    chosen = [name for name in ("optimize", "ram", "flash") if getattr(args, name) is not None]
    if chosen:
        raise InputError(
            f"--frontier lists every goal and limit, and --{chosen[0]} chooses one",
            f"leave out --{chosen[0]}, or --frontier",
        )
    with compiling(options, console) as shown:
        frontiers = frontiers_of_models(args.models, shown, args.name)
    text = "\n\n".join(map(frontier_text, frontiers))
    if args.output:
        # Not at the top: only a picture needs the plotting library.
        from hil.page.frontier_picture import frontier_figure
        from hil.page.plan_picture import save

        save(frontier_figure(frontiers[0]), args.output)
        text += f"\n\nthe picture: {args.output}"
    console.result([frontier_entry(frontier) for frontier in frontiers], text)
    return 0
