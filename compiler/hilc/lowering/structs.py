"""The parameter structs of kernels, read from their C headers, and Python classes made of them.

A struct in C states once what a kernel takes. It is declared so that it can be read without a C
compiler: one field a declaration, of one of the types below, with a comment behind or above it::

    struct hil_generic_matmul_s8 {
        int32_t rows;
        int32_t counts[HIL_WALK_LOOPS]; /* a short array inside the struct */
        const int8_t *weights;          /* an array in flash */
    };

Fields that kernels share are a macro whose name ends in ``_FIELDS``; it is declared in the same way
and stands in the struct as ``HIL_WINDOW_FIELDS;``. Each struct and each macro is a frozen dataclass
in Python: ``HilGenericMatmulS8``, and ``HilWindow`` as the field ``window``.

:mod:`hilc.lowering.parameters` makes the classes of the shipped kernels when they are imported, and
``compiler/build_hook.py`` writes their types for type checkers. For your own kernels,
:mod:`hilc.lowering.write_parameters` writes a module. The build hook loads this module by its path,
in environments without numpy: it imports nothing but the standard library.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Each begins with literal text, which the search finds some times faster than a multi-line "^".
_MACRO = re.compile(r"\n#define (HIL_\w+_FIELDS)\b((?:.*\\\n)*.*)")
_STRUCT = re.compile(r"\nstruct (\w+) \{(\n.*?)\n\};", re.DOTALL)
_PIECE = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<declaration>[^;/]+?)\s*(?:;|$|(?=/\*))", re.DOTALL)
_DECLARATION = re.compile(
    r"(?:(?P<const>const) )?(?P<type>\w+)\s*(?P<pointer>\*)?\s*(?P<name>\w+)(?P<array>\[\w+\])?"
)
_NUMBERS = {"int32_t": "int", "float": "float"}
#: Element types of arrays, by their types in C, in which a half is its bits.
_ELEMENTS = {
    **{f"int{bits}_t": f"np.int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": f"np.uint{bits}" for bits in (8, 32, 64)},
    **{"uint16_t": "np.float16", "float": "np.float32", "double": "np.float64"},
}
_KERNEL_NAME = re.compile(r'/\*@kernel\n(?:.*\n)*?name = "(\w+)"')


class Field(NamedTuple):
    """A field of a struct, or a macro of fields; its name is then ``group``."""

    name: str
    #: The annotation in Python.
    python: str
    meaning: str = ""
    group: str | None = None


Fields = tuple[Field, ...]


@dataclass(frozen=True)
class Structs:
    """Declarations of headers: structs and macros of fields by their names in C, in order."""

    structs: Mapping[str, Fields]
    groups: Mapping[str, Fields]

    def names(self, fields: Fields) -> Iterator[str]:
        """Yield the names of all fields in C, those of macros included."""
        for field in fields:
            if field.group is None:
                yield field.name
            else:
                yield from self.names(self.groups[field.group])

    def without_meaning(self, kernels: Iterable[str]) -> Iterator[str]:
        """Yield the fields of the structs of ``kernels`` that have no comment, as ``struct.field``;
        a macro's are its own.
        """
        pending, seen = list(kernels), set[str]()
        while pending:
            owner = pending.pop(0)
            if owner in seen:
                continue
            seen.add(owner)
            for field in {**self.groups, **self.structs}[owner]:
                if field.group is not None:
                    pending.append(field.group)
                elif not field.meaning:
                    yield f"{owner}.{field.name}"


def python_name(c_name: str) -> str:
    """Return the dataclass of a struct or a macro of fields: ``HilGenericMatmulS8``."""
    words = c_name.removesuffix("_FIELDS").lower().split("_")
    return "".join(word.capitalize() for word in words)


def kernel_names(texts: Iterable[str]) -> Iterator[str]:
    """Yield the names of the kernels that headers describe, in order."""
    for text in texts:
        yield from _KERNEL_NAME.findall(text)


def read_structs(texts: Iterable[str]) -> Structs:
    """Return the structs and macros of fields that headers declare.

    Structs of other forms are not parameters of kernels; they are left out.
    """
    structs: dict[str, Fields] = {}
    groups: dict[str, Fields] = {}
    for header in texts:
        text = f"\n{header}"
        for name, body in _MACRO.findall(text):
            groups[name] = _fields(name, re.sub(r"\s*\\\n", "\n", body))
        for name, body in _STRUCT.findall(text):
            try:
                structs[name] = _fields(name, body)
            except ValueError:
                continue
    return Structs(structs, groups)


def _fields(owner: str, body: str) -> Fields:
    found: list[Field] = []
    above, end = "", 0
    for piece in _PIECE.finditer(body):
        if piece["comment"] is not None:
            text = " ".join(line.strip(" *") for line in piece["comment"].splitlines()).strip()
            behind = found and "\n" not in body[end : piece.start()].rstrip(" ")
            if behind:
                last = found[-1]
                found[-1] = Field(last.name, last.python, text, last.group)
            else:
                above = text
        elif declaration := piece["declaration"].strip():
            found.append(_field(owner, " ".join(declaration.split()), above))
            above, end = "", piece.end()
    return tuple(found)


def _field(owner: str, declaration: str, meaning: str) -> Field:
    if re.fullmatch(r"HIL_\w+_FIELDS", declaration):
        name = declaration.removeprefix("HIL_").removesuffix("_FIELDS").lower()
        return Field(name, python_name(declaration), meaning, declaration)
    match = _DECLARATION.fullmatch(declaration)
    if match is not None and _is_free(match["name"]):
        c_type, is_array = match["type"], match["array"] is not None
        if match["const"] and match["pointer"] and not is_array and c_type in _ELEMENTS:
            return Field(match["name"], f"npt.NDArray[{_ELEMENTS[c_type]}]", meaning)
        if not match["const"] and not match["pointer"] and c_type in _NUMBERS:
            number = _NUMBERS[c_type]
            return Field(match["name"], f"tuple[{number}, ...]" if is_array else number, meaning)
    raise ValueError(
        f"{owner}: {declaration!r} is no field of a kernel's parameters; a number (int32_t, "
        "float), a short array of them, or a pointer to constants can be"
    )


def _is_free(name: str) -> bool:
    """Return whether a field of a dataclass of parameters can have the name."""
    return not keyword.iskeyword(name) and name not in ("fields", "kernel")


_HEAD = '''\
"""The parameters of {whose} kernels.

