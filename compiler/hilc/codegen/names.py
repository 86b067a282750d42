"""The C names of a module: valid, distinct, and the same every time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hilc.codegen.cwriter import c_identifier, sanitise, shorten
from hilc.errors import InputError
from hilc.plan import Program

#: The workspace pool, as TVM names the one that it plans itself.
POOL = "global_workspace"

# Size macros that every header has, by the tensor name that would give the same macro.
_TAKEN = {"WORKSPACE": "the workspace", f"{POOL.upper()}_WORKSPACE_POOL": "the workspace pool"}


@dataclass(frozen=True)
class Names:
    """``module`` names files; ``symbol`` begins every global symbol and, in capitals, every macro.

    ``inputs`` and ``outputs`` are the fields of the structs.
    """

    module: str
    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def header(self) -> str:
        return f"{self.symbol}.h"

    @property
    def main(self) -> str:
        return f"{self.symbol}___tvm_main__"

    @property
    def run(self) -> str:
        return f"{self.symbol}_run"

    def operator(self, op: str, index: int) -> str:
        """The function of the operator at step ``index``."""
        return shorten(f"{self.symbol}_fused_{sanitise(op).lower()}_{index}")

    def macro(self, what: str) -> str:
        return f"{self.symbol}_{what}".upper()


def make_names(program: Program) -> Names:
    """The names for ``program``; :class:`~hilc.errors.InputError` where two become the same."""
    module = shorten(sanitise(program.graph.name)) or "default"
    fields: dict[str, str] = {}
    for name in (*program.graph.inputs, *program.output_names):
        fields[name] = c_identifier(name)
    _require_distinct(fields)
    return Names(
        module=module,
        symbol=f"tvmgen_{module.lower()}",
        inputs=tuple(fields[name] for name in program.graph.inputs),
        outputs=tuple(_count_repeats(fields[name] for name in program.output_names)),
    )


def _require_distinct(fields: dict[str, str]) -> None:
    owners: dict[str, str] = {}
    for name, field in fields.items():
        macro = field.upper()
        if macro in _TAKEN:
            raise InputError(
                f"the tensor {name!r} would share the macro {macro}_SIZE with {_TAKEN[macro]}",
                "rename the tensor in the model",
            )
        if macro in owners:
            raise InputError(
                f"the tensor names {owners[macro]!r} and {name!r} both become {macro} in C",
                "rename one of the tensors in the model",
            )
        owners[macro] = name


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
