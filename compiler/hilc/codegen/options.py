"""Options of the generated code, checked before compilation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hilc.errors import InputError
from hilc.plugins import Slot
from hilc.support.option import check_choices, option, options_of

#: Checks of combinations, with the messages of the part that defines the values.
_SLOT: Slot[Callable[[Options], None]] = Slot()
provide_option_check = _SLOT.fill


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of code generation; the words are those of the command line."""

    optimize: str = option(
        "balanced",
        choices=("balanced", "speed", "size", "ram"),
        form="word",
        help="the goal, by estimated instructions: speed takes the fewest; balanced up to 30 % "
        "more, to save memory and flash; ram up to 80 % more, to save memory; size up to twice as "
        "many, to save flash",
    )
    codegen: str = option(
        "c",
        choices=("c", "llvm"),
        form="word",
        help="output of the compiler: C sources, or objects that clang makes for the core (llvm)",
    )
    api: str = option(
        "unpacked",
        choices=("unpacked", "packed"),
        form="word",
        help="calling convention of operators: plain pointers, or TVM's packed arguments",
    )
    interface: str = option(
        "c",
        choices=("c", "packed"),
        form="word",
        help="entry points: structs of pointers, or TVM's packed convention with its metadata",
    )
    style: str = option(
        "tvm",
        choices=("tvm", "plain"),
        form="word",
        help="the C code: tvm with microTVM's names, structs and run time; plain with the model's "
        "name as prefix, typed parameters and no run time, in C99 for your own firmware",
    )
    runtime: str = option(
        "crt",
        choices=("crt", "cpp"),
        form="word",
        help="TVM runtime that calls the code; cpp needs pools=calls, or pools and constants that "
        "are both external",
    )
    pools: str = option(
        "internal",
        choices=("internal", "external", "calls"),
        form="word",
        help="owner of the workspace memory: static arrays of the library, the caller of each run, "
        "or TVMBackendAllocWorkspace; states have a pool of their own, static with calls "
        "(default: external for firmware of hil, internal elsewhere)",
    )
    constants: str = option(
        "internal",
        choices=("internal", "binary", "auto", "external"),
        form="word",
        help="constants in the code (section .rodata.tvm), as C text (internal), as a binary file "
        "beside the headers (binary), as that from 1 MiB on (auto), or passed by the caller "
        "(default: auto for firmware of hil, internal elsewhere)",
    )
    feed: str = option(
        "whole",
        choices=("whole", "rows"),
        form="word",
        help="the input: as a whole, or its rows as they come, with only those in memory that "
        "layers need at once",
    )
    io_in_pool: bool = option(
        False, help="place inputs and outputs in the workspace, where map functions find them"
    )
    system_lib: bool | None = option(
        None,
        help="define TVMSystemLibEntryPoint with a registry of the packed functions; None: where "
        "the interface is packed",
    )

    def __post_init__(self) -> None:
        # Not at the top: help needs the options only.
        from hilc.support.arguments import check_fields

        check_fields(self, self._names())
        if self.runtime == "cpp":
            _SLOT.get("runtime=cpp", "or use runtime=crt")(self)
        # The default interface has no option that TVM refuses: its part need not be loaded.
        elif (self.api, self.interface, self.runtime) != ("unpacked", "c", "crt") and (
            check := _SLOT.found()
        ) is not None:
            check(self)
        check_choices(self)
        if self.style == "plain":
            self._check_plain()
        if self.feed == "rows":
            for name, needed in (("interface", "c"), ("api", "unpacked"), ("runtime", "crt")):
                if (value := getattr(self, name)) != needed:
                    raise InputError(
                        f"rows cannot be fed with {name}={value}",
                        f"use {name}={needed}, or give the input as a whole: feed=whole",
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

    def _check_plain(self) -> None:
        """Raise for an option that only code with microTVM's interface has."""
        for name, needed in (
            ("interface", ("c",)),
            ("api", ("unpacked",)),
            ("runtime", ("crt",)),
            ("codegen", ("c",)),
            ("constants", ("internal",)),
            ("pools", ("internal", "external")),
            ("system_lib", (None, False)),
        ):
            if (value := getattr(self, name)) not in needed:
                raise InputError(
                    f"plain C code cannot be written with {name}={value}, which belongs to "
                    "microTVM's interface",
                    f"use {name}={' or '.join(map(str, needed))}, or style=tvm",
                )

    @property
    def convention(self) -> str:
        """Name of the calling convention between the functions of a module."""
        return "plain" if self.style == "plain" else self.api

    @property
    def entry(self) -> str:
        """Name of the interface of a module for its callers."""
        return "plain" if self.style == "plain" else self.interface

    def _names(self) -> Mapping[str, Any]:
        """Return the types that annotations name and that this module does not import."""
        return {}

    @property
    def with_registry(self) -> bool:
        """Whether the library defines ``TVMSystemLibEntryPoint``."""
        return self.interface == "packed" if self.system_lib is None else self.system_lib


#: Values of each option that has choices.
CHOICES = {name: stated.choices for name, stated in options_of(Options).items() if stated.choices}
