"""Parser of texts that TVM generates: Relay signatures and C.

The texts are untrusted, so every search takes time in proportion to the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hilc.artifact.params import dtype_name
from hilc.ir import DTYPES
from hilc.ir.dtypes import DL_CODES

# Longer texts are not TVM's output for a microcontroller.
_MAX_METADATA = 1 << 20
_MAX_RELAY = 4 << 20
_MAX_SIGNATURE = 1 << 19
_MAX_PARAMETERS = 4000

_TYPE_CODES = DL_CODES


@dataclass(frozen=True)
class Border:
    """An input or output with the facts of one source."""

    name: str
    dtype: str
    nbytes: int
    shape: tuple[int, ...] | None


class Relay:
    """Signature of the main in the model's Relay text; empty if there is none."""

    inputs: tuple[Border, ...] = ()
    outputs: tuple[Border, ...] = ()

    _TYPE = r"(?:Tensor\[\(([\d, ]{0,200})\), ?(\w{1,20})\]|(\w{1,20}))"

    def __init__(self, files: Mapping[str, bytes], name: str) -> None:
        # Before version 7 an archive had one module, and its text a fixed name.
        data = files.get(f"src/{name}.relay", files.get("src/relay.txt", b""))[:_MAX_RELAY]
        text = data.decode("utf-8", "replace")
        begin = text.find("def @main(")
        if begin < 0:
            return
        text = without_comments(text[begin + len("def @main(") :][:_MAX_SIGNATURE])
        parameter = re.compile(rf"\s*%([^:\s,()]{{1,200}})\s*:\s*{self._TYPE}\s*,?")
        inputs = []
        position = 0
        while match := parameter.match(text, position):
            inputs.append(self._border(match[1], match[2], match[3], match[4]))
            position = match.end()
        # Attributes of the function may follow; the result's type precedes the body.
        arrow = re.compile(r"\)\s{0,9}->").search(text, position)
        result = text[arrow.end() : text.find("{", arrow.end())] if arrow else ""
        outputs = [
            self._border(f"output{index}", *found)
            for index, found in enumerate(re.findall(self._TYPE, result))
        ]
        self.inputs = tuple(border for border in inputs if border is not None)
        if all(outputs):
            self.outputs = tuple(border for border in outputs if border is not None)

    @staticmethod
    def _border(name: str, sides: str | None, dtype: str | None, scalar: str | None) -> Any:
        """Return a tensor of a known type; None for anything else."""
        dtype = dtype or scalar or ""
        digits = re.findall(r"\d+", sides or "")
        if dtype not in DTYPES or len(digits) > 16 or any(len(d) > 9 for d in digits):
            return None
        shape = tuple(map(int, digits))
        return Border(name, dtype, prod(shape) * np.dtype(dtype).itemsize, shape)


# C text ---------------------------------------------------------------------------------------

# An unterminated comment or string extends to the end of the text: no search starts twice.
_COMMENT_OR_STRING = re.compile(r'"(?:[^"\\]|\\.?)*"?|/\*(?:.*?\*/|.*)|//[^\n]*', re.DOTALL)


def without_comments(text: str) -> str:
    """Return C code with each comment replaced by a space; string literals stay."""
    return _COMMENT_OR_STRING.sub(lambda m: m[0] if m[0].startswith('"') else " ", text)


def definition(text: str, function: str) -> tuple[str, str] | None:
    """Return parameters and body of a C function; None if the text does not define it."""
    opened = re.compile(rf"\b{function}\s{{0,9}}\(")
    body = re.compile(r"\)\s{0,9}\{")
    for head in opened.finditer(text):
        close = text.find(")", head.end(), head.end() + _MAX_PARAMETERS)
        start = body.match(text, close) if close >= 0 else None
        if start is not None:
            break
    else:
        return None
    # Initialisers inside end with a semicolon after their brace.
    end = re.compile(r"\n\}(?!;)").search(text, start.end())
    return text[head.end() : close], text[start.end() : end.start() if end else len(text)]


def sanitise(name: str) -> str:
    """Return TVM's field name in structs for a name."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def c_metadata(text: str, kind: str) -> list[Border] | None:
    """Return the tensors of the array ``kTvmgenMetadata_<kind>``; None if they cannot be parsed."""
    begin = text.find("kTvmgenMetadata_")
    text = without_comments(text[begin : begin + _MAX_METADATA])
    shapes = {
        name: [int(side) for side in re.findall(r"\d{1,15}", sides)]
        for name, sides in re.findall(
            rf"(kTvmgenMetadata_{kind}_\d{{1,4}}_shape)\s*\[\d{{0,4}}\]\s*=\s*\{{([\d\sL,]{{0,2000}})\}}",
            text,
        )
    }
    start = re.search(rf"kTvmgenMetadata_{kind}\s*\[(\d{{1,4}})\]\s*=\s*\{{", text)
    if start is None:
        return None
    entry = re.compile(
        r'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*,\s*(\w+)\s*,\s*(\d{1,4})L{0,2}\s*,'
        r"\s*\{\s*(\d{1,3}|kDLU?Int|kDLFloat)\s*,\s*(\d{1,3})\s*,\s*(\d{1,5})\s*\}\s*\}\s*,?"
    )
    borders = []
    position = start.end()
    while match := entry.match(text, position):
        shape = shapes.get(match[2], [])
        code = _TYPE_CODES[match[4]] if match[4] in _TYPE_CODES else int(match[4])
        dtype = dtype_name(code, int(match[5]), int(match[6]))
        if len(shape) != int(match[3]) or len(shape) > 16 or any(s >= 1 << 31 for s in shape):
            return None
        dtype = dtype or f"{{{match[4]}, {match[5]}, {match[6]}}}"
        itemsize = np.dtype(dtype).itemsize if dtype in DTYPES else 0
        name = unescape(match[1]).decode("utf-8", "replace")
        borders.append(Border(name, dtype, prod(shape) * itemsize, tuple(shape)))
        position = match.end()
    return borders if len(borders) == int(start[1]) else None


def registry_names(text: str) -> list[str]:
    """Return the names in a function registry's string; empty if the text has no registry."""
    begin = text.find("_tvm_func_names")
    if begin < 0:
        begin = text.find("_tvm_func_registry")
    start = re.compile(r"[^\"]{0,200}").match(text, begin) if begin >= 0 else None
    if start is None:
        return []
    blob = b""
    literal = re.compile(r'\s*"((?:[^"\\\n]|\\.)*)"')
    position = start.end()
    while match := literal.match(text, position):
        blob += unescape(match[1])
        position = match.end()
    # The count has two bytes, one until TVM 0.8.
    for width in (2, 1):
        names = blob[width:].rstrip(b"\0").split(b"\0")
        if int.from_bytes(blob[:width], "little") == len(names) and all(names):
            return [name.decode("utf-8", "replace") for name in names]
    return []


_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11}


def unescape(literal: str) -> bytes:
    """Return the bytes of a C string literal's content."""

    def byte(match: re.Match[str]) -> str:
        octal, hexadecimal, other = match.groups()
        if octal:
            return chr(int(octal, 8) & 255)
        if hexadecimal:
            return chr(int(hexadecimal[-2:], 16))
        return chr(_ESCAPES[other]) if other in _ESCAPES else other

    # One character per byte, so that escapes and text can be mixed.
    latin = literal.encode("utf-8", "replace").decode("latin-1")
    plain = re.sub(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]+)|(.))", byte, latin, flags=re.DOTALL)
    return plain.encode("latin-1")
