"""Calls in generated functions: what has to be opened before one, what follows from its status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.codegen.cwriter import c_wrapped
from hilc.external import Device

_INDENT = " " * 4


@dataclass(frozen=True)
class Guard:
    """Something that has to be opened before a call, and is closed after it however that ended."""

    #: C condition that it could be opened.
    opened: str
    #: C call that closes it and returns 0 where it could.
    close: str


def guarded_call(callee: str, arguments: Sequence[str], guards: Sequence[Guard]) -> str:
    """Statements that call a function inside of ``guards`` and return 0 if everything did."""
    if not guards:
        return c_wrapped(f"    return {callee}(", arguments, ");\n")
    call = _nested(callee, arguments, guards, _INDENT)
    return f"    int32_t status = -1;\n{call}    return status;\n"


def _nested(callee: str, arguments: Sequence[str], guards: Sequence[Guard], indent: str) -> str:
    if not guards:
        return c_wrapped(f"{indent}status = {callee}(", arguments, ");\n")
    guard = guards[0]
    return (
        f"{indent}if ({guard.opened}) {{\n"
        f"{_nested(callee, arguments, guards[1:], indent + _INDENT)}"
        f"{indent}    if ({guard.close} != 0) {{\n"
        f"{indent}        status = -1;\n{indent}    }}\n{indent}}}\n"
    )


def checked_call(function: str, arguments: Sequence[str]) -> str:
    """Statements that call a function, and return -1 where it fails."""
    call = c_wrapped(f"    if ({function}(", arguments, ") != 0) {\n")
    return f"{call}        return -1;\n    }}\n"


def device_hooks(device: Device, *hooks: str) -> str:
    """Declarations of what the device's driver provides."""
    return "".join(f"int32_t {device.hook(hook)}(void *context);\n" for hook in hooks)


def device_guard(device: Device, opening: str, closing: str, context: str) -> Guard:
    """A call of the device's driver before, and one after."""
    return Guard(f"{device.hook(opening)}({context}) == 0", f"{device.hook(closing)}({context})")
