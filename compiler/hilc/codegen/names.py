"""C names of a module: valid, distinct and deterministic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hilc.errors import InputError
from hilc.memory.plan import PoolSpec
from hilc.memory.pools import STATE_POOL
from hilc.support.identifiers import c_identifier, sanitise, shorten

#: Workspace pool: TVM's name for it.
POOL = "global_workspace"
#: Constant pool: the object in flash, or the field in which the caller passes it.
CONSTANT_POOL = "global_const_workspace"


@dataclass(frozen=True)
class Names:
    """C names of a module: ``module`` names files; ``symbol`` begins every global symbol and, in
    capitals, every macro.

    ``inputs``, ``outputs``, ``pools``, ``devices`` and ``states`` are the fields of the structs.
    """

    module: str
    symbol: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pools: tuple[str, ...] = (POOL,)
    devices: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    #: Whether names are those of plain C code (``style=plain``): without TVM's words, and with the
    #: symbol before static names too.
    plain: bool = False
    #: Whether the module is a graph that a layer of another one calls.
    called: bool = False

    def local(self, name: str) -> str:
        """Return the name of a static object or function, or of a struct, of one file."""
        return f"{self.symbol}_{name}" if self.plain else name

    @property
    def header(self) -> str:
        """Name of the header."""
        return f"{self.symbol}.h"

    @property
    def main(self) -> str:
        """Symbol of the main function, which calls the operators in order."""
        return f"{self.symbol}_{'run_layers' if self.plain else '__tvm_main__'}"

    @property
    def run(self) -> str:
        """Symbol of the entry point."""
        return f"{self.symbol}_run"

    @property
    def feed(self) -> str:
        """The function that computes on the rows that came."""
        return f"{self.symbol}_{'feed_layers' if self.plain else '__tvm_feed__'}"

    def rows(self, verb: str) -> str:
        """Return the function that starts, pushes or pulls rows."""
        return f"{self.symbol}_{verb}_rows"

    @property
    def push_bytes(self) -> str:
        """The function that takes any part of the rows."""
        return f"{self.symbol}_push_bytes"

    @property
    def reset(self) -> str:
        """The function that resets the states."""
        return f"{self.symbol}_reset_state"

    def operator(self, op: str, index: int) -> str:
        """Return the name of the operator function at step ``index``."""
        fused = "" if self.plain else "fused_"
        return shorten(f"{self.symbol}_{fused}{sanitise(op).lower()}_{index}")

    def pool_object(self, index: int) -> str:
        """Return the name of the static array that is the workspace pool ``index`` if pools are
        internal.
        """
        return f"{self.symbol}_{self.pools[index]}"

    def map(self, kind: str) -> str:
        """Return the function that finds the ``inputs``, ``outputs`` or ``states`` in the pools."""
        return f"{self.symbol}_map_{kind}"

    def macro(self, what: str) -> str:
        """Return the name of the header's macro for ``what``, in upper case."""
        return f"{self.symbol}_{what}".upper()


def name_pools(memory: Iterable[PoolSpec]) -> tuple[PoolSpec, ...]:
    """Return ``memory`` with valid C names; raise InputError if two become the same."""
    named = [(spec.name, replace(spec, name=c_identifier(spec.name))) for spec in memory]
    owners = {
        CONSTANT_POOL.upper(): (-1, "the constant pool"),
        STATE_POOL.upper(): (-1, "the pool of the states"),
    }
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
                f"{what} is in the region {spec.region!r}, which is not a valid linker region name",
                "use letters, digits and underscores",
            )
    return tuple(spec for _, spec in named)
