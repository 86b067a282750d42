"""Shows that the addresses which C code reads and writes, and its way through its loops, do not
depend on the data in memory: then one run under the address sanitizer speaks for all inputs.

clang turns the code into its intermediate form, in which every value is assigned once. What is
loaded from memory is data, and so is what is computed from it; a loaded value of a constant array
is none, if the place in it is none. The code is free of them where no address, no branch, no length
of a copy and no divisor is data. A choice between two values (``select``) is no branch.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Inlined and in registers, but neither unrolled nor vectorized: that only makes the text longer.
_FLAGS = (
    "-std=c11", "-O1", "-fno-delete-null-pointer-checks", "-fno-unroll-loops",
    "-fno-vectorize", "-fno-slp-vectorize", "-fno-discard-value-names",
)  # fmt: skip
_LIMIT_S = 120

_VALUE = re.compile(r"%[-\w.$]+")
_GLOBAL = re.compile(r"@[-\w.$]+")
_TYPE = re.compile(r"%(struct|union)\.[-\w.$]+")
_ASSIGNED = re.compile(r"^(%[-\w.$]+) = (.*)$")
_CONSTANT = re.compile(r"^(@[-\w.$]+) = .*\bconstant\b", re.MULTILINE)
_CALLED = re.compile(r"\bcall\b.*?(@[-\w.$]+|\basm\b)")
#: Functions of the intermediate form that compute a value of their operands alone.
_PURE = re.compile(r"@llvm\.([su](max|min)|abs|ctlz|cttz|ctpop|fsh[lr]|[us](add|sub)\.sat|bswap)\.")
_SILENT = re.compile(r"@llvm\.(lifetime|dbg|assume|experimental\.noalias)")
_COPIES = re.compile(r"@(llvm\.)?(memcpy|memmove|memset)\b")
_DIVISIONS = ("udiv", "sdiv", "urem", "srem")


@dataclass(frozen=True)
class Dependence:
    """An instruction whose effect on addresses or on the way depends on data."""

    function: str
    #: ``an address``, ``a branch``, ``a length``, ``a divisor``; ``a call`` of unknown effect.
    what: str
    instruction: str

    def __str__(self) -> str:
        return f"{self.function}: data decides {self.what}: {self.instruction}"


def dependences(source: str, includes: Sequence[Path]) -> list[Dependence]:
    """Return what in the functions of a C file depends on data."""
    with tempfile.TemporaryDirectory(prefix="hil-traces-") as name:
        folder = Path(name)
        (folder / "code.c").write_text(source, encoding="utf-8")
        command = ["clang", *_FLAGS, *(f"-I{path}" for path in includes)]
        done = subprocess.run(
            [*command, "-S", "-emit-llvm", "code.c", "-o", "code.ll"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[:4000]
        return found_in((folder / "code.ll").read_text(encoding="utf-8"))


def found_in(text: str) -> list[Dependence]:
    """Return what in the functions of a module, in clang's intermediate form, depends on data."""
    constants = set(_CONSTANT.findall(text))
    functions = list(_functions(text))
    assert functions, "no function in the code"
    return [one for name, lines in functions for one in _Function(name, lines, constants).found()]


