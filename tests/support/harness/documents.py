"""The fenced blocks of the project's documents, for the test that runs them.

A block's language says how it is run: ``console`` (lines that begin with ``$`` are commands, the
rest is what they print), ``sh`` (each line is a command), ``python``, ``c`` (compiled against the
libraries that the commands made), ``toml``. A comment in the line before the block says what is
special about it::

    <!-- not run: REASON -->        no test machine has what it needs, or it runs elsewhere
    <!-- only parsed: REASON -->    commands of ``hil``, of which only the words are checked
    <!-- until Ctrl-C -->           its last command ends when it is told to

In what a command prints, ``...`` stands for anything, and white space is not compared. Nor is what
differs from run to run and from build to build: seconds, addresses in hexadecimal, line numbers.
``HIL_UPDATE_DOCUMENTS=1`` brings the other figures up to date.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Languages of blocks that are no input for anything: drawings, wire formats, output of others.
SHOWN_ONLY = ("", "text", "frame")

#: The comment in front of a block ends before another text begins.
_BLOCK = re.compile(
    r"(?:^<!-- ((?:(?!-->).)*) -->\n+)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_MARKS = re.compile(r"not run: .+|only parsed: .+|until Ctrl-C|[a-z]+:(begin|end)")
_MASKS = (
    (re.compile(r"\d+(\.\d+)? s\b"), "# s"),
    # As many samples as fit in a time.
    (re.compile(r"over \d+ samples in"), "over # samples in"),
    (re.compile(r"a fault in [\d.]+ %"), "a fault in # %"),
    (re.compile(r"0x[0-9a-f]+"), "0x#"),
    (re.compile(r"(\.[ch]):\d+"), r"\1:#"),
)


@dataclass(frozen=True)
class Command:
    """A command line, and the pieces of text that it prints, in their order."""

    line: str
    #: What it prints, as the document has it.
    output: str

    @property
    def printed(self) -> list[str]:
        pieces = (plain(piece) for piece in self.output.split("..."))
        return [piece for piece in pieces if piece]

    @property
    def fails(self) -> bool:
        """Whether the document shows it failing."""
        return any("error:" in piece for piece in self.printed)


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    path: Path
    line: int
    mark: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> list[Command]:
        if self.language == "sh":
            return [Command(line, "") for line in self.text.splitlines() if line.strip()]
        commands = []
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            commands.append(Command(line, output))
        return commands


def plain(text: str) -> str:
    """``text`` without what may differ from run to run."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def with_todays_figures(output: str, told: str) -> str:
    """``output``, each line that differs from one of ``told`` only in figures replaced by it."""
    lines = {_without_figures(line): line for line in reversed(told.splitlines())}
    return "".join(f"{lines.get(_without_figures(line), line)}\n" for line in output.splitlines())


def _without_figures(line: str) -> str:
    return " ".join(re.sub(r"[\d,.]+", "#", line).split())


def blocks(path: Path) -> list[Block]:
    """All fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        mark = match[1] or ""
        assert not mark or _MARKS.fullmatch(mark), f"{path}: what does <!-- {mark} --> mean?"
        line = text.count("\n", 0, match.start(3)) + 1
        found.append(Block(path, line, mark, match[2], match[3]))
    return found


def documents() -> list[Path]:
    """Every document of the project."""
    skipped = {".venv", "build", "node_modules", ".pytest_cache"}
    found = (p for p in ROOT.rglob("*.md") if not skipped & set(p.relative_to(ROOT).parts))
    return sorted(path for path in found if path.name != "CHANGELOG.md")