Written by ``{command}`` from the structs in the C headers.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hilc.lowering.kernels import FieldGroup, Parameters
from hilc.lowering.records import record
'''


def shipped_module(texts: Iterable[str], command: str) -> str:
    """Return the types of :mod:`hilc.lowering.parameters` as a module's text, from the headers of
    all kernels that ship. ``command`` is named as the writer.

    ValueError if a field of a struct has no comment.

    Raise ValueError for fields without a comment.
    """
    texts = list(texts)
    structs, names = read_structs(texts), list(kernel_names(texts))
    if silent := list(structs.without_meaning(names)):
        raise ValueError(
            f"no comment says what {', '.join(silent)} is: write it behind the field or above it"
        )
    return python_module(structs, names, command)


def python_module(
    structs: Structs,
    kernels: Sequence[str],
    command: str,
    known: Iterable[str] = (),
    whose: str = "the",
) -> str:
    """Return the text of a module with a dataclass for the struct of each of ``kernels`` (name to
    header), and for the macros of fields that these have, ``known`` ones excepted: they are
    imported. ``command`` is named as the writer.
    """
    known = set(known)
    groups: dict[str, None] = {}

    def collect(fields: Fields) -> None:
        for field in fields:
            if field.group is not None:
                collect(structs.groups[field.group])
                groups[field.group] = None

    for name in kernels:
        collect(structs.structs[name])
    imported = sorted(python_name(group) for group in groups if group in known)
    parts = [_HEAD.format(whose=whose, command=command)]
    if imported:
        parts[0] += f"from hilc.lowering.parameters import {', '.join(imported)}\n"
    for group in groups:
        if group not in known:
            parts.append(
                _class(group, "FieldGroup", structs.groups[group], f"The fields of ``{group}``.")
            )
    for name in kernels:
        meaning = f"The fields of ``struct {name}``."
        parts.append(_class(name, "Parameters", structs.structs[name], meaning, name))
    return "\n\n".join(parts)


def _class(c_name: str, base: str, fields: Fields, meaning: str, kernel: str | None = None) -> str:
    lines = [
        "@record(frozen=True, eq=False, kw_only=True)",
        f"class {python_name(c_name)}({base}):",
        f'    """{meaning}"""',
        "",
    ]
    if kernel is not None:
        lines += [f'    KERNEL: ClassVar[str] = "{kernel}"', ""]
    for field in fields:
        lines += _comment(field.meaning)
        lines.append(f"    {field.name}: {field.python}")
    return "\n".join(lines) + "\n"


def _comment(meaning: str) -> list[str]:
    lines: list[str] = []
    for word in meaning.split():
        if lines and len(lines[-1]) + 1 + len(word) <= 100:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    #: {word}")
    return lines
