"""Files of the C runtime: for archives, firmware projects and builds for this computer.

It implements ``c_backend_api.h`` and the rest of microTVM's C interfaces, in C11. Functions that a
program does not call are not linked (``-ffunction-sections`` and ``--gc-sections``), except that
``TVMInitializeRuntime`` needs ``TVMSystemLibEntryPoint``, which a library with packed functions
defines and :func:`hilc.compat.tvm.system_lib.system_lib_source` creates for any image.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from hilc.artifact.shipped import ShippedRuntime

_FOLDER = Path(__file__).resolve().parent / "runtime"
#: TVM's and DLPack's headers, as implemented by this runtime.
INCLUDE = _FOLDER / "include"
#: Sources, and other files in archives.
CRT = _FOLDER / "crt"

# Last version of TVM with the interfaces that this runtime implements.
_VERSION = "0.19.0"


def crt_files() -> dict[str, bytes]:
    """Return all files below an archive's ``runtime`` folder: ``include``, ``src``,
    ``CMakeLists.txt``.

    The layout is that of TVM's archives, so Makefiles for those work. The folder is complete: CMake
    builds it into a static library.
    """
    headers = [*_below(INCLUDE / "dlpack"), *_below(INCLUDE / "tvm"), INCLUDE / "hil/tvm_tensor.h"]
    files = {f"include/{path.relative_to(INCLUDE).as_posix()}": path for path in headers}
    files |= {
        f"src/runtime/crt/{path.relative_to(CRT).as_posix()}": path
        for path in _below(CRT)
        if path.suffix in (".c", ".h") and path.parent != CRT / "host"
    }
    files["CMakeLists.txt"] = CRT / "CMakeLists.txt"
    return {name: files[name].read_bytes() for name in sorted(files)}


def crt_sources() -> tuple[str, ...]:
    """Return the C sources among :func:`crt_files`, sorted."""
    return tuple(name for name in crt_files() if name.endswith(".c"))


def template_files() -> dict[str, bytes]:
    """Return the files of an archive's ``templates`` folder: templates of the firmware's own
    files.
    """
    return {
        name: (CRT / name).read_bytes() for name in ("crt_config.h.template", "platform.c.template")
    }


@cache
def _archive_files() -> Mapping[str, bytes]:
    files = {f"runtime/{path}": data for path, data in crt_files().items()}
    return files | {f"templates/{path}": data for path, data in template_files().items()}


class ShippedCrt(ShippedRuntime):
    """TVM's standalone C runtime, as archives include it."""

    folders = ("runtime/", "templates/")
    dependency = {
        "short_name": "tvm_standalone_crt",
        "url": "./runtime",
        "url_type": "mlf_path",
        "version_spec": _VERSION,
    }

    def files(self) -> Mapping[str, bytes]:
        """Return the runtime's files by their path in the archive."""
        return _archive_files()


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
