"""``<name>_lib0.c``: the library's own pools, its entry points, the table of functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hilc.codegen.arguments import feed_arguments, main_arguments
from hilc.codegen.cwriter import c_comment, c_includes
from hilc.codegen.dialects import CONVENTIONS, INTERFACES
from hilc.codegen.function_table import function_table
from hilc.codegen.fused import FEED
from hilc.codegen.names import Names
from hilc.codegen.operators import feed_prototype
from hilc.codegen.options import Options
from hilc.codegen.states import reset_values
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.plan import Program


def write_entry(
    program: Program, names: Names, options: Options, table: Sequence[str] | None
) -> str:
    """Return ``<name>_lib0.c``; ``table`` are the functions of its table by name, None for no
    table.
    """
    interface = INTERFACES[options.entry]
    main = CONVENTIONS[options.api].main_prototype(names.main, main_arguments(program, options))
    includes = [*interface.entry_includes]
    if program.graph.states or program.feed is not None:
        includes.append("string.h")
    if program.feed is not None:
        includes.append(FEED)
    if table is not None:
        includes += function_table().includes
    sections = [
        c_comment(f'Entry point of the model "{program.graph.name}".')
        + c_includes(*includes, names.header),
        f"{main};\n",
        *_feed(program, names, options),
        *interface.entry_globals(options),
        *_pools(program, names, options),
        *reset_values(program, names),
        *interface.entry_point(program, names, options),
    ]
    if table is not None:
        declared = {names.main, *interface.declared(names)}
        others = [function for function in table if function not in declared]
        if others:
            sections.append(function_table().declarations(others))
        sections.append(function_table().definitions(table, weak=True))
    return "\n".join(sections)


def _feed(program: Program, names: Names, options: Options) -> Iterable[str]:
    """Return the declaration of the function that computes on rows."""
    if program.feed is not None:
        yield f"{feed_prototype(names, feed_arguments(program, options))};\n"


def _pools(program: Program, names: Names, options: Options) -> Iterable[str]:
    """Return the pools that are static arrays, each in the section of its memory region."""
    for index, pool in enumerate(program.pools):
        if pool.is_static(options.pools) and pool.nbytes:
            section = f".bss.noinit.tvm{f'.{pool.region}' if pool.region else ''}"
            array = f"{names.pool_object(index)}[{pool.nbytes}]"
            # Global, so that a debugger and the test harness find it.
            yield (
                f'__attribute__((section("{section}"), aligned({ALIGNMENT})))\nuint8_t {array};\n'
            )
