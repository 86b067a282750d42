"""C text of constants: identifiers, literals, arrays and initialisers of parameter structs.

Numbers are exact: floats are hexadecimal literals, so that no compiler rounds them.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from hilc.ir import ELEMENT_TYPES, Array
from hilc.lowering.fields import FieldValue

#: C element type of a tensor, by numpy name.
C_TYPES: Mapping[str, str] = {name: row.c_type for name, row in ELEMENT_TYPES.items()}

#: Types of a byte, which every pointer may be converted to.
BYTES = ("int8_t", "uint8_t")
#: Elements of a large array that are written at once.
_PIECE = 1 << 16
#: Alignment of constant arrays in bytes; kernels rely on 4.
CONSTANT_ALIGNMENT = 16
#: Default declaration specifiers of a constant.
CONSTANT = f"static const __attribute__((aligned({CONSTANT_ALIGNMENT})))"

_LINE_LENGTH = 100
_INDENT = "    "


def c_quoted(text: str) -> str:
    """Return ``text`` made safe between ``/*`` and ``*/``: printable ASCII without the end of a
    comment.
    """
    printable = "".join(c if " " <= c <= "~" else "?" for c in text)
    # A trigraph is unsafe too: in a comment's last line ??/ is a backslash.
    return re.sub(r"\?(?=\?)", "? ", printable.replace("*/", "* /").replace("/*", "/ *"))


def c_comment(*paragraphs: str) -> str:
    """Return a comment; the paragraphs are made safe and wrapped at the line length."""
    lines = [
        line
        for paragraph in paragraphs
        for line in textwrap.wrap(c_quoted(paragraph), _LINE_LENGTH - 6, break_on_hyphens=False)
    ]
    return "/* " + "\n * ".join(lines) + " */\n"


def c_wrapped(head: str, items: Sequence[str], tail: str, separator: str = ",") -> str:
    """Return ``head``, the items with separators between, and ``tail``; continuation lines align
    with the first item.
    """
    lines = [head]
    for index, item in enumerate(items):
        text = f"{item}{separator}" if index < len(items) - 1 else f"{item}{tail}"
        gap = " " if index else ""
        if index and len(lines[-1]) + len(gap) + len(text) > _LINE_LENGTH:
            lines.append(" " * len(head) + text)
        else:
            lines[-1] += gap + text
    return "\n".join(lines) if items else f"{head}{tail}"


def c_includes(*headers: str, library: str = "") -> str:
    """Return ``#include`` lines: the C library's headers, then those with a slash in the path and
    the library's own (``library``, or what begins with ``tvmgen_``).
    """
    own = [
        header
        for header in headers
        if "/" in header or header.startswith("tvmgen_") or header == library
    ]
    system = [header for header in headers if header not in own]
    groups = [
        "".join(f"#include <{header}>\n" for header in system),
        "".join(f'#include "{header}"\n' for header in own),
    ]
    return "\n".join(group for group in groups if group)


def c_static_assert(condition: str, message: str) -> str:
    """Return a check at compile time that C99, too, accepts without a warning."""
    return f'__extension__ _Static_assert({condition}, "{message}");\n'


def c_int(value: int) -> str:
    """Return an integer as a C expression; INT32_MIN and INT64_MIN by their macros."""
    # The most negative numbers have no literal: C parses a minus and a number that is out of range.
    match value:
        case -2147483648:
            return "INT32_MIN"
        case -9223372036854775808:
            return "INT64_MIN"
    return str(value)


def c_float(value: float) -> str:
    """Return a float literal if float32 holds the value exactly, else a double literal."""
    if math.isnan(value):
        return '__builtin_nanf("")'
    if math.isinf(value):
        return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    # A double beyond float32's range becomes infinite here, on purpose without a warning.
    with np.errstate(over="ignore"):
        suffix = "f" if float(np.float32(value)) == value else ""
    return _trim_hex(value.hex()) + suffix


def _trim_hex(text: str) -> str:
    """Return a hexadecimal float without trailing zeros: 0x1.8p+0 instead of 0x1.80p+0."""
    return re.sub(r"\.?0+p", "p", text)


def c_number(value: int | float) -> str:
    """Return the literal of a Python or numpy number."""
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if isinstance(value, (int, np.integer)):
        return c_int(int(value))
    return c_float(float(value))


def c_pointer(text: str, have: str, want: str, qualifier: str = "") -> str:
    """Return the pointer ``text`` to the C type ``have`` as one to ``want``.

    The cast has ``qualifier`` (``"const "`` or none). A pointer to a wider type is converted by way
    of ``void *``: the memory plan aligns it, which -Wcast-align cannot know.
    """
    if want in (have, "void"):
        return text
    wide = "" if want in BYTES else f"({qualifier}void *)"
    return f"({qualifier}{want} *){wide}{text}"


def _literals(array: Array) -> list[str]:
    if array.dtype == np.float32 and np.isfinite(array).all():
        # The same as c_float, for many at once.
        texts = " ".join(value.hex() for value in array.ravel().tolist())
        return [f"{text}f" for text in _trim_hex(texts).split(" ")]
    return [c_number(value) for value in array.ravel().tolist()]


def _lines(literals: list[str], indent: str, per_line: int) -> str:
    """Return lines of as many literals each."""
    return "\n".join(
        f"{indent}{', '.join(literals[start : start + per_line])},"
        for start in range(0, len(literals), per_line)
    )


def _per_line(width: int, indent: str) -> int:
    """Return how many literals of ``width`` characters fit in an indented line."""
    return max(1, (_LINE_LENGTH - len(indent) + 1) // (width + 2))


def _is_plain(array: Array) -> bool:
    """Return whether the elements are integers of at most 32 bits that are written as digits."""
    return (
        array.dtype.kind in "biu"
        and array.dtype.itemsize <= 4
        # Only the most negative number is a macro.
        and int(array.min(initial=0)) > -(2**31)
    )


def _integers(values: Array, indent: str) -> str:
    """Return integers in lines; the digits of all are made at once, which takes a tenth of the time
    of a string for each.
    """
    ends = int(values.min()), int(values.max())
    per_line = _per_line(max(len(str(end)) for end in ends), indent)
    digits = max(len(str(abs(end))) for end in ends)
    piece = max(1, _PIECE // per_line) * per_line
    found: list[bytes] = []
    for start in range(0, values.size, piece):
        own = values[start : start + piece].astype(np.int64)
        rest = np.abs(own).astype(np.uint32)
        # A literal's sign, digits and what follows it; zeros are no characters.
        text = np.zeros((own.size, 1 + digits + 2), np.uint8)
        text[own < 0, 0] = ord("-")
        for column in range(digits, 0, -1):
            higher = rest // 10
            is_written = (rest > 0) | (column == digits)
            text[:, column] = np.where(is_written, ord("0") + rest - 10 * higher, 0)
            rest = higher
        text[:, -2:] = ord(","), ord(" ")
        text[per_line - 1 :: per_line, -1] = ord("\n")
        found.append(text.tobytes().translate(None, b"\0"))
    # Nothing follows the last comma.
    return indent + b"".join(found)[:-1].decode().replace("\n", f"\n{indent}")


def c_values(array: Array, indent: str = _INDENT) -> str:
    """Return the elements of ``array``, row by row and separated by commas, in indented lines, as
    many per line as fit.

    Large arrays are written in pieces: the literals of all elements take ten times the memory of
    the text.
    """
    flat, width = array.ravel(), 0
    if flat.dtype == np.float16:
        flat = flat.view(np.uint16)
    if flat.size and _is_plain(flat):
        return _integers(flat, indent)
    texts: list[str] = []
    for start in range(0, flat.size, _PIECE):
        literals = _literals(flat[start : start + _PIECE])
        width = max(width, max(map(len, literals)))
        texts.append(" ".join(literals))
    per_line = _per_line(width, indent)
    found: list[str] = []
    rest: list[str] = []
    for number, text in enumerate(texts, 1):
        literals = [*rest, *text.split(" ")]
        count = len(literals) if number == len(texts) else len(literals) // per_line * per_line
        if count:
            found.append(_lines(literals[:count], indent, per_line))
        rest = literals[count:]
    return "\n".join(found)


def c_array(name: str, array: Array, declaration: str = CONSTANT) -> str:
    """Return the definition of ``array`` as a flat C array called ``name``.

    ``declaration`` precedes the element type: storage class, qualifiers, attributes.

    Raise ValueError for an empty array, which C cannot express.
    """
    if array.size == 0:
        raise ValueError(f"array {name} is empty, which C cannot express")
    element = C_TYPES[array.dtype.name]
    return f"{declaration} {element} {name}[{array.size}] = {{\n{c_values(array)}\n}};\n"


def c_struct_initialiser(
    fields: Mapping[str, FieldValue], names: Mapping[str, str] | None = None
) -> str:
    """Return ``{.field = value, ...}``; ``names`` has the C expressions of some fields, of all
    arrays. Fields that are no integers are ``float``.
    """
    names = names or {}

    def text(field: str, value: FieldValue) -> str:
        if field in names or isinstance(value, np.ndarray):
            return names[field]
        if isinstance(value, tuple):
            return f"{{{', '.join(map(number, value))}}}"
        return number(value)

    def number(value: int | float) -> str:
        # A double literal would be converted, which -Wconversion reports.
        with np.errstate(over="ignore"):
            return c_number(float(np.float32(value)) if isinstance(value, float) else value)

    entries = [f".{field} = {text(field, value)}," for field, value in fields.items()]
    return "{\n" + "".join(f"{_INDENT}{entry}\n" for entry in entries) + "}"
