"""Files of external modules (:mod:`hilc.external`) in a library.

A module's source becomes ``<name>_lib<N>.c``, N from 3 on: declarations and definitions of its
constants, then its own text. An object is ``<name>_lib<N>.o``, with its constants, if any, in a C
file of their own. So constants are linked into flash like all others, and need no parsing at run
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hilc.codegen.constants import SECTION
from hilc.codegen.cwriter import CONSTANT_ALIGNMENT, c_array, c_comment
from hilc.codegen.described import External
from hilc.codegen.dialects import CONVENTIONS
from hilc.codegen.names import Names
from hilc.codegen.statuses import control_of
from hilc.errors import InputError
from hilc.external import ExternalCall, ExternalModule
from hilc.ir import Array
from hilc.memory.plan import Program, Step
from hilc.ops.external import ExternalAttributes

#: Number of the first file; lower numbers are the library's own.
_FIRST = 3

_SOURCES = "codegen/host/src"
_OBJECTS = "codegen/host/lib"
_HEADERS = "codegen/host/include"

_CONSTANT = f'__attribute__((section("{SECTION}"), aligned({CONSTANT_ALIGNMENT}))) const'


def external_files(program: Program, names: Names) -> dict[str, bytes]:
    """Return the files of the external modules that ``program`` calls, by their path in the
    library.

    Raise :class:`~hilc.errors.InputError` if two modules have different files with one path.
    """
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
                        f"the external module {module.symbol!r} has a {path!r} that differs from "
                        "that of another module",
                        "rename one of the files",
                    )
        texts = [module_source(program, step, module)]
        if module.object is not None:
            files[f"{_OBJECTS}/{names.module}_lib{number}.o"] = module.object
            number += 1
            texts = [_constants_file(program, step, module)] if module.constants else []
        for text in (*texts, *module.parts):
            files[f"{_SOURCES}/{names.module}_lib{number}.c"] = text.encode()
            number += 1
    return files


def external_constants_bytes(program: Program) -> int:
    """Return the flash in bytes of the constants of external modules, each with its alignment."""
    return sum(
        constants_bytes(step.call.module)
        for step in program.steps
        if isinstance(step.call, ExternalCall)
    )


def constants_bytes(module: ExternalModule) -> int:
    """Return the flash in bytes of a module's constants, each with its alignment."""
    return module.part_bytes + sum(
        -(-array.nbytes // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        for array in module.constants.values()
    )


def describe_externals(program: Program) -> tuple[External, ...]:
    """Return the descriptions of the external modules that ``program`` calls, for the library."""
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
        control = control_of(step)
        # The functions of control flow are part of the model's own file in plain code.
        if isinstance(step.call, ExternalCall) and (control is None or not control.is_part):
            yield step, step.call.module


def module_source(program: Program, step: Step, module: ExternalModule) -> str:
    """Return the file of a module that is C text."""
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
    """Return the declaration of the module's function, without the semicolon."""
    return CONVENTIONS[ExternalAttributes.of(step.node).api].external_prototype(
        module.symbol,
        len(step.inputs),
        len(step.outputs),
        has_scratch=bool(module.scratch_bytes),
        has_device=module.device is not None,
    )
