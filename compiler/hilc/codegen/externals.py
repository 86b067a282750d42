"""The files of external modules (:mod:`hilc.external`) in a library.

A module's source becomes ``<name>_lib<N>.c``, N from 3 on: what it may rely on is declared and its
constants are defined in front of its own text. An object is ``<name>_lib<N>.o``; its constants, if
it has some, are a C file of their own. So constants are linked like all others, in flash, and
nothing has to parse them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hilc.codegen.constants import SECTION
from hilc.codegen.cwriter import CONSTANT_ALIGNMENT, c_array, c_comment
from hilc.codegen.dialects import CONVENTIONS
from hilc.codegen.names import Names
from hilc.errors import InputError
from hilc.external import ExternalCall, ExternalModule
from hilc.ir import Array
from hilc.memory.plan import Program, Step
from hilc.ops.external import ExternalAttributes

#: Number of the first file: those before are the library's own.
_FIRST = 3

_SOURCES = "codegen/host/src"
_OBJECTS = "codegen/host/lib"
_HEADERS = "codegen/host/include"

_CONSTANT = f'__attribute__((section("{SECTION}"), aligned({CONSTANT_ALIGNMENT}))) const'


@dataclass(frozen=True)
class External:
    """Code of a user's generator (:mod:`hilc.external`) that a layer calls."""

    #: Index of the layer.
    layer: int
    #: The generator's function, which the layer's function calls.
    function: str
    generator: str
    #: The field of :attr:`Module.devices` on which it runs, and the program that must be loaded
    #: there; "" for none.
    device: str
    program: str
    #: Every global C name that the generator's files for this layer define, sorted.
    symbols: tuple[str, ...]


def external_files(program: Program, names: Names) -> dict[str, bytes]:
    """The files of the external modules that ``program`` calls, by their path in the library."""
    files: dict[str, bytes] = {}
    number = _FIRST
    for step, module in _modules(program):
        for folder, contents in (
            (_HEADERS, {path: text.encode() for path, text in module.headers.items()}),
            (_OBJECTS, module.shared_objects),
        ):
            for path, data in contents.items():
                if files.setdefault(f"{folder}/{path}", data) != data:
                    raise InputError(
                        f"the external module {module.symbol!r} brings another {path!r} than a "
                        "module before it",
                        "give files of different contents different names",
                    )
        texts = [_source(program, step, module)]
        if module.object is not None:
            files[f"{_OBJECTS}/{names.module}_lib{number}.o"] = module.object
            number += 1
            texts = [_constants_file(program, step, module)] if module.constants else []
        for text in texts:
            files[f"{_SOURCES}/{names.module}_lib{number}.c"] = text.encode()
            number += 1
    return files


def external_constants_bytes(program: Program) -> int:
    """Flash that the constants of external modules take, each aligned as it is linked."""
    return sum(
        -(-array.nbytes // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        for _, module in _modules(program)
        for array in module.constants.values()
    )


def describe_externals(program: Program) -> tuple[External, ...]:
    """What the library says about the external modules that ``program`` calls."""
    described = []
    for index, step in enumerate(program.steps):
        if isinstance(step.call, ExternalCall):
            module = step.call.module
            device = module.device
            described.append(
                External(
                    layer=index,
                    function=module.symbol,
                    generator=ExternalAttributes.of(step.node).generator,
                    device=device.field if device else "",
                    program=device.program if device else "",
                    symbols=tuple(sorted(module.global_names)),
                )
            )
    return tuple(described)


def _modules(program: Program) -> Iterable[tuple[Step, ExternalModule]]:
    for step in program.steps:
        if isinstance(step.call, ExternalCall):
            yield step, step.call.module


def _source(program: Program, step: Step, module: ExternalModule) -> str:
    """The file of a module that is C text."""
    include = CONVENTIONS[ExternalAttributes.of(step.node).api].external_include
    parts = [
        f"{_title(program, step, module)}#include <stdint.h>\n\n{include}"
        f"{_prototype(step, module)};\n",
        *_definitions(module.constants),
        module.source or "",
    ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _constants_file(program: Program, step: Step, module: ExternalModule) -> str:
    parts = [
        f"{_title(program, step, module)}#include <stdint.h>\n",
        *_definitions(module.constants),
    ]
    return "\n".join(parts)


def _definitions(constants: Mapping[str, Array]) -> Iterable[str]:
    for name, array in constants.items():
        yield c_array(name, array, _CONSTANT)


def _title(program: Program, step: Step, module: ExternalModule) -> str:
    attributes = ExternalAttributes.of(step.node)
    operators = ", ".join(f"{node.op} (operator {node.index})" for node in attributes.graph.nodes)
    runs = []
    if module.device is not None:
        runs.append(f"Runs on the device {module.device.field}")
        if module.device.program:
            runs[0] += f" with the program {module.device.program}"
        runs[0] += "."
    return c_comment(
        f'Part of "{program.graph.name}" by the code generator "{attributes.generator}": '
        f"{operators}.",
        *runs,
    )


def _prototype(step: Step, module: ExternalModule) -> str:
    """How the compiler calls the module's function, without the semicolon."""
    return CONVENTIONS[ExternalAttributes.of(step.node).api].external_prototype(
        module.symbol,
        len(step.inputs),
        len(step.outputs),
        has_scratch=bool(module.scratch_bytes),
        has_device=module.device is not None,
    )
