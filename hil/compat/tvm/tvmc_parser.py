"""The command line of ``hil tvmc``: tvmc's own commands and flags, as TVM 0.14 spells them."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Protocol

from hil.cli.options import add_code_options
from hil.cli.parser import Parser, Version, explain_flags_of

FILL_MODES = ("zeros", "ones", "random")
#: A subset of tvmc's devices: a model runs in this process or on a board.
DEVICES = ("cpu", "micro")


SUMMARY = "tvmc's commands for microcontrollers, for scripts written for microTVM."


class Commands(Protocol):
    """The result of ``add_subparsers``."""

    def add_parser(self, name: str, **settings: Any) -> Any:
        """Add the parser of a command and return it, like argparse."""


def add_tvmc(commands: Commands) -> None:
    """Add ``tvmc`` and its subcommands."""
    # Not at the top: flags of targets come from the compiler, which takes a while to load.
    from hil.compat.tvm.tvmc_flags import add_compile_flags

    tvmc: Parser = commands.add_parser("tvmc", help=SUMMARY, description=SUMMARY)
    explain_flags_of("tvmc", _explain)
    tvmc.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    tvmc.add_argument("--config", action=_Missing, nargs="?", help=argparse.SUPPRESS)
    words = tvmc.add_commands()

    compile_ = _command(words, "compile", "compile", "Compile a model for a microcontroller.")
    add_compile_flags(compile_)
    compile_.add_argument(
        "--external",
        action="append",
        default=[],
        metavar="FILE.py[:FACTORY][,KEY=VALUE]...",
        help="compile parts of the model by this code generator (not a flag of tvmc)",
    )
    compile_.add_argument(
        "--signature",
        metavar="NAME",
        help="the signature of a TFLite file with several (not a flag of tvmc)",
    )

    run = _command(words, "run", "run", "Run a compiled module in this process or on a board.")
    run.add_argument("PATH", help="a project folder, or the shared library for --device cpu")
    run.add_argument("--device", default="cpu", metavar="NAME", help="cpu (default) or micro")
    run.add_argument("-i", "--inputs", metavar="F.npz")
    run.add_argument("-o", "--outputs", metavar="F.npz", help="arrays output_0, output_1, ...")
    run.add_argument(
        "--fill-mode",
        default="random",
        metavar="MODE",
        help="zeros, ones or random (default): values of inputs that --inputs lacks",
    )
    run.add_argument("--print-time", action="store_true", help="print the times of the runs")
    run.add_argument("--print-top", metavar="N", help="print positions and values of the largest N")
    run.add_argument("--repeat", default="1", metavar="N", help="measurements (default: 1)")
    run.add_argument("--number", default="1", metavar="N", help="runs of each (default: 1)")
    run.add_argument("--end-to-end", action="store_true", help="also measure moving tensors")
    run.add_argument("--profile", action="store_true", help="not offered: see hil bench")
    run.add_argument("--rpc-key", metavar="KEY", help="not offered")
    run.add_argument("--rpc-tracker", metavar="HOST", help="not offered")
    _add_project_option(run)
    add_code_options(run)

    text = "Firmware projects."
    steps = words.add_parser("micro", help=text, description=text).add_commands()
    for name in ("create", "create-project"):
        create = _command(steps, name, "create", "Make a firmware project around a model.")
        create.add_argument("project_dir", metavar="PROJECT_DIR")
        create.add_argument("MLF", help="the Model Library Format archive")
        _add_platform(create)
        create.add_argument(
            "-f",
            "--force",
            action="store_true",
            help="replace the files of an existing project",
        )
        add_code_options(create)
    build = _command(steps, "build", "build", "Build a project's firmware.")
    build.add_argument("project_dir", metavar="PROJECT_DIR")
    _add_platform(build)
    build.add_argument(
        "-f", "--force", action="store_true", help="build again, and drop changes of the project"
    )
    flash = _command(steps, "flash", "flash", "Put a project's firmware onto its board.")
    flash.add_argument("project_dir", metavar="PROJECT_DIR")
    _add_platform(flash)


def _explain(flag: str) -> Exception | None:
    # Not at the top: flags of targets come from the compiler, which takes a while to load.
    from hil.compat.tvm.tvmc_flags import explain_flag

    return explain_flag(flag)


def _command(commands: Commands, name: str, function: str, summary: str) -> Parser:
    sub: Parser = commands.add_parser(name, help=summary, description=summary)
    sub.add_output_options()
    sub.set_defaults(handler=("hil.compat.tvm.tvmc", f"{function}_command"), parser=sub)
    return sub


def _add_platform(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("platform", metavar="PLATFORM", help="zephyr, arduino or template")
    parser.add_argument("--template-dir", metavar="DIR", help="not offered")
    parser.add_argument(
        "--list-options", action=_ListOptions, nargs=0, help="show the project options and exit"
    )
    _add_project_option(parser)


class _Missing(argparse.Action):
    """Reject a flag of tvmc before the command."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        error = _explain(option or "")
        assert error is not None
        raise error


class _ListOptions(argparse.Action):
    """Print the project options, even if other arguments of the command are missing."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from hil.compat.tvm.tvmc_project import describe_options

        parser._print_message(f"{describe_options()}\n", sys.stdout)
        parser.exit()


def _add_project_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project-option",
        nargs="*",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="board=B: a board of `hil boards` or a file; --list-options explains the others",
    )
