"""Kernel calls for the row bands of nodes: calls of one kernel, which differ in numbers only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hilc.fusion.bands import Band, BandNode, NotFusible, RowNode
from hilc.fusion.call import numbers
from hilc.fusion.row_allocation import Overlap, RowAllocation
from hilc.ir import Array
from hilc.lowering.access import access_of
from hilc.lowering.kernels import KernelCall
from hilc.lowering.registry import LoweredLayers, row_builder

#: Bytes of the largest array that may differ between bands.
_TABLE_BYTES = 512


@dataclass(frozen=True)
class StageCalls:
    """Calls for a node's bands, by the bands' shapes; they differ in numbers only."""

    calls: Mapping[tuple[int, ...], KernelCall]
    band_nodes: Mapping[tuple[int, ...], BandNode]

    @cached_property
    def first(self) -> KernelCall:
        """Call for the first band."""
        return next(iter(self.calls.values()))

    @cached_property
    def scratch_bytes(self) -> int:
        """The most scratch of a call, in bytes."""
        return max([call.scratch_bytes for call in self.calls.values()])

    # Only groups that are laid out need what differs.

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """See :class:`Stage`."""
        first, *others = [numbers(call.fields) for call in self.calls.values()]
        different = {n for own in others for n, value in own.items() if value != first[n]}
        return tuple([n for n in first if n in different and not isinstance(first[n], float)])

    @cached_property
    def tables(self) -> Mapping[str, tuple[Array, ...]]:
        """See :class:`Stage`."""
        arrays = {
            name: _different([call.arrays[name] for call in self.calls.values()])
            for name in self.first.arrays
        }
        return {name: tuple(own) for name, own in arrays.items() if len(own) > 1}


@dataclass(frozen=True)
class _Signature:
    """What a call has in common with the calls of its kernel variant for other bands."""

    names: tuple[str, ...]
    #: What tells floats apart, -0.0 and 0.0 too.
    floats: tuple[tuple[str, str], ...]

    @staticmethod
    def of(call: KernelCall) -> _Signature:
        own = numbers(call.fields)
        floats = [(name, repr(value)) for name, value in own.items() if isinstance(value, float)]
        return _Signature(tuple(sorted(own)), tuple(sorted(floats)))


def differ_in_numbers(
    calls: Sequence[KernelCall], signature: Callable[[KernelCall], object] = _Signature.of
) -> bool:
    """Return whether calls of a kernel variant differ in integers and small tables alone."""
    first = signature(calls[0])
    if any([signature(call) != first for call in calls[1:]]):
        return False
    for name, array in calls[0].arrays.items():
        arrays = [call.arrays[name] for call in calls]
        if all([other is array for other in arrays]):
            continue
        if max(other.nbytes for other in arrays) > _TABLE_BYTES and len(_different(arrays)) > 1:
            return False
    return True


def _different(arrays: Sequence[Array]) -> list[Array]:
    """Return one array of each content; a layer's bands share its packed arrays."""
    objects = {id(array): array for array in arrays}
    if len(objects) == 1:
        return [arrays[0]]
    return list({(array.dtype, array.tobytes()): array for array in objects.values()}.values())


@dataclass(frozen=True)
class Kernel:
    """A kernel variant that computes all bands of a node: its name, its calls, and the estimated
    instructions of each.
    """

    variant: str
    calls: StageCalls
    instructions: Mapping[tuple[int, ...], int]

    @cached_property
    def cost(self) -> int:
        """Estimated instructions for a band of each shape."""
        return sum(self.instructions.values())


