"""Checks of options that TVM does."""

from __future__ import annotations

from hilc.codegen.options import CHOICES, Options
from hilc.errors import InputError


def check_options(options: Options) -> None:
    """Raise for options that TVM refuses, with TVM's own messages: scripts may search for them."""
    unpacked = int(options.api == "unpacked")
    if options.api not in CHOICES["api"]:
        return  # TVM has no message for it
    if options.runtime not in CHOICES["runtime"]:
        raise InputError(
            f"runtime_config ({options.runtime}) is not one of the expected values",
            f"choose {' or '.join(CHOICES['runtime'])}",
        )
    if options.runtime == "cpp":
        if unpacked or options.interface != "packed":
            raise InputError(
                f'Need unpacked-api == false (got: {unpacked}) and interface-api == "packed" '
                f"(got: {options.interface}) when targeting c++ runtime",
                "use api=packed with interface=packed",
            )
    elif not unpacked and options.interface != "packed":
        raise InputError(
            f'Either need interface_api == "packed" (got: {options.interface}) or '
            f"unpacked-api == true (got: {unpacked}) when targeting c runtime",
            "use api=unpacked with interface=c",
        )
    elif options.interface not in CHOICES["interface"]:
        raise InputError(
            f"Unhandled executor option config: interface-api={options.interface}, "
            f"unpacked-api={unpacked}",
            f"choose interface={' or '.join(CHOICES['interface'])}",
        )
    if options.io_in_pool and options.interface != "c":
        raise InputError(
            "tir.usmp.use_workspace_io option is only compatible with interface_api c.\n"
            "Please use interface_api c to be able to enable tir.usmp.use_workspace_io",
            "use interface=c, or keep inputs and outputs in the caller's buffers",
        )
