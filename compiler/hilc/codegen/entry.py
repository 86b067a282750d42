"""``<name>_lib0.c``: the library's own workspaces, its entry point, the registry of functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hilc.codegen import interface_c, interface_packed
from hilc.codegen import registry as function_registry
from hilc.codegen.cwriter import c_comment, c_includes
from hilc.codegen.main import main_prototype
from hilc.codegen.names import MODULE_CONTEXT, Names
from hilc.codegen.options import Options
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.plan import Program


def write_entry(
    program: Program, names: Names, options: Options, registry: Sequence[str] | None
) -> str:
    """``<name>_lib0.c``; ``registry`` are the functions of its registry, None for none."""
    interface = interface_c if options.interface == "c" else interface_packed
    includes = [*interface.ENTRY_INCLUDES]
    if registry is not None:
        includes += function_registry.INCLUDES
    sections = [
        c_comment(f'Entry point of the model "{program.graph.name}".')
        + c_includes(*includes, names.header),
        f"{main_prototype(program, names, options)};\n",
        *_module_context(options),
        *_pools(program, names, options),
        *interface.entry_point(program, names, options),
    ]
    if registry is not None:
        declared = {names.run, names.main if options.api == "packed" else ""}
        if options.interface == "packed":
            declared |= {names.get_metadata, names.lookup}
        others = [function for function in registry if function not in declared]
        if others:
            sections.append(function_registry.registry_declarations(others))
        sections.append(function_registry.registry_definitions(registry, weak=True))
    return "\n".join(sections)


def _module_context(options: Options) -> Iterable[str]:
    """What TVM's C++ run time looks for in a library that may call functions of other modules."""
    if options.runtime == "cpp":
        # Weak: of several models in one library the run time sets one.
        yield (
            f"/* TVM's run time writes here by which handle it knows this library. */\n"
            f"extern void *{MODULE_CONTEXT};\n"
            f"__attribute__((weak))\nvoid *{MODULE_CONTEXT} = NULL;\n"
        )


def _pools(program: Program, names: Names, options: Options) -> Iterable[str]:
    """The workspaces that are static arrays, each in the section of its memory region."""
    if options.pools != "internal":
        return
    for index, pool in enumerate(program.pools):
        if pool.nbytes:
            section = f".bss.noinit.tvm{f'.{pool.region}' if pool.region else ''}"
            array = f"{names.pool_object(index)}[{pool.nbytes}]"
            # Global, so that a debugger and the test harness find it.
            yield (
                f'__attribute__((section("{section}"), aligned({ALIGNMENT})))\nuint8_t {array};\n'
            )
