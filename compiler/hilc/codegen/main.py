"""The main of a module, which calls the layers in order."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from hilc.codegen.allocator import allocator
from hilc.codegen.arguments import (
    Operator,
    Pointers,
    c_type,
    main_arguments,
    program_devices,
)
from hilc.codegen.calls import device_guard, device_hooks, guarded_call
from hilc.codegen.convention import Calls
from hilc.codegen.cwriter import c_wrapped
from hilc.codegen.described import Argument, Kind
from hilc.codegen.names import Names
from hilc.codegen.options import Options
from hilc.external import Device
from hilc.memory.plan import Program


def write_main(
    program: Program,
    names: Names,
    options: Options,
    operators: Sequence[Operator],
    calls: Calls,
) -> str:
    """Return the main, and with guards also the function that it calls inside of them."""
    return _Main(program, names, options, operators, calls).write()


class _Main:
    def __init__(
        self,
        program: Program,
        names: Names,
        options: Options,
        operators: Sequence[Operator],
        calls: Calls,
    ) -> None:
        self._function = names.main
        self._names = names
        self._program = program
        ref = program.feed
        self._feed = None if ref is None else Argument("pool", ref.value, (), "", ref.pool)
        self._arguments = main_arguments(program, options)
        self._operators = operators
        self._calls = calls
        self._devices = program_devices(program)
        #: C variable of each of the main's arguments, and of the workspace that it allocates.
        self._pointers = Pointers(self._arguments)
        self._variables = self._pointers.variables
        self._allocated: tuple[str, int] | None = None
        if options.pools == "calls" and program.pools[0].nbytes:
            name = f"{program.pools[0].name}_var"
            self._variables["pool", 0] = name
            self._allocated = (name, program.pools[0].nbytes)

    def write(self) -> str:
        failure = "-1 as soon as one fails"
        if any(operator.has_status for operator in self._operators):
            failure = "the status of the first one that fails"
        comment = f"/* Runs the layers in order; {failure}. */\n"
        # The functions of plain code have typed parameters.
        address = self._pointers.typed if self._names.plain else self._pointers.of
        layers = self._spend() + self._calls.layers(self._operators, address)
        used = {(a.kind, a.value if a.kind != "pool" else a.pool) for a in self._passed()}
        devices: dict[tuple[Kind, int], Device] = {
            ("device", index): device
            for index, device in enumerate(self._devices)
            if device.use_device_api
        }
        if not devices and self._allocated is None:
            return f"{comment}{self._head(used)}{layers}    return 0;\n}}\n"
        variables = {key: text for key, text in self._variables.items() if key in used}
        arguments = list(variables.values()) + [name for name, _ in self._calls.context]
        declared = [f"{c_type(kind)}{text}" for (kind, _), text in variables.items()]
        declared += [parameter for _, parameter in self._calls.context]
        run = c_wrapped("static int32_t run_layers(", declared or ["void"], ") {\n")
        allocation, guards = "", []
        if self._allocated is not None:
            pointer, nbytes = self._allocated
            allocation = f"    uint8_t *const {pointer} = {allocator().allocate(nbytes)};\n"
            guards.append(allocator().guard(pointer))
        for key, device in devices.items():
            guards.append(device_guard(device, "Activate", "Deactivate", self._variables[key]))
        # Identical devices have one driver.
        drivers = (device_hooks(device, "Activate", "Deactivate") for device in devices.values())
        hooks = "".join(dict.fromkeys(drivers))
        return (
            f"{comment}{run}{layers}    return 0;\n}}\n\n{hooks}"
            f"{self._head(used | set(devices))}{allocation}"
            f"{guarded_call('run_layers', arguments, guards)}}}\n"
        )

    def _spend(self) -> str:
        """Return the statements that use up an input that came by rows."""
        if self._feed is None:
            return ""
        nbytes = self._program.fed_tensor.nbytes
        feed = f"(struct hil_feed *)(void *){self._pointers.of(self._feed)}"
        return f"    if (hil_feed_spend({feed}, {nbytes}) != 0) {{\n        return -1;\n    }}\n"

    def _passed(self) -> list[Argument]:
        feed = [] if self._feed is None else [self._feed]
        return feed + [argument for operator in self._operators for argument in operator.arguments]

    def _head(self, used: AbstractSet[tuple[Kind, int]]) -> str:
        """Return the main's beginning: a C variable for each argument that is ``used``."""
        positions = {i for i, a in enumerate(self._arguments) if (a.kind, a.index) in used}
        return self._calls.main_head(
            self._function, self._arguments, positions, bool(self._operators)
        )
