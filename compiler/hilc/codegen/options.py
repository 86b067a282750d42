"""What a caller may ask of the generated code, checked before anything is compiled."""

from __future__ import annotations

from dataclasses import dataclass

from hilc.errors import InputError

#: The values that each option takes in this version.
CHOICES = {
    "optimize": ("balanced", "speed", "size"),
    "codegen": ("c",),
    "api": ("unpacked",),
    "interface": ("c",),
    "pools": ("internal", "external"),
}


@dataclass(frozen=True)
class Options:
    """How the code is shaped; the words are those of the command line.

    ``optimize``
        ``size`` shares one body between all layers of a kernel; the others specialise each layer.
    ``pools``
        ``internal``: the workspace is a static array of the library; ``external``: the caller hands
        it over with each run.
    ``io_in_pool``
        Inputs and outputs lie in the workspace, where map functions find them.
    """

    optimize: str = "balanced"
    codegen: str = "c"
    api: str = "unpacked"
    interface: str = "c"
    pools: str = "internal"
    io_in_pool: bool = False

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
