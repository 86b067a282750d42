"""Commands: one module each, which loads no compiler and owns options, texts and call."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

from hil.cli import commands
from hil.cli.command_line import SECTIONS, build_parser


def test_each_command_is_a_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    assert modules == {name for names in SECTIONS.values() for name in names}
    assert set(build_parser().commands()) == modules


def test_help_loads_no_compiler() -> None:
    code = (
        "import sys\n"
        "from hil.cli.command_line import build_parser\n"
        "build_parser(['--help']).format_help()\n"
        "heavy = ('numpy', 'hilc', 'hil.errors', 'hil.board', 'hil.verify', 'hil.cli.actions')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
