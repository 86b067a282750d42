"""The whole command line: the commands, in the sections of the help."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from hil.cli.command import AnyCommand
from hil.cli.parser import Parser, Version

#: The commands of this project by section of the help; each is a module of `hil.cli.commands`.
SECTIONS = {
    "models": ("quantize", "compile", "explain", "build", "export"),
    "models on boards": (
        "run",
        "verify",
        "evaluate",
        "bench",
        "tune",
        "mlperf",
        "flash",
        "debug",
        "monitor",
    ),
    "results": ("report", "history", "compare", "gate"),
    "boards": ("boards", "board", "erase", "reset", "lab"),
    "this program": ("doctor", "help", "completion", "tvmc"),
}


def build_parser(words: Sequence[str] | None = None) -> Parser:
    """Return the parser of the whole command line, or of the part that ``words`` need.

    Of the commands that ``words`` do not name, only the names are known then: their modules, and
    the flags of tvmc, which come from the compiler, take a while to load.
    """
    parser = Parser(
        prog="hil",
        description="Compile trained models for microcontrollers and prove the result on a board.",
        epilog="`hil COMMAND --help` describes a command. Exit: 0 good, 1 outputs differ, "
        "2 bad input or usage, 3 build failed, 4 board or link failed, 130 interrupted.",
    )
    parser.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    parser.set_defaults(json=False, quiet=False, verbose=0, uses_plugins=True)
    parser.sections = SECTIONS
    commands = parser.add_commands()
    known = [name for names in SECTIONS.values() for name in names]
    named = set(known).intersection(words or ())
    for name in known:
        if named and name not in named:
            commands.add_parser(name)
        else:
            _command(name).add(commands, name, words)
    return parser


def _command(name: str) -> AnyCommand:
    """Return the command ``name`` of this project."""
    command: AnyCommand = import_module(f"hil.cli.commands.{name}").COMMAND
    return command
