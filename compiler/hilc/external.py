"""Bring your own code generator: subgraphs that other code computes.

A generator claims parts of a graph and returns C or an object for each; the compiler plans their
memory with everything else, calls them, links their constants and ships their files in the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hilc.cpu import Cpu
from hilc.ir import Array, Graph


@dataclass(frozen=True)
class Device:
    """The device that an external function runs on.

    ``name`` is the field of ``struct tvmgen_<model>_devices`` through which the caller hands over
    the device's context. Several identical devices have one name and an ``index`` each (field
    ``<name>_<index>``); ``program`` says which program must be loaded on it.
    """

    name: str
    index: int | None = None
    program: str = ""
    #: Call ``TVMDevice<Name>Activate``, ``Open``, ``Close`` and ``Deactivate`` around the calls.
    use_device_api: bool = False

    @property
    def field(self) -> str:
        return self.name if self.index is None else f"{self.name}_{self.index}"


@dataclass(frozen=True)
class ExternalModule:
    """What a generator made of one subgraph.

    The function ``symbol`` takes the subgraph's inputs, its outputs, its scratch where
    ``scratch_bytes`` is not 0, and the device's context where it has one: as plain pointers
    (``int32_t symbol(void *in0, ..., void *out0, ..., void *scratch, void *device)``) or, in a
    model with packed operators, as a ``TVMBackendPackedCFunc`` of DLTensor handles and an
    opaque handle. It returns 0 on success.
    """

    symbol: str
    #: C text; the compiler writes it to a file of its own, after the constants' declarations.
    source: str | None = None
    #: Instead of ``source``: a relocatable object for the target.
    object: bytes | None = None
    #: Headers that the source includes, by path.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Arrays by C symbol: linked as ``const`` data, which the source sees declared.
    constants: Mapping[str, Array] = field(default_factory=dict)
    #: Further global functions of the source or object.
    functions: tuple[str, ...] = ()
    scratch_bytes: int = 0
    device: Device | None = None
    #: Kind of the module for messages; only "c" (source) and "o" (object) can be exported.
    type_key: str = "c"


@dataclass(frozen=True)
class ExternalCall:
    """What a plan's step calls instead of a kernel; the counterpart of ``KernelCall``."""

    module: ExternalModule
    #: Positions of the node's inputs that are passed as tensors, in the function's order.
    inputs: tuple[int, ...]
    macs: int = 0

    @property
    def scratch_bytes(self) -> int:
        return self.module.scratch_bytes


class ExternalCodegen(Protocol):
    """A user's code generator."""

    @property
    def name(self) -> str: ...

    def claim(self, graph: Graph) -> Sequence[Sequence[int]]:
        """Groups of node positions in ``graph.nodes`` that this generator takes, each connected."""
        ...

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        """Code for a claimed group; ``symbol`` is the name that its function shall have."""
        ...
