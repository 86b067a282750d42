"""The C names of a module: valid, distinct, and the same every time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hilc.errors import InputError
from hilc.external import Device, ExternalCall
from hilc.memory.plan import PoolSpec, Program
from hilc.support.identifiers import c_identifier, sanitise, shorten

#: The workspace pool, as TVM names the one that it plans itself.
POOL = "global_workspace"
#: The constant pool: the object in flash, or the field through which the caller hands it over.
CONSTANT_POOL = "global_const_workspace"

#: Function that finds a linked constant by its storage id, and that which returns the metadata.
LOOKUP = "_lookup_linked_param"
GET_METADATA = "get_c_metadata"

#: The variable in which TVM's C++ run time leaves its handle of a library that it loads.
MODULE_CONTEXT = "__tvm_module_ctx"


@dataclass(frozen=True)
class Names:
    """``module`` names files; ``symbol`` begins every global symbol and, in capitals, every macro.

    ``inputs``, ``outputs``, ``pools`` and ``devices`` are the fields of the structs.
    """

    module: str
    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pools: tuple[str, ...] = (POOL,)
    devices: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        return f"{self.symbol}.h"

    @property
    def main(self) -> str:
        return f"{self.symbol}___tvm_main__"

    @property
    def run(self) -> str:
        return f"{self.symbol}_run"

    @property
    def get_metadata(self) -> str:
        return f"{self.symbol}_{GET_METADATA}"

    @property
    def lookup(self) -> str:
        return f"{self.symbol}_{LOOKUP}"

    def operator(self, op: str, index: int) -> str:
        """The function of the operator at step ``index``."""
        return shorten(f"{self.symbol}_fused_{sanitise(op).lower()}_{index}")

    def pool_object(self, index: int) -> str:
        """The static array that is the workspace pool ``index``, where pools are internal."""
        return f"{self.symbol}_{self.pools[index]}"

    def map(self, kind: str) -> str:
        """The function that finds the ``inputs`` or ``outputs`` in the workspace."""
        return f"{self.symbol}_map_{kind}"

    def macro(self, what: str) -> str:
        return f"{self.symbol}_{what}".upper()


def module_names(name: str, interface: str) -> tuple[str, str]:
    """The module's name and the stem of its symbols, for a model called ``name``.

    TVM's C interface writes symbols in lower case, its packed interface as they are.
    """
    module = shorten(sanitise(name)) or "default"
    return module, f"tvmgen_{module if interface == 'packed' else module.lower()}"


def name_pools(memory: Iterable[PoolSpec]) -> tuple[PoolSpec, ...]:
    """``memory`` with names that C has; InputError where two become the same."""
    named = [(spec.name, replace(spec, name=c_identifier(spec.name))) for spec in memory]
    owners = {CONSTANT_POOL.upper(): (-1, "the constant pool")}
    for index, (original, spec) in enumerate(named):
        what = f"the memory pool {original!r}"
        other, owner = owners.setdefault(spec.name.upper(), (index, what))
        if other != index:
            raise InputError(
                f"{owner} and {what} both become {spec.name.upper()} in C",
                "rename one of the pools",
            )
        if spec.region is not None and not re.fullmatch(r"\w+", spec.region, re.ASCII):
            raise InputError(
                f"{what} lies in the region {spec.region!r}, which no linker script can name",
                "use letters, digits and underscores",
            )
    return tuple(spec for _, spec in named)


def make_names(program: Program, interface: str = "c") -> Names:
    """The names for ``program``; :class:`~hilc.errors.InputError` where two become the same.

    Its pools have names of C's already (:func:`name_pools`).
    """
    module, symbol = module_names(program.graph.name, interface)
    fields: dict[str, str] = {}
    for name in (*program.graph.inputs, *program.output_names):
        fields[name] = c_identifier(name)
    pools = tuple(pool.name for pool in program.pools)
    _require_distinct_macros(fields, pools)
    names = Names(
        module=module,
        symbol=symbol,
        inputs=tuple(fields[name] for name in program.graph.inputs),
        outputs=tuple(_count_repeats(fields[name] for name in program.output_names)),
        pools=pools,
        devices=_devices(program),
    )
    _require_distinct_symbols(program, names)
    return names


def _require_distinct_macros(fields: dict[str, str], pools: Sequence[str]) -> None:
    """Refuse tensors whose size macro is another's; fields differ when their macros do."""
    taken = {
        "WORKSPACE": "the workspace",
        f"{CONSTANT_POOL.upper()}_CONSTANT_POOL": "the constant pool",
        **{f"{pool.upper()}_WORKSPACE_POOL": f"the memory pool {pool!r}" for pool in pools},
    }
    owners: dict[str, str] = {}
    for name, field in fields.items():
        macro = field.upper()
        if macro in taken:
            raise InputError(
                f"the tensor {name!r} would share the macro {macro}_SIZE with {taken[macro]}",
                "rename the tensor in the model",
            )
        if macro in owners:
            raise InputError(
                f"the tensor names {owners[macro]!r} and {name!r} both become {macro} in C",
                "rename one of the tensors in the model",
            )
        owners[macro] = name


def _devices(program: Program) -> tuple[str, ...]:
    """The fields of the devices that external functions run on, in the order of their first use."""
    owners: dict[str, Device] = {}
    for step in program.steps:
        if not isinstance(step.call, ExternalCall) or (device := step.call.module.device) is None:
            continue
        field = c_identifier(device.field)
        other = owners.setdefault(field, device)
        if (other.name, other.index) != (device.name, device.index):
            both = " and ".join(
                repr(d.name) if d.index is None else f"{d.name!r} number {d.index}"
                for d in (other, device)
            )
            raise InputError(
                f"the devices {both} both become {field} in C",
                "rename one of the devices in its code generator",
            )
    return tuple(owners)


def _require_distinct_symbols(program: Program, names: Names) -> None:
    """Refuse two global symbols of one name: the linker would, or would take one for the other."""
    own = {
        names.run: "the entry point",
        names.main: "the main",
        names.map("inputs"): "the function that maps the inputs",
        names.map("outputs"): "the function that maps the outputs",
        names.get_metadata: "the function that returns the metadata",
        names.lookup: "the function that looks up constants",
        GET_METADATA: "the function that returns the metadata",
        LOOKUP: "the function that looks up constants",
    }
    for index, step in enumerate(program.steps):
        own[names.operator(step.node.op, index)] = f"the layer {step.node.name!r}"
    symbols = [
        (names.pool_object(index), f"the memory pool {pool!r}", "rename the pool")
        for index, pool in enumerate(names.pools)
    ]
    modules = [step.call.module for step in program.steps if isinstance(step.call, ExternalCall)]
    for module in {id(module): module for module in modules}.values():
        symbols += [
            (
                symbol,
                f"the {kind} {symbol!r} of the external module {module.symbol!r}",
                "rename it in its code generator",
            )
            for symbol, kind in module.global_names.items()
        ]
    for symbol, what, hint in symbols:
        if symbol in own:
            raise InputError(f"{what} and {own[symbol]} would both be {symbol} in C", hint)
        own[symbol] = what


def _count_repeats(fields: Iterable[str]) -> Iterable[str]:
    """The fields, with a number behind those that came before: an output may be named twice."""
    fields = list(fields)
    taken = set(fields)
    seen: set[str] = set()
    for field in fields:
        unique, number = field, 1
        while unique in seen or (unique != field and unique in taken):
            unique, number = f"{field}_{number}", number + 1
        seen.add(unique)
        yield unique