class Stages:
    """Calls for the row bands of a graph's nodes, and their permitted overlaps; cached."""

    def __init__(self, layers: LoweredLayers) -> None:
        self._layers = layers
        self._cpu = layers.cpu
        self._variants: dict[
            tuple[str, tuple[str, ...], tuple[int, ...]], Mapping[str, KernelCall]
        ] = {}
        self._kernels: dict[tuple[object, ...], list[Kernel]] = {}
        self._band_nodes: dict[tuple[str, tuple[str, ...], bool, tuple[int, ...]], BandNode] = {}
        self._overlaps: dict[tuple[int, int], tuple[KernelCall, Overlap]] = {}
        self._equal_overlaps: dict[object, Overlap] = {}
        self._allocations: dict[RowAllocation, RowAllocation] = {}
        self._estimates: dict[int, tuple[KernelCall, int]] = {}
        self._signatures: dict[int, tuple[KernelCall, _Signature]] = {}

    def _band_node(self, node: RowNode, band: Band) -> BandNode:
        """Return ``node`` and its tensors, reduced to ``band``."""
        key = (node.node.name, node.node.inputs, node.accumulates, band.key)
        if key not in self._band_nodes:
            self._band_nodes[key] = node.reduced(band)
        return self._band_nodes[key]

    def _of_band(self, node: RowNode, band: Band, band_node: BandNode) -> Mapping[str, KernelCall]:
        """Return the kernel variants that compute a band of ``node``, the fastest first."""
        key = (node.node.name, node.node.inputs, band.key)
        if key not in self._variants:
            layer = self._layers.of(node.node, node.ins, (node.out,))
            self._variants[key] = layer.rows(band_node.node, band_node.ins, band_node.outs)
        return self._variants[key]

    def kernel(
        self, node: RowNode, bands: Mapping[tuple[int, ...], Band], wanted: str | None
    ) -> Kernel:
        """Return a kernel that computes all ``bands`` of ``node``: the ``wanted`` one or the
        fastest.

        Raise NotFusible if no kernel computes all bands.
        """
        for kernel in self.kernels(node, bands):
            if wanted is None or kernel.variant == wanted:
                return kernel
        which = "no kernel that computes" if wanted is None else f"no kernel variant {wanted!r} for"
        raise NotFusible(f"{node.node.name!r} has {which} all of its row bands")

    def kernels(self, node: RowNode, bands: Mapping[tuple[int, ...], Band]) -> Sequence[Kernel]:
        """Return the kernels that compute all ``bands`` of ``node``, the cheapest first."""
        key = (node.node.name, node.node.inputs, node.accumulates, *bands)
        if key not in self._kernels:
            found = self._find_kernels(node, bands)
            # Of the same cost, the one that is expected to be the fastest is first.
            self._kernels[key] = sorted(found, key=lambda kernel: kernel.cost)
        return self._kernels[key]

    def _find_kernels(
        self, node: RowNode, bands: Mapping[tuple[int, ...], Band]
    ) -> Iterator[Kernel]:
        band_nodes = {key: self._band_node(node, band) for key, band in bands.items()}
        if node.accumulates:
            make = row_builder(node.node.op)
            calls = {
                key: make(node.node, node.ins, (node.out,), b.count, b.above == 1, b.below == 1)
                for key, b in bands.items()
            }
            yield from self._kernel(calls, band_nodes)
            return
        variants = {key: self._of_band(node, band, band_nodes[key]) for key, band in bands.items()}
        for name in next(iter(variants.values())):
            calls = {key: found[name] for key, found in variants.items() if name in found}
            if len(calls) == len(bands):
                yield from self._kernel(calls, band_nodes)

    def _kernel(
        self,
        calls: Mapping[tuple[int, ...], KernelCall],
        band_nodes: Mapping[tuple[int, ...], BandNode],
    ) -> Iterator[Kernel]:
        listed = list(calls.values())
        if differ_in_numbers(listed, self._signature):
            instructions = {key: self._instructions(call) for key, call in calls.items()}
            yield Kernel(listed[0].variant, StageCalls(calls, band_nodes), instructions)

    def _signature(self, call: KernelCall) -> _Signature:
        """Return what a call has in common with the calls for other bands."""
        if id(call) not in self._signatures:
            # Stored with the call to keep its identity, the key, valid.
            self._signatures[id(call)] = call, _Signature.of(call)
        return self._signatures[id(call)][1]

    def _instructions(self, call: KernelCall) -> int:
        """Return the estimated instructions of a call."""
        if id(call) not in self._estimates:
            # Stored with the call to keep its identity, the key, valid.
            self._estimates[id(call)] = call, call.instructions(self._cpu)
        return self._estimates[id(call)][1]

    def overlap(self, call: KernelCall, band_node: BandNode, position: int) -> Overlap:
        """Return the permitted overlaps of a call's output and its node's input ``position``."""
        key = id(call), position
        if key not in self._overlaps:
            inputs = [t for t in (band_node.ins[p] for p in call.inputs) if t is not None]
            access = access_of(call, inputs, band_node.outs)
            argument = call.inputs.index(position)
            overlap = Overlap(access, argument, inputs, band_node.outs[0].nbytes)
            # Calls of one access order share it, and thereby the allocations of their rows.
            overlap = self._equal_overlaps.setdefault(overlap.key, overlap)
            # Stored with the call to keep its identity, the key, valid.
            self._overlaps[key] = call, overlap
        return self._overlaps[key][1]

    def allocation(self, allocation: RowAllocation) -> RowAllocation:
        """Return the cached instance that is equal to ``allocation``."""
        return self._allocations.setdefault(allocation, allocation)
