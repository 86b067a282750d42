"""Constants that several models of plain C code have in common, which are linked once.

Each model is compiled alone. Where libraries are merged, an array that is in several of them is
defined by the first one and declared in ``<first>.shared.h``; the others refer to it. Two
signatures of one model, or models with a common part, so have their common weights once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hilc.artifact.manifest import Module
from hilc.codegen.banner import banner
from hilc.codegen.cwriter import CONSTANT
from hilc.target import get_cpu

_FOLDER = "codegen/host"
_STATIC = "static "
# What hilc.codegen.cwriter.c_array() writes.
_ARRAY = re.compile(
    rf"^{re.escape(CONSTANT)} (?P<type>\w+) (?P<name>\w+)\[(?P<count>\d+)\] = "
    r"(?P<values>\{\n[^{};]*\};\n)\n?",
    re.MULTILINE,
)


@dataclass(frozen=True)
class _Array:
    module: Module
    name: str
    declaration: str


def share_constants(modules: Sequence[Module], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a merged library, with each array that models of plain C code have in
    common in one of them only.
    """
    texts: dict[str, str] = {}
    owners: dict[str, Module] = {}
    found: dict[tuple[str, str], list[_Array]] = defaultdict(list)
    for module in modules:
        path = f"{_FOLDER}/src/{module.name}.c"
        if module.style == "plain" and path in files:
            texts[module.name] = files[path].decode()
            for match in _ARRAY.finditer(texts[module.name]):
                declaration = f"{match['type']} {match['name']}[{match['count']}]"
                array = _Array(module, match["name"], declaration)
                found[match["type"], match["values"]].append(array)
    shared: dict[str, list[_Array]] = defaultdict(list)
    for arrays in found.values():
        first = arrays[0]
        others = [array for array in arrays[1:] if array.module is not first.module]
        if not others:
            continue
        owners[first.module.name] = first.module
        shared[first.module.name].append(first)
        for array in others:
            texts[array.module.name] = _refer(texts[array.module.name], array, first)
    changed = dict(files)
    for name, arrays in shared.items():
        text = texts[name]
        for array in arrays:
            text = text.replace(
                f"{CONSTANT} {array.declaration}",
                f"{CONSTANT.removeprefix(_STATIC)} {array.declaration}",
            )
        texts[name] = _including(text, owners[name], owners[name])
        changed[f"{_FOLDER}/include/{_name(owners[name])}"] = _header(owners[name], arrays).encode()
    for name, text in texts.items():
        changed[f"{_FOLDER}/src/{name}.c"] = text.encode()
    return changed


def _refer(text: str, array: _Array, first: _Array) -> str:
    """Return the file of a model that uses the array of another one in place of its own."""
    for match in _ARRAY.finditer(text):
        if match["name"] == array.name:
            text = text[: match.start()] + text[match.end() :]
            break
    text = re.sub(rf"\b{array.name}\b", first.name, text)
    return _including(text, array.module, first.module)


def _including(text: str, module: Module, owner: Module) -> str:
    """Return the text with the header of an owner's arrays, once."""
    line = f'#include "{_name(owner)}"\n'
    own = f'#include "{module.symbol}.h"\n'
    return text if line in text else text.replace(own, f"{own}{line}", 1)


def _name(owner: Module) -> str:
    # No model's header has a second dot in its name.
    return f"{owner.name}.shared.h"


def _header(owner: Module, arrays: Sequence[_Array]) -> str:
    guard = f"{owner.symbol}_H_SHARED".upper()
    title = f'Constants of the neural network "{owner.name}" that another one reads too.'
    lines = "".join(f"extern const {array.declaration};\n" for array in arrays)
    return (
        f"{banner(title, get_cpu(owner.cpu))}#ifndef {guard}\n#define {guard}\n\n"
        f"#include <stdint.h>\n\n{lines}\n#endif /* {guard} */\n"
    )
