"""What a caller may ask of the generated code, checked before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from hilc.errors import InputError

#: The values that each option takes.
CHOICES = {
    "optimize": ("balanced", "speed", "size"),
    "codegen": ("c", "llvm"),
    "api": ("unpacked", "packed"),
    "interface": ("c", "packed"),
    "runtime": ("crt", "cpp"),
    "pools": ("internal", "external", "calls"),
    "constants": ("internal", "external"),
}


@dataclass(frozen=True)
class Options:
    """How the code is shaped; the words are those of the command line.

    ``optimize``
        ``size`` shares one body between all layers of a kernel; the others specialise each layer.
    ``codegen``
        ``c``: C sources; ``llvm``: objects, made by clang for the core.
    ``api``
        How operators are called: ``unpacked`` with plain pointers, ``packed`` with TVM's packed
        calling convention.
    ``interface``
        How the model is called: ``c`` through structs of pointers, ``packed`` through the packed
        convention, with TVM's metadata.
    ``runtime``
        ``crt``: TVM's C runtime or none; ``cpp``: TVM's C++ runtime, which loads the module by its
        unmangled names.
    ``pools``
        ``internal``: the workspaces are static arrays of the library; ``external``: the caller
        hands them over with each run; ``calls``: the code asks ``TVMBackendAllocWorkspace``.
    ``constants``
        ``internal``: in flash, section ``.rodata.tvm``; ``external``: the caller hands them over.
    ``io_in_pool``
        Inputs and outputs lie in the workspace, where map functions find them.
    ``system_lib``
        Define ``TVMSystemLibEntryPoint`` with a registry of the packed functions; None: where the
        interface is packed.
    """

    optimize: str = "balanced"
    codegen: str = "c"
    api: str = "unpacked"
    interface: str = "c"
    pools: str = "internal"
    io_in_pool: bool = False
    runtime: str = "crt"
    constants: str = "internal"
    system_lib: bool | None = None

    def __post_init__(self) -> None:
        if self.interface == "c" and self.api == "packed":
            # The sentence of TVM's own check, which scripts may look for.
            raise InputError(
                'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) '
                "when targeting c runtime",
                "use api=unpacked with interface=c",
            )
        for option, available in CHOICES.items():
            value = getattr(self, option)
            if value not in available:
                raise InputError(
                    f"{option}={value} is not available", f"choose {' or '.join(available)}"
                )