def _functions(text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        if line.startswith("define "):
            match = _GLOBAL.search(line)
            assert match
            name, lines = match[0][1:], []
        elif line == "}":
            yield name, lines
            name = ""
        elif name and lines and lines[-1].count("[") > lines[-1].count("]"):
            lines[-1] += line
        elif name and line.startswith("  "):
            lines.append(line)


class _Function:
    """The values of a function, and which of them are data."""

    def __init__(self, name: str, lines: Sequence[str], constants: set[str]) -> None:
        self._name = name
        self._constants = constants
        self._lines = [_TYPE.sub("T", line.partition(", !")[0]).strip() for line in lines]
        #: What each value is computed by.
        self._made: dict[str, str] = {}
        for line in self._lines:
            if match := _ASSIGNED.match(line):
                self._made[match[1]] = match[2]
        self._bases = {name: self._bases_of(name, set()) for name in self._made}
        #: Values that are data, and arrays of the function's own that hold some.
        self._data: set[str] = set()
        # Until nothing is added: a loop's values are computed from those of its last turn.
        while True:
            more = {n for n, made in self._made.items() if n not in self._data and self._is(made)}
            more |= {name for line in self._lines for name in self._filled(line)} - self._data
            if not more:
                break
            self._data |= more

    def found(self) -> list[Dependence]:
        return [
            Dependence(self._name, what, line)
            for line in self._lines
            for what in self._faults(line)
        ]

    def _is(self, made: str) -> bool:
        """Return whether a value that is made so is data."""
        kind = _kind(made)
        if kind == "alloca":
            return False  # where it is, is none; _filled() adds it for what it holds
        if kind == "load":
            address = made.partition(", ")[2]
            return self._uses(address) or any(map(self._holds_data, self._origins(address)))
        if kind == "call":
            called = _called(made)
            return not _PURE.search(called) or self._uses(made)
        return self._uses(made)

    def _holds_data(self, base: str) -> bool:
        if base in self._constants:
            return False
        return _kind(self._made.get(base, "")) != "alloca" or f"{base} holds" in self._data

    def _filled(self, line: str) -> Iterator[str]:
        """Yield the function's own arrays into which an instruction may write data, or whose
        address it gives away.
        """
        made = _made(line)
        kind = _kind(made)
        if kind == "store":
            value, address = _stored(made)
            if self._uses(value):
                yield from (f"{base} holds" for base in self._origins(address))
            # Its address is given away.
            yield from (f"{base} holds" for base in self._origins(value))
        elif kind == "ptrtoint":
            yield from (f"{base} holds" for base in self._origins(made))
        elif kind == "call" and not _is_silent(made):
            # A fill with a constant is none.
            is_fill = "memset" in _called(made) and not self._uses(made)
            yield from (f"{base} holds" for base in (set() if is_fill else self._origins(made)))

    def _uses(self, text: str) -> bool:
        return not self._data.isdisjoint(_VALUE.findall(text))

    def _origins(self, text: str) -> set[str]:
        """Return the arrays in which the pointers of some operands lie; ? for any."""
        found = set(_GLOBAL.findall(text))
        for name in _VALUE.findall(text):
            found |= self._bases.get(name, {"?"})
        return found or {"?"}

    def _bases_of(self, name: str, seen: set[str]) -> set[str]:
        """Return the arrays in which a pointer lies; nothing for what is computed otherwise."""
        made = self._made.get(name)
        if made is None:
            return {"?"}
        kind = _kind(made)
        if kind == "alloca":
            return {name}
        if kind not in ("getelementptr", "bitcast", "phi", "select"):
            # A number, or a pointer from memory.
            return {"?"} if _is_pointer(made) else set()
        found = set(_GLOBAL.findall(made))
        for each in _VALUE.findall(made):
            if each in self._made and each not in seen:
                found |= self._bases_of(each, seen | {name})
            elif each not in self._made and not re.search(
                rf"(label |, ){re.escape(each)} ?\]", made
            ):
                found.add("?")
        return found

    def _faults(self, line: str) -> Iterator[str]:
        made = _made(line)
        kind = _kind(made)
        if kind == "load" and self._uses(made.partition(", ")[2]):
            yield "an address"
        if kind == "store" and self._uses(_stored(made)[1]):
            yield "an address"
        if kind in ("br", "switch", "indirectbr") and self._uses(made):
            yield "a branch"
        if kind in _DIVISIONS and self._uses(made.rpartition(", ")[2]):
            yield "a divisor"
        if kind == "call":
            name = _called(made)
            if _COPIES.search(name):
                target, second, length = made[made.index("(") :].split(", ")[:3]
                is_fill = "memset" in name
                if self._uses(target) or self._uses(length) or (not is_fill and self._uses(second)):
                    yield "a length" if self._uses(length) else "an address"
            elif not (name == "asm" or _PURE.search(name) or _SILENT.search(name)):
                yield "a call"


def _made(line: str) -> str:
    match = _ASSIGNED.match(line)
    return match[2] if match else line


def _kind(made: str) -> str:
    word = made.partition(" ")[0]
    return "call" if word in ("tail", "musttail", "notail", "invoke") else word


def _called(made: str) -> str:
    match = _CALLED.search(made)
    return match[1] if match else "?"


def _is_silent(made: str) -> bool:
    return _SILENT.search(_called(made)) is not None


def _stored(made: str) -> tuple[str, str]:
    """Return the value and the address of a store."""
    value, _, address = made.partition(", align")[0].rpartition(", ")
    return value, address


def _is_pointer(made: str) -> bool:
    """Return whether an instruction makes a pointer, or what may hold one."""
    kind = _kind(made)
    if kind == "load":
        return "*" in made.partition(", ")[0]
    return kind in ("inttoptr", "call", "extractvalue", "insertvalue")
