"""Implementations of the values of ``api`` and ``interface``: those of C, and those of plugins."""

from __future__ import annotations

from hilc.codegen.allocator import allocator
from hilc.codegen.convention import Convention
from hilc.codegen.function_table import function_table
from hilc.codegen.interface import Interface
from hilc.codegen.interface_c import CInterface
from hilc.codegen.options import Options
from hilc.codegen.plain import Plain, PlainInterface
from hilc.codegen.unpacked import Unpacked
from hilc.plugins import Registry

CONVENTIONS: Registry[Convention] = Registry("api", {"unpacked": Unpacked(), "plain": Plain()})
INTERFACES: Registry[Interface] = Registry(
    "interface", {"c": CInterface(), "plain": PlainInterface()}
)


def require_installed(options: Options) -> None:
    """Raise for options that need an optional part that is not installed."""
    _ = CONVENTIONS[options.convention], INTERFACES[options.entry]
    if options.pools == "calls":
        allocator()
    if options.with_registry:
        function_table()
