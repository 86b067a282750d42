"""The C run time as files: for archives, firmware projects and builds for this computer.

The functions of ``c_backend_api.h`` and the rest of microTVM's C interfaces, in C11. What a program
does not call is not linked (``-ffunction-sections`` and ``--gc-sections``), except that
``TVMInitializeRuntime`` needs ``TVMSystemLibEntryPoint``, which a library with packed functions
defines and ``hilc.codegen.registry.system_lib_source`` makes for any image.
"""

from __future__ import annotations

from pathlib import Path

from hilc.support.resources import data_dir


def crt_files() -> dict[str, bytes]:
    """All files below an archive's ``runtime`` folder: ``include``, ``src``, ``CMakeLists.txt``.

    They lie where TVM's archives have them, so a Makefile for those finds them. The folder is
    complete: CMake builds it into a static library as it is.
    """
    include, crt = data_dir("runtime") / "include", data_dir("runtime") / "crt"
    headers = [*_below(include / "dlpack"), *_below(include / "tvm"), include / "hil/tvm_tensor.h"]
    files = {f"include/{path.relative_to(include).as_posix()}": path for path in headers}
    files |= {
        f"src/runtime/crt/{path.relative_to(crt).as_posix()}": path
        for path in _below(crt)
        if path.suffix in (".c", ".h") and path.parent != crt / "host"
    }
    files["CMakeLists.txt"] = crt / "CMakeLists.txt"
    return {name: files[name].read_bytes() for name in sorted(files)}


def crt_sources() -> tuple[str, ...]:
    """The C sources among :func:`crt_files`, sorted."""
    return tuple(name for name in crt_files() if name.endswith(".c"))


def template_files() -> dict[str, bytes]:
    """What an archive's ``templates`` folder holds: starts for the firmware's own files."""
    crt = data_dir("runtime") / "crt"
    return {
        name: (crt / name).read_bytes() for name in ("crt_config.h.template", "platform.c.template")
    }


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
