"""TVM's C runtime on the firmware's ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hil.compat.tvm.glue import RuntimeGlue, most_arguments
from hil.firmware.glue import is_packed, model_key
from hil.firmware.runtime import FirmwareRuntime
from hilc.artifact.library import Module
from hilc.compat.tvm.crt import crt_files, crt_sources
from hilc.compat.tvm.system_lib import ENTRY_POINT, system_lib_source

#: Sources that connect it to the ports, and calls by name to the protocol.
CRT = Path(__file__).resolve().parent / "crt"

#: Any packed function accepts at least this many arguments over the link.
_CALL_ARGUMENTS = 16


class TvmFirmware(FirmwareRuntime):
    """TVM's C run time (crt) as a part of the firmware."""

    glue = RuntimeGlue
    includes = ("crt", "runtime/include")
    header = "hil_crt.h"

    def files(self) -> Mapping[str, bytes]:
        """Return the sources and headers of the run time by their path in a project."""
        own = {f"crt/{path.name}": path.read_bytes() for path in sorted(CRT.glob("*.[ch]"))}
        return own | {f"runtime/{path}": data for path, data in crt_files().items()}

    def sources(self, modules: Sequence[Module]) -> Sequence[str]:
        """Return the C files to compile; those of packed functions if a model has any."""
        sources = ["crt/platform.c", "crt/format.c"]
        sources += [f"runtime/{path}" for path in crt_sources()]
        if any(map(is_packed, modules)):
            sources += ["crt/rpc_packed.c", "generated/system_lib.c"]
        return sources

    def generated(self, modules: Sequence[Module]) -> Mapping[str, str]:
        """Return the system library's source; nothing without packed functions."""
        if not any(map(is_packed, modules)):
            return {}
        functions = [name for module in modules for name in module.functions]
        return {"generated/system_lib.c": system_lib_source(functions, weak=False)}

    def macros(self, modules: Sequence[Module]) -> Mapping[str, int]:
        """Return the macros of packed functions: that there are any, and the most arguments."""
        if not any(map(is_packed, modules)):
            return {}
        most = max(_CALL_ARGUMENTS, *map(most_arguments, modules))
        return {"HIL_HAS_PACKED": 1, "HIL_CALL_ARGUMENTS_MAX": most}

    def tables(self, modules: Sequence[Module]) -> str:
        """Return the C table of the packed models; empty without packed functions."""
        if not any(map(is_packed, modules)):
            return ""
        names = [f"hil_packed_model_{model_key(m)}" if is_packed(m) else "" for m in modules]
        declarations = "".join(f"extern const struct hil_packed_model {n};\n" for n in names if n)
        entries = ", ".join(f"&{name}" if name else "0" for name in names)
        return (
            f'\n#include "hil_packed.h"\n\n{declarations}\n'
            f"const struct hil_packed_model *const hil_packed_models[] = {{{entries}}};\n"
        )

    def entry_point(self) -> str:
        """Return the name of the function by which TVM's run time finds a library's functions."""
        return ENTRY_POINT
