"""Options of the generated code, checked before compilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hilc.errors import InputError
from hilc.plugins import Slot
from hilc.support.arguments import check_fields

#: Values of each option.
CHOICES = {
    "optimize": ("balanced", "speed", "size", "ram"),
    "codegen": ("c", "llvm"),
    "api": ("unpacked", "packed"),
    "interface": ("c", "packed"),
    "runtime": ("crt", "cpp"),
    "pools": ("internal", "external", "calls"),
    "constants": ("internal", "external"),
    "feed": ("whole", "rows"),
}


#: Checks of combinations, with the messages of the part that defines the values.
_SLOT: Slot[Callable[[Options], None]] = Slot()
provide_option_check = _SLOT.fill


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the code is shaped; the words are those of the command line."""

    #: What matters: `speed` takes the fewest instructions; `balanced` at most 30 % more than the
    #: fastest program of usual flash, for much less memory; `ram` the least memory within reason;
    #: `size` the least flash. `size` shares one body between all layers of a kernel, `balanced` and
    #: `ram` between equal ones.
    optimize: str = "balanced"
    #: `c`: C sources; `llvm`: objects, made by clang for the core.
    codegen: str = "c"
    #: How operators are called: `unpacked` with plain pointers, `packed` with TVM's packed calling
    #: convention.
    api: str = "unpacked"
    #: How the model is called: `c` through structs of pointers, `packed` through the packed
    #: convention, with TVM's metadata.
    interface: str = "c"
    #: `internal`: the workspaces are static arrays of the library; `external`: the caller hands
    #: them over with each run; `calls`: the code asks `TVMBackendAllocWorkspace`. States have a
    #: pool beside them, which with `calls` is a static array.
    pools: str = "internal"
    #: Place inputs and outputs in the workspace, where map functions find them.
    io_in_pool: bool = False
    #: `crt`: TVM's C runtime or none; `cpp`: TVM's C++ runtime, which finds the module by the
    #: unmangled names. Its AOT executor calls the main itself, so it needs `pools=calls`, or pools
    #: and constants that are both external.
    runtime: str = "crt"
    #: `internal`: in flash, section `.rodata.tvm`; `external`: the caller hands them over.
    constants: str = "internal"
    #: `whole`: the input lies in memory when a run starts; `rows`: the caller brings its rows a few
    #: at a time, and the first layers take them in as they come.
    feed: str = "whole"
    #: Define `TVMSystemLibEntryPoint` with a registry of the packed functions; None: where the
    #: interface is packed.
    system_lib: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.runtime == "cpp":
            _SLOT.get("runtime=cpp", "or use runtime=crt")(self)
        elif (check := _SLOT.found()) is not None:
            check(self)
        for option, available in CHOICES.items():
            value = getattr(self, option)
            if value not in available:
                raise InputError(
                    f"{option}={value} is not available", f"choose {' or '.join(available)}"
                )
        if self.feed == "rows":
            for option, needed in (("interface", "c"), ("api", "unpacked"), ("runtime", "crt")):
                if (value := getattr(self, option)) != needed:
                    raise InputError(
                        f"rows cannot be fed with {option}={value}",
                        f"use {option}={needed}, or give the input as a whole: feed=whole",
                    )
            if self.pools == "calls":
                raise InputError(
                    "rows cannot be fed to a workspace that exists only during a run (pools=calls)",
                    "use pools=internal or pools=external, or give the input as a whole: "
                    "feed=whole",
                )
        if self.io_in_pool and self.pools == "calls":
            raise InputError(
                "inputs and outputs cannot be in a workspace that exists only during a run "
                "(pools=calls)",
                "use pools=internal or pools=external, or keep inputs and outputs in the "
                "caller's buffers",
            )

    @property
    def with_registry(self) -> bool:
        """Whether the library defines ``TVMSystemLibEntryPoint``."""
        return self.interface == "packed" if self.system_lib is None else self.system_lib
