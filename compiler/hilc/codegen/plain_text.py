"""Text of plain C code: the head of each file, macros of tensors, headers of kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hilc.codegen.banner import LICENSE_LINE
from hilc.codegen.cwriter import c_quoted
from hilc.codegen.names import Names
from hilc.ir import Tensor
from hilc.memory.plan import Program
from hilc.support.version import __version__

_MEMORY = re.compile(r"\b(memcpy|memmove|memset)\(")
_DEFINITIONS = re.compile(r"\b(NULL|size_t|offsetof|ptrdiff_t)\b")
_CALL = re.compile(r"^( *)(mem(?:cpy|move|set)\()", re.MULTILINE)
# Blocks that only the compiler reads: the properties of a kernel, with its cost.
_PROPERTIES = re.compile(r"/\*@kernel\n.*?@\*/\n", re.DOTALL)
# Paragraphs of a header's first comment on measurements and on tests of this project.
_PARAGRAPH = re.compile(r"(?:Cost|Tests|Measured)\b")


def c_headers(text: str) -> list[str]:
    """Return the headers of the C library that ``text`` needs besides ``stdint.h``."""
    found = ["stddef.h"] * bool(_DEFINITIONS.search(text))
    return found + ["string.h"] * bool(_MEMORY.search(text))


def quantization(tensor: Tensor) -> str:
    """Return the tensor's type and shape, and how its values are converted."""
    text = f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"
    if tensor.quant and tensor.quant.per_tensor:
        # repr() writes the shortest text that reads back as the same number.
        scale, zero_point = tensor.quant.scale[0], tensor.quant.zero_point[0]
        sign = "-" if zero_point >= 0 else "+"
        text += f"; real = {scale!r} * (value {sign} {abs(zero_point)})"
    return text


def tensor_macros(program: Program, names: Names) -> Iterable[str]:
    """Return the macros of each input and output: shape, sizes, scale, zero point."""
    graph = program.graph
    rows = [
        ("Input", name, name, field) for name, field in zip(graph.inputs, names.inputs, strict=True)
    ]
    rows += [
        ("Output", tensor, name, field)
        for tensor, name, field in zip(
            graph.outputs, program.output_names, names.outputs, strict=True
        )
    ]
    seen: set[str] = set()
    for kind, name, title, field in rows:
        # An input that is also an output has its macros once.
        if field in seen:
            continue
        seen.add(field)
        tensor = graph.tensors[name]
        values = {
            "NDIM": str(len(tensor.shape)),
            "SHAPE": f"{{{', '.join(map(str, tensor.shape))}}}",
            "COUNT": str(tensor.size),
            "SIZE": str(tensor.nbytes),
        }
        if not tensor.shape:
            del values["SHAPE"]
        if tensor.quant and tensor.quant.per_tensor:
            values["SCALE"] = f"{tensor.quant.scale[0]!r}f"
            values["ZERO_POINT"] = _signed(tensor.quant.zero_point[0])
        lines = "".join(f"#define {names.macro(f'{field}_{k}')} {v}\n" for k, v in values.items())
        yield (
            f'/** {kind} "{c_quoted(title)}": {quantization(tensor)}.\n'
            " * COUNT is in elements, SIZE in bytes. */\n" + lines
        )


def _signed(value: int) -> str:
    """Return an integer as a macro's text; a negative one in parentheses."""
    return f"({value})" if value < 0 else str(value)


def plain_header(data: bytes, path: str) -> bytes:
    """Return a kernels' header for plain code: with a license line and the version, and without
    what only this project reads.
    """
    text = _PROPERTIES.sub("", data.decode())
    text = text.replace("_Static_assert(", "__extension__ _Static_assert(")
    text = discard_results(text)
    if text.startswith("/*"):
        end = text.index("*/")
        text = _without_paragraphs(text[:end].rstrip()) + " */" + text[end + 2 :]
    return (f"{LICENSE_LINE}/* {path} of hil {__version__}. */\n{text}").encode()


def discard_results(text: str) -> str:
    """Return C code that says that it does not use what ``memcpy`` and its kin return."""
    return _CALL.sub(r"\1(void)\2", text)


def _without_paragraphs(comment: str) -> str:
    """Return a comment without its paragraphs on costs and tests."""
    paragraphs = comment.split("\n *\n")
    kept = [
        p for p in paragraphs if not _PARAGRAPH.match(p.removeprefix("/* ").removeprefix(" * "))
    ]
    return "\n *\n".join(kept)
