"""Calls in generated functions: guards that are opened before and closed after, and status
checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hilc.codegen.cwriter import c_wrapped
from hilc.external import Device

_INDENT = " " * 4


@dataclass(frozen=True)
class Guard:
    """Resource that is opened before a call and closed after it, also on failure."""

    #: C condition that is true if it was opened.
    opened: str
    #: C call that closes it and returns 0 on success.
    close: str


def guarded_call(callee: str, arguments: Sequence[str], guards: Sequence[Guard]) -> str:
    """Return statements that call a function inside of ``guards`` and return 0 on success of
    all.
    """
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
    """Return statements that call a function, and return -1 if it fails."""
    call = c_wrapped(f"    if ({function}(", arguments, ") != 0) {\n")
    return f"{call}        return -1;\n    }}\n"


def passing_call(function: str, arguments: Sequence[str], indent: str = _INDENT) -> str:
    """Return statements that call a function, and return its status if it fails."""
    call = c_wrapped(f"{indent}    const int32_t status = {function}(", arguments, ");\n")
    return (
        f"{indent}{{\n{call}{indent}    if (status != 0) {{\n"
        f"{indent}        return status;\n{indent}    }}\n{indent}}}\n"
    )


def device_hooks(device: Device, *hooks: str) -> str:
    """Return declarations of the device driver's functions."""
    return "".join(f"int32_t {device.hook(hook)}(void *context);\n" for hook in hooks)


def device_guard(device: Device, opening: str, closing: str, context: str) -> Guard:
    """Return the guard that calls the device's driver before and after."""
    return Guard(f"{device.hook(opening)}({context}) == 0", f"{device.hook(closing)}({context})")
