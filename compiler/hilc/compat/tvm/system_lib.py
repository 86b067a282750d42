"""Table by which TVM's C runtime finds the packed functions of an image by name.

An image has one table: a library's own is weak, so that an image of several models can link a
strong one with the functions of all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilc.codegen.cwriter import c_comment, c_includes
from hilc.codegen.function_table import FunctionTable
from hilc.compat.tvm.convention import packed_prototype
from hilc.errors import InputError

#: Function that returns the table to the runtime.
ENTRY_POINT = "TVMSystemLibEntryPoint"

# A function's handle has its index in 15 bits: the 16th marks it as valid.
_MAX_FUNCTIONS = 0x7FFF

#: Headers that the definitions need.
INCLUDES = ("tvm/runtime/c_backend_api.h", "tvm/runtime/crt/module.h")


def registry_names_blob(functions: Sequence[str]) -> bytes:
    """Return the table's names in their binary form.

    A count of 16 bits, little-endian; each name with its NUL, in the order of the functions; an
    empty name at the end.

    Raise :class:`~hilc.errors.InputError` for too many functions, a repeated name, or one that is
    no C identifier.
    """
    if len(functions) > _MAX_FUNCTIONS:
        raise InputError(
            f"{len(functions)} packed functions are too many for a function registry, "
            f"which has at most {_MAX_FUNCTIONS}",
            "split the image, or use api=unpacked for some models",
        )
    repeated = sorted({name for name in functions if functions.count(name) > 1})
    if repeated:
        raise InputError(
            f"the function {repeated[0]!r} would be registered twice",
            "give one of the models another name: NAME=path",
        )
    for name in functions:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InputError(f"the packed function {name!r} is not a C identifier")
    names = b"".join(name.encode() + b"\0" for name in functions)
    return len(functions).to_bytes(2, "little") + names + b"\0"


def registry_declarations(functions: Sequence[str]) -> str:
    """Return C declarations of the packed functions."""
    return "".join(f"{packed_prototype(name, 'extern ')};\n" for name in functions)


def registry_definitions(functions: Sequence[str], weak: bool) -> str:
    """Return C that defines the table and its entry point; the functions are declared before."""
    parts = [_names(functions), _array(functions), _entry_point(functions, weak)]
    return "\n".join(part for part in parts if part)


def system_lib_source(functions: Sequence[str], weak: bool) -> str:
    """Return a C file with the registry of ``functions``, all of them packed, and its entry
    point.
    """
    return "\n".join(
        [
            c_comment("The packed functions of this image by name, for TVM's C runtime.")
            + c_includes("stddef.h", "stdint.h", *INCLUDES),
            *([registry_declarations(functions)] if functions else []),
            registry_definitions(functions, weak),
        ]
    )


def _names(functions: Sequence[str]) -> str:
    blob = registry_names_blob(functions)
    # Always three octal digits: a digit that follows would become part of the escape. The literal's
    # own NUL is the empty name at the end.
    lines = ["".join(f"\\{byte:03o}" for byte in blob[:2])]
    lines += [f"{name}\\000" for name in functions]
    text = "\n".join(f'    "{line}"' for line in lines)
    return (
        "/* The number of functions in two bytes, then their names. */\n"
        f"static const char _tvm_func_names[] =\n{text};\n"
    )


def _array(functions: Sequence[str]) -> str:
    if not functions:
        return ""  # C has no empty array
    entries = "".join(f"    (TVMBackendPackedCFunc){name},\n" for name in functions)
    return f"static const TVMBackendPackedCFunc _tvm_func_array[] = {{\n{entries}}};\n"


def _entry_point(functions: Sequence[str], weak: bool) -> str:
    attribute = "__attribute__((weak))\n" if weak else ""
    array = "_tvm_func_array" if functions else "NULL"
    return (
        f"static const TVMFuncRegistry _tvm_func_registry = {{_tvm_func_names, {array}}};\n\n"
        "static const TVMModule _tvm_system_lib = {&_tvm_func_registry};\n\n"
        f"{attribute}const TVMModule *{ENTRY_POINT}(void) {{\n    return &_tvm_system_lib;\n}}\n"
    )


def registry_module(functions: Sequence[str], name: str) -> str:
    """Return the LLVM module called ``name`` with the registry of ``functions`` and its entry
    point.

    The same data as in the C of :func:`system_lib_source`.
    """
    blob = registry_names_blob(functions)
    array = f"[{len(functions)} x ptr]"
    addresses = ", ".join(f"ptr @{function}" for function in functions)
    lines = [
        f'source_filename = "{name}"',
        "",
        "%TVMFuncRegistry = type { ptr, ptr }",
        "%TVMModule = type { ptr }",
        "",
        *(f"declare i32 @{function}(ptr, ptr, i32, ptr, ptr, ptr)" for function in functions),
        "",
        f'@_tvm_func_names = internal constant [{len(blob)} x i8] c"{_escaped(blob)}", align 1',
        f"@_tvm_func_array = internal constant {array} [{addresses}]",
        "@_tvm_func_registry = internal constant %TVMFuncRegistry "
        "{ ptr @_tvm_func_names, ptr @_tvm_func_array }",
        "@_tvm_system_lib = internal constant %TVMModule { ptr @_tvm_func_registry }",
        "",
        # Nothing unwinds through it; Arm's tables would need the C++ personality otherwise.
        "define weak ptr @TVMSystemLibEntryPoint() nounwind {",
        "  ret ptr @_tvm_system_lib",
        "}",
        "",
    ]
    return "\n".join(lines) + "\n"


def _escaped(blob: bytes) -> str:
    """Return the bytes as an LLVM string: characters other than letters, digits and ``_`` in
    hexadecimal.
    """
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 or byte == ord("_") else f"\\{byte:02X}"
        for byte in blob
    )


class SystemLib(FunctionTable):
    """Function table ``TVMSystemLibEntryPoint``."""

    entry_point = ENTRY_POINT
    includes = INCLUDES

    def declarations(self, functions: Sequence[str]) -> str:
        """Return the C declarations of the functions."""
        return registry_declarations(functions)

    def definitions(self, functions: Sequence[str], weak: bool) -> str:
        """Return the C definitions of the registry and its entry point."""
        return registry_definitions(functions, weak)

    def source(self, functions: Sequence[str], weak: bool) -> str:
        """Return a C file with the registry and its entry point."""
        return system_lib_source(functions, weak)

    def llvm_module(self, functions: Sequence[str], name: str) -> str:
        """Return the registry as an LLVM module called ``name``, with weak symbols."""
        return registry_module(functions, name)
