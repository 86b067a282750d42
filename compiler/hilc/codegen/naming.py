"""Creation of a module's C names: valid, distinct and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hilc.codegen.dialects import INTERFACES
from hilc.codegen.names import CONSTANT_POOL, Names
from hilc.codegen.plain import POOLS, plain_pools
from hilc.errors import InputError
from hilc.external import Device, ExternalCall
from hilc.memory.plan import Program
from hilc.memory.pools import STATE_POOL
from hilc.support.identifiers import c_identifier, sanitise, shorten


def make_names(program: Program, interface: str = "c") -> Names:
    """Return the names for ``program``; raise :class:`~hilc.errors.InputError` if two become the
    same.

    Its pools have C names already (:func:`name_pools`).
    """
    module = shorten(sanitise(program.graph.name)) or "default"
    fields: dict[str, str] = {}
    for name in (*program.graph.inputs, *program.output_names):
        fields[name] = c_identifier(name)
    pools = tuple(pool.name for pool in program.pools)
    plain = interface == "plain"
    pools = plain_pools(pools) if plain else pools
    _require_distinct_macros(fields, pools)
    names = Names(
        module=module,
        symbol=INTERFACES[interface].symbol(module),
        inputs=tuple(fields[name] for name in program.graph.inputs),
        outputs=tuple(_count_repeats(fields[name] for name in program.output_names)),
        pools=pools,
        devices=_devices(program),
        states=_states(program),
        plain=plain,
    )
    _require_distinct_symbols(program, names)
    return names


def _require_distinct_macros(fields: dict[str, str], pools: Sequence[str]) -> None:
    """Raise for tensors that share a size macro; distinct macros imply distinct fields."""
    taken = {
        "WORKSPACE": "the workspace",
        f"{CONSTANT_POOL.upper()}_CONSTANT_POOL": "the constant pool",
        **{f"{pool.upper()}_WORKSPACE_POOL": f"the memory pool {pool!r}" for pool in pools},
        **({"STATE": "the states"} if {STATE_POOL, POOLS[STATE_POOL]} & set(pools) else {}),
        **{f"{pool.upper()}_POOL": f"the memory pool {pool!r}" for pool in pools},
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


def _states(program: Program) -> tuple[str, ...]:
    """Return the fields of the states."""
    owners: dict[str, str] = {}
    for state in program.graph.states:
        field = c_identifier(state.name)
        if field in owners:
            raise InputError(
                f"the states {owners[field]!r} and {state.name!r} both become {field} in C",
                "rename one of the states in the model",
            )
        owners[field] = state.name
    return tuple(owners)


def _devices(program: Program) -> tuple[str, ...]:
    """Return the fields of the devices of external functions, in the order of first use."""
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
    """Raise for two global symbols with one name, which the linker would refuse or confuse."""
    own = {
        names.run: "the entry point",
        names.main: "the main",
        names.map("inputs"): "the function that maps the inputs",
        names.map("outputs"): "the function that maps the outputs",
        names.map("states"): "the function that maps the states",
        names.reset: "the function that resets the states",
        names.feed: "the function that computes on rows",
        names.push_bytes: "the function that takes parts of rows",
        **{names.rows(verb): f"the function to {verb} rows" for verb in ("start", "push", "pull")},
    }
    # For all interfaces, since an image may have models of each.
    for interface in INTERFACES.installed().values():
        own.update(interface.reserved(names.symbol))
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
    """Yield the fields, with a number appended to repeated ones: an output may be listed twice."""
    fields = list(fields)
    taken = set(fields)
    seen: set[str] = set()
    for field in fields:
        unique, number = field, 1
        while unique in seen or (unique != field and unique in taken):
            unique, number = f"{field}_{number}", number + 1
        seen.add(unique)
        yield unique
