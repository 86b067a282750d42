"""Allocator: offsets in one or several pools for blocks with live ranges in steps.

Two blocks whose live ranges overlap must not share a byte, unless the caller permits it: where a
kernel writes one block while it reads the other, they may overlap at some offset differences
(:class:`~hilc.lowering.access.ForbiddenInterval`). Finding the smallest pool is hard in general.
First fit in a good order is optimal for nearly every network, so several orders are tried, the best
one is improved by bounded deterministic searches, and :func:`lower_bound` tells when to stop. Where
outputs overwrite inputs, each offset depends on the one before it, and the end of the pool matters
as much as its start; first fit does not see that, so blocks are also placed step by step in pools
of given sizes (:class:`_BeamSearch`).

Several pools (:func:`allocate_pools`) are filled in the order of preference, the blocks with the
most accesses per byte first.
"""

from __future__ import annotations

import itertools
import operator
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from hilc.lowering.access import ForbiddenInterval, apart
from hilc.support.intervals import joined

#: Alignment in bytes of every block.
ALIGNMENT = 16

_SEARCH_TRIES = 1200
# Partial placements that are kept at each step (beam width of :class:`_BeamSearch`).
_PLACEMENTS = 256
# Intervals that are not worth merging.
_FEW_INTERVALS = 8
# Bounds for graphs with hundreds of simultaneous blocks: neighbour checks in all, and the least
# number of placements that are kept.
_MOST_LOOKS, _FEWEST = 5_000_000, 16
# Initial orders that the search improves.
_STARTS = 3
# Bounds of the assignment of blocks to several pools: orders before it counts as impossible, orders
# tried to pack one pool, and exchanges between pools.
_ASSIGNMENTS = 60
_FIT_TRIES = 6
_EXCHANGES = 300


@dataclass(frozen=True)
class Block:
    """A buffer of ``nbytes`` that is live from step ``first`` to step ``last``, both included."""

    nbytes: int
    first: int
    last: int
    #: Required offset and pool index; None where the allocator chooses.
    offset: int | None = None
    pool: int | None = None

    def meets(self, other: Block) -> bool:
        """Return whether the live ranges of the two blocks overlap."""
        return self.first <= other.last and other.first <= self.last


def align(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to :data:`ALIGNMENT`."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def live_blocks(blocks: Sequence[Block], step: int) -> list[Block]:
    """Return the blocks that are live at ``step``."""
    return [block for block in blocks if block.first <= step <= block.last]


#: Forbidden intervals of ``offset(second) - offset(first)`` by the positions of two blocks with
#: overlapping live ranges; pairs without an entry share no byte.
Overlaps = Mapping[tuple[int, int], ForbiddenInterval]

NO_OVERLAPS: Overlaps = MappingProxyType({})


def forbidden_between(
    blocks: Sequence[Block], overlaps: Overlaps, first: int, second: int
) -> ForbiddenInterval:
    """Return the forbidden interval of ``offset(second) - offset(first)`` for two blocks with
    overlapping live ranges.
    """
    if (given := overlaps.get((first, second))) is not None:
        return given
    if (mirrored := overlaps.get((second, first))) is not None:
        return mirrored.reversed()
    return apart(blocks[first].nbytes, blocks[second].nbytes)


def lower_bound(blocks: Sequence[Block], overlaps: Overlaps = NO_OVERLAPS) -> int:
    """Return a lower bound of the pool size in bytes: the maximum over all steps."""
    # Blocks pinned in another pool than the first take nothing of it.
    pinned = (b.offset + b.nbytes for b in blocks if b.offset is not None and not b.pool)
    steps = sorted({block.first for block in blocks})
    live = _by_step(steps, ((block.first, block.last) for block in blocks))
    pairs = list(overlaps)
    shared = ((blocks[a], blocks[b]) for a, b in pairs)
    met = _by_step(steps, ((max(a.first, b.first), min(a.last, b.last)) for a, b in shared))
    bounds = (
        _step_bound(blocks, step, live[step], [pairs[p] for p in met[step]], overlaps)
        for step in steps
    )
    return max((*bounds, *pinned), default=0)


def _by_step(steps: Sequence[int], ranges: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Return, for each of some sorted steps, the positions of the ranges that include it."""
    found: dict[int, list[int]] = {step: [] for step in steps}
    for position, (first, last) in enumerate(ranges):
        for step in steps[bisect_left(steps, first) : bisect_right(steps, last)]:
            found[step].append(position)
    return found


def step_bound(blocks: Sequence[Block], step: int, overlaps: Overlaps) -> int:
    """Return a lower bound in bytes for the blocks that are live at ``step``."""
    live = [i for i, block in enumerate(blocks) if block.first <= step <= block.last]
    pairs = [pair for pair in overlaps if pair[0] in live and pair[1] in live]
    return _step_bound(blocks, step, live, pairs, overlaps)


def _step_bound(
    blocks: Sequence[Block],
    step: int,
    positions: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    overlaps: Overlaps,
) -> int:
    """Return the same; ``positions`` are those of the live blocks, ``pairs`` those of the overlaps
    between them.
    """
    if not pairs:
        return _stacked([blocks[i].nbytes for i in positions])
    live = dict.fromkeys(positions)
    paired = {i for pair in pairs for i in pair}
    apart = live.keys() - paired
    # Blocks that end here are disjoint from each other, and so are blocks that begin here or live
    # for this step alone; a block without permitted overlap is disjoint from all.
    groups = [[blocks[i].nbytes for i in live if blocks[i].first < step or i in apart]]
    # An output that may lie over scratch counts for one of both.
    begun = {i for i in live if blocks[i].first == step}
    shared = [pair for pair in pairs if begun.issuperset(pair)]
    for left in ({first for first, _ in shared}, {second for _, second in shared}):
        groups.append([blocks[i].nbytes for i in live if i in apart or i in begun - left])
    spans = [_least_span(blocks, pair, overlaps[pair]) for pair in pairs]
    for (common, first), (same, second) in itertools.combinations(pairs, 2):
        # An operand with the scratch and the output that may lie over it, but not over each other.
        alone = (first, second) not in overlaps and (second, first) not in overlaps
        if common == same and alone and 0 in map(_duration, (blocks[first], blocks[second])):
            spans.append(_least_span_of_three(blocks, common, first, second, overlaps))
    # One of the spans at a time, beside the blocks that are disjoint from all.
    nbytes, padding = _padded([blocks[i].nbytes for i in apart])
    beside = (nbytes + align(n) - max(padding, align(n) - n) for n in spans)
    return max(*map(_stacked, groups), *beside)


def _duration(block: Block) -> int:
    return block.last - block.first


def _least_span_of_three(
    blocks: Sequence[Block], common: int, first: int, second: int, overlaps: Overlaps
) -> int:
    """Return the fewest bytes that three blocks can span together, of which the last two are
    disjoint: the offsets of these from ``common`` end at a border of what is allowed, or next to
    each other.
    """
    n, a, b = (blocks[i].nbytes for i in (common, first, second))
    one, other = overlaps[common, first], overlaps[common, second]
    best = n + align(a) + align(b) + ALIGNMENT
    ends, others = _borders(n, a, one), _borders(n, b, other)
    for x in ends:
        for y in (*others, align(x + a), _down(x - b)):
            if (y >= x + a or y + b <= x) and other.allow(y):
                best = min(best, max(n, x + a, y + b) - min(0, x, y))
    for y in others:
        for x in (align(y + b), _down(y - a)):
            if one.allow(x):
                best = min(best, max(n, x + a, y + b) - min(0, x, y))
    return best


def _borders(first: int, second: int, forbidden: ForbiddenInterval) -> list[int]:
    """Return the allowed aligned differences next to forbidden ones, and those at which blocks of
    these sizes begin or end together.
    """
    found = {0, _down(first - second), align(first - second)}
    for low, high in forbidden.parts:
        found |= {_down(low), align(high)}
    return [difference for difference in found if forbidden.allow(difference)]


def _down(nbytes: int) -> int:
    """Return ``nbytes`` rounded down to :data:`ALIGNMENT`."""
    return nbytes // ALIGNMENT * ALIGNMENT


def _stacked(sizes: Sequence[int]) -> int:
    """Return the size of disjoint aligned blocks; padding after the last one is not counted."""
    nbytes, padding = _padded(sizes)
    return nbytes - padding


def _padded(sizes: Sequence[int]) -> tuple[int, int]:
    """Return the size of disjoint aligned blocks, and the largest padding of one."""
    # Called for every step of every candidate.
    aligned = [-(-n // ALIGNMENT) * ALIGNMENT for n in sizes]
    return sum(aligned), max(map(operator.sub, aligned, sizes), default=0)


def _least_span(
    blocks: Sequence[Block], pair: tuple[int, int], forbidden: ForbiddenInterval
) -> int:
    """Return the fewest bytes that two blocks can span together."""
    if forbidden.allow(0):
        # One block lies within the other.
        return max(blocks[i].nbytes for i in pair)
    first, second = (blocks[i].nbytes for i in pair)
    # The differences nearest to 0, from which on the span grows in both directions.
    below, above = forbidden.low // ALIGNMENT * ALIGNMENT, align(forbidden.high)
    for start, end in forbidden.gaps:
        if end < 0 and start <= (nearest := end // ALIGNMENT * ALIGNMENT):
            below = max(below, nearest)
        elif start > 0 and (nearest := align(start)) <= end:
            above = min(above, nearest)
    return min(max(first, d + second) - min(0, d) for d in (below, above))


def allocate(
    blocks: Sequence[Block],
    enough: int = 0,
    tries: int = _SEARCH_TRIES,
    overlaps: Overlaps = NO_OVERLAPS,
) -> tuple[int, ...]:
    """Return an offset for each block; deterministic.

    The search ends when a pool of ``enough`` bytes holds them, or after so many ``tries``.
    """
    return _Search(blocks, overlaps).best(enough, tries)


def _of_members(overlaps: Overlaps, members: Sequence[int]) -> Overlaps:
    """Return the overlaps of the blocks at positions ``members``, renumbered."""
    renumbered = {index: position for position, index in enumerate(members)}
    return {
        (renumbered[a], renumbered[b]): forbidden
        for (a, b), forbidden in overlaps.items()
        if a in renumbered and b in renumbered
    }


def pool_bytes(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    """Return the size of the pool that holds ``blocks`` at ``offsets``."""
    return max((o + b.nbytes for b, o in zip(blocks, offsets, strict=True)), default=0)


def allocate_pools(
    blocks: Sequence[Block],
    accesses: Sequence[int],
    limits: Sequence[int | None],
    overlaps: Overlaps = NO_OVERLAPS,
) -> list[tuple[int, int]] | None:
    """Return a pool index and an offset for each block, or None if no assignment within the limits
    is found.

    ``limits`` are the bytes of each pool, the preferred pool first, None where it has no end;
    ``accesses`` says how often the bytes of each block are read and written.
    """
    if limits[0] is None and not any(block.pool for block in blocks):
        return [(0, offset) for offset in allocate(blocks, overlaps=overlaps)]
    pools = _PoolAssignment(blocks, accesses, limits, overlaps).best()
    if pools is None:
        return None
    places: dict[int, tuple[int, int]] = {}
    for pool, (indices, limit) in enumerate(zip(pools, limits, strict=True)):
        members = [replace(blocks[index], pool=None) for index in indices]
        own = _of_members(overlaps, indices)
        offsets = allocate(members, overlaps=own)
        if limit is not None and pool_bytes(members, offsets) > limit:
            # The search that proved the fit was shorter than this one; repeat it.
            offsets = allocate(members, limit, _FIT_TRIES, own)
        places.update(zip(indices, ((pool, offset) for offset in offsets), strict=True))
    return [places[index] for index in range(len(blocks))]


class _PoolAssignment:
    """Assignment of blocks to pools, as sorted lists of positions in ``blocks``."""

    def __init__(
        self,
        blocks: Sequence[Block],
        accesses: Sequence[int],
        limits: Sequence[int | None],
        overlaps: Overlaps,
    ) -> None:
        self.blocks = blocks
        self.overlaps = overlaps
        self.accesses = accesses
        # Pool sizes are multiples of the alignment.
        self.limits = [None if n is None else n // ALIGNMENT * ALIGNMENT for n in limits]
        self._fits: dict[tuple[int, tuple[int, ...]], bool] = {}

    def best(self) -> list[list[int]] | None:
        pools = self._assign()
        return pools if pools is None else self._exchange(pools)

    def _assign(self) -> list[list[int]] | None:
        """Return the positions of the blocks in each pool, or None if some block never fits.

        A block that does not fit goes first in the next attempt.
        """
        order = sorted(
            range(len(self.blocks)),
            key=lambda i: (
                self.blocks[i].pool is None,
                -self.accesses[i] / self.blocks[i].nbytes,
                self.blocks[i].nbytes,
                i,
            ),
        )
        for _ in range(_ASSIGNMENTS):
            pools: list[list[int]] = [[] for _ in self.limits]
            for index in order:
                if not self._add(pools, index):
                    order.remove(index)
                    order.insert(0, index)
                    break
            else:
                return pools
        return None

    def _add(self, pools: list[list[int]], index: int) -> bool:
        """Add a block to the first pool in which it fits; return whether there is one."""
        for pool, members in enumerate(pools):
            if self._may_go(index, pool) and self._fit(pool, [*members, index]):
                members.append(index)
                members.sort()
                return True
        return False

    def _may_go(self, index: int, pool: int) -> bool:
        return self.blocks[index].pool in (None, pool)

    def _fit(self, pool: int, members: Sequence[int]) -> bool:
        limit = self.limits[pool]
        if limit is None:
            return True
        key = (pool, tuple(sorted(members)))
        if key not in self._fits:
            blocks = [replace(self.blocks[index], pool=None) for index in key[1]]
            own = _of_members(self.overlaps, key[1])
            self._fits[key] = (
                lower_bound(blocks, own) <= limit
                and pool_bytes(blocks, allocate(blocks, limit, _FIT_TRIES, own)) <= limit
            )
        return self._fits[key]

    def _exchange(self, pools: list[list[int]]) -> list[list[int]]:
        """Move blocks to a preferred pool, alone or in exchange for one with fewer accesses, while
        that is an improvement.
        """
        left = _EXCHANGES
        free = {i for i, block in enumerate(self.blocks) if block.pool is None}
        waiting = sorted(
            (i for members in pools[1:] for i in members if i in free),
            key=lambda i: (-self.accesses[i], i),
        )
        for index in waiting:
            home = next(pool for pool, members in enumerate(pools) if index in members)
            for better in range(home):
                cheaper = [
                    i
                    for i in pools[better]
                    if i in free and self.accesses[i] < self.accesses[index]
                ]
                for victim in [None, *sorted(cheaper, key=lambda i: (self.accesses[i], i))]:
                    if left == 0:
                        return pools
                    left -= 1
                    target = [i for i in pools[better] if i != victim] + [index]
                    source = [i for i in pools[home] if i != index]
                    source += [] if victim is None else [victim]
                    if self._fit(better, target) and self._fit(home, source):
                        pools[better], pools[home] = sorted(target), sorted(source)
                        break
                if index in pools[better]:
                    break
        return pools


@dataclass(frozen=True)
class _Candidate:
    """Offsets and pool size that first fit finds for an order, or offsets sorted into an order."""

    peak: int
    order: Sequence[int]
    offsets: Sequence[int]
    fitted: bool = True


def _peak(found: _Candidate) -> int:
    return found.peak


class _Search:
    def __init__(self, blocks: Sequence[Block], overlaps: Overlaps) -> None:
        self.blocks = blocks
        self.overlaps = overlaps
        #: Offsets of pinned blocks; -1 for the others.
        self.pinned = [-1 if block.offset is None else block.offset for block in blocks]
        #: By the first step of a block the blocks that are live, and those that start then.
        steps = sorted({block.first for block in blocks})
        self._live = _by_step(steps, ((block.first, block.last) for block in blocks))
        self._starting = _by_step(steps, ((block.first, block.first) for block in blocks))
        #: By block the forbidden parts of neighbours that may share bytes with it.
        self._shared: list[dict[int, list[tuple[int, int]]]] = [{} for _ in blocks]
        for (first, second), forbidden in overlaps.items():
            self._shared[second][first] = forbidden.parts
        for (first, second), forbidden in overlaps.items():
            self._shared[first].setdefault(second, forbidden.reversed().parts)
        #: For each block its neighbours and the forbidden interval of the offset difference.
        self.neighbours = [self._forbidden(index) for index in range(len(blocks))]

    def _forbidden(self, index: int) -> list[tuple[int, int, int]]:
        """Return the open intervals ``(neighbour, low, high)`` in which ``offset -
        offset(neighbour)`` must not lie.
        """
        found: list[tuple[int, int, int]] = []
        own, shared = self.blocks[index], self._shared[index]
        later = (self._starting.get(step, ()) for step in range(own.first + 1, own.last + 1))
        for other in sorted(itertools.chain(self._live[own.first], *later)):
            if other in shared:
                found += [(other, low, high) for low, high in shared[other]]
            elif other != index and (own.nbytes or self.blocks[other].nbytes):
                found.append((other, -own.nbytes, self.blocks[other].nbytes))
        return found

    @cached_property
    def _near(self) -> list[int]:
        """The neighbours of each block as bits."""
        return [sum(1 << other for other in {o for o, *_ in own}) for own in self.neighbours]

    def best(self, enough: int, tries: int) -> tuple[int, ...]:
        bound = max(lower_bound(self.blocks, self.overlaps), enough)
        # Fixed seed: the plan is part of the output, which must be deterministic.
        chance = random.Random(0)
        starts = self._good_orders(bound)
        best = starts[0]
        thorough = tries >= _SEARCH_TRIES
        tries = min(tries, _MOST_LOOKS // max(sum(map(len, self.neighbours)), 1))
        if best.peak > bound and thorough:
            steps = _BeamSearch(
                self.blocks, self.neighbours, max(_FEWEST, min(_PLACEMENTS, tries // 4))
            )
            for nbytes in _sizes(bound, best.peak):
                if (offsets := steps.place(nbytes)) is not None:
                    if nbytes == bound:
                        return offsets
                    # First fit in this order may close gaps that the offsets leave.
                    order = sorted(range(len(offsets)), key=lambda i: (offsets[i], i))
                    found = _Candidate(pool_bytes(self.blocks, offsets), order, offsets, False)
                    best = min(self._try(order), found, key=_peak)
                    starts = [best, *starts[:-1]]
                    break
        for start in starts:
            if best.peak > bound:
                found = self._improve(start, bound, tries // len(starts), chance)
                best = min(best, found, key=_peak)
        return tuple(best.offsets)

    def _improve(
        self, start: _Candidate, bound: int, tries: int, chance: random.Random
    ) -> _Candidate:
        """Return the best result of swapping and moving blocks in the order of ``start``."""
        current, tops = start, self._tops(start)
        for _ in range(tries if len(self.blocks) > 1 else 0):
            if current.peak <= bound:
                break
            order = list(current.order)
            # A block that sets the peak must move to lower it; now and then a random one does.
            is_any = chance.random() < 0.3
            a = chance.randrange(len(order)) if is_any else chance.choice(tops)
            b = chance.randrange(len(order))
            if chance.random() < 0.5:
                order[a], order[b] = order[b], order[a]
                moved = {a, b}
            else:
                order.insert(b, order.pop(a))
                moved = {b}
            if current.fitted:
                offsets = self._first_fit(order, current, min(a, b), moved)
            else:
                offsets = self._first_fit(order, current)
            # Equally good orders are accepted: they may lead to better ones.
            if offsets is not None:
                current = _Candidate(pool_bytes(self.blocks, offsets), order, offsets)
                tops = self._tops(current)
        return current

    def _tops(self, found: _Candidate) -> list[int]:
        """Return the positions of the blocks that set the peak."""
        blocks, offsets, peak = self.blocks, found.offsets, found.peak
        return [
            position
            for position, index in enumerate(found.order)
            if offsets[index] + blocks[index].nbytes == peak
        ]

    def _good_orders(self, bound: int) -> list[_Candidate]:
        """Return the best few simple orders, the best first; only one if it reaches ``enough``.

        Towards the end or from there on: kernels that write below what they read let blocks sink
        from step to step, which first fit follows from the last block on.
        """
        keys: tuple[Callable[[Block], tuple[int, ...]], ...] = (
            lambda b: (-b.nbytes, b.first),
            lambda b: (-b.nbytes, -b.first),
            lambda b: (-b.nbytes * (b.last - b.first + 1), b.first),
            lambda b: (-b.nbytes * (b.last - b.first + 1), -b.first),
            lambda b: (b.first - b.last, -b.nbytes),
            lambda b: (b.first, -b.nbytes),
            lambda b: (-b.last, -b.nbytes),
            lambda b: (-b.first, -b.nbytes),
        )
        tried: list[_Candidate] = []
        for key in keys:
            order = sorted(range(len(self.blocks)), key=lambda i: (*key(self.blocks[i]), i))
            tried.append(self._try(order))
            if tried[-1].peak <= bound:
                return tried[-1:]
        return sorted(tried, key=_peak)[:_STARTS]

    def _try(self, order: Sequence[int]) -> _Candidate:
        offsets = self._first_fit(order)
        assert offsets is not None, "without a limit there is always room"
        return _Candidate(pool_bytes(self.blocks, offsets), order, offsets)

    def _first_fit(
        self,
        order: Sequence[int],
        known: _Candidate | None = None,
        same: int = 0,
        moved: Collection[int] | None = None,
    ) -> list[int] | None:
        """Return first-fit offsets in ``order``; None if they need more bytes than ``known``.

        The first ``same`` blocks are the same in its order. The others are in the same order but
        for those at the positions ``moved``, if given, and then its offsets are a first fit too:
        only blocks near one that lies elsewhere are placed again.
        """
        offsets = list(self.pinned)
        if known is not None:
            for index in order[:same]:
                offsets[index] = known.offsets[index]
        moved = range(same, len(order)) if moved is None else moved
        # Those that may lie elsewhere than in the known placement when the next block is placed.
        changed = sum(1 << order[position] for position in moved)
        last = max(moved, default=-1)
        for position, index in enumerate(order[same:], same):
            if self.pinned[index] >= 0:
                continue
            if known is None or position in moved or self._near[index] & changed:
                offsets[index] = self._lowest(index, offsets)
            else:
                offsets[index] = known.offsets[index]
            if known is None:
                continue
            if offsets[index] + self.blocks[index].nbytes > known.peak:
                return None
            if offsets[index] != known.offsets[index]:
                changed |= 1 << index
            if position == last:
                # All moved blocks are placed: those at their known offset have no effect anymore.
                for other in (order[p] for p in moved):
                    if offsets[other] == known.offsets[other]:
                        changed &= ~(1 << other)
        return offsets

    def _lowest(self, index: int, offsets: Sequence[int]) -> int:
        """Return the lowest offset of a block among those that are placed."""
        forbidden = [
            (at + low, at + high)
            for other, low, high in self.neighbours[index]
            if (at := offsets[other]) >= 0
        ]
        forbidden.sort()
        offset = 0
        for low, high in forbidden:
            if offset <= low:
                break
            if offset < high:
                offset = -(-high // ALIGNMENT) * ALIGNMENT
        return offset


def _sizes(bound: int, peak: int) -> Iterator[int]:
    """Yield pool sizes to try, from the lower bound to less than ``peak``, in growing steps."""
    yield bound
    step = ALIGNMENT
    while (nbytes := align(bound) + step - ALIGNMENT) < peak:
        if nbytes > bound:
            yield nbytes
        step *= 2


class _BeamSearch:
    """Beam search over offsets in the order of the blocks' first steps, for one pool size.

    A block is placed at an end of the pool, next to a block that is already placed, or next to
    where a later block that overwrites it would lie at an end. Only the offsets of live blocks
    matter to the next step, so a bounded number of placements of those is kept.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        neighbours: Sequence[Sequence[tuple[int, int, int]]],
        placements: int,
    ) -> None:
        self._blocks = blocks
        self._placements = placements
        #: By block, the earlier placed neighbours with the forbidden interval of the difference.
        self._forbidden: list[list[tuple[int, int, int]]] = [[] for _ in blocks]
        #: By block, the later placed neighbours with the forbidden interval of the difference.
        self._later: list[list[tuple[int, int, int]]] = [[] for _ in blocks]
        self._order = sorted(
            range(len(blocks)),
            # Blocks that are live for one step only come last.
            key=lambda i: (blocks[i].first, blocks[i].first == blocks[i].last, -blocks[i].nbytes),
        )
        rank = {index: position for position, index in enumerate(self._order)}
        for index, found in enumerate(neighbours):
            for other, low, high in found:
                to = self._forbidden if rank[other] < rank[index] else self._later
                to[index].append((other, low, high))
        #: By block, the forbidden intervals of its offset because of pinned neighbours.
        self._pinned = [
            [
                (offset + low, offset + high)
                for other, low, high in found
                if (offset := blocks[other].offset) is not None
            ]
            for found in neighbours
        ]

    def place(self, nbytes: int) -> tuple[int, ...] | None:
        """Return offsets within ``nbytes``; None if none are found."""
        # Live blocks, and each kept placement of them with its chain of earlier offsets.
        live: list[int] = []
        states: dict[tuple[int, ...], _Chain | None] = {(): None}
        for index in self._order:
            block = self._blocks[index]
            staying = [p for p, i in enumerate(live) if self._blocks[i].last >= block.first]
            live = [live[p] for p in staying]
            position = {i: p for p, i in enumerate(live)}
            forbidden = [
                (position[other], low, high)
                for other, low, high in self._forbidden[index]
                if other in position
            ]
            ends = self._ends(index, nbytes)
            found: dict[tuple[int, ...], _Chain | None] = {}
            #: Offsets by the forbidden intervals, which many placements share.
            known: dict[tuple[tuple[int, int], ...], list[int]] = {}
            for state, chain in states.items():
                placed = tuple([state[p] for p in staying])
                near = tuple([(placed[p] + low, placed[p] + high) for p, low, high in forbidden])
                if (offsets := known.get(near)) is None:
                    near_all = (*near, *self._pinned[index])
                    offsets = known[near] = self._offsets(index, near_all, ends, nbytes)
                for offset in offsets:
                    found.setdefault((*placed, offset), (index, offset, chain))
                    if block.first == block.last or len(found) >= self._placements:
                        break
                if len(found) >= self._placements:
                    break
            if not found:
                return None
            live.append(index)
            states = found
        result = [0] * len(self._blocks)
        link = next(iter(states.values()))
        while link is not None:
            index, result[index], link = link[0], link[1], link[2]
        return tuple(result)

    def _ends(self, index: int, nbytes: int) -> list[int]:
        """Return the offsets next to a later placed block at the start or end of the pool."""
        found: list[int] = []
        for other, low, high in self._later[index]:
            end = (nbytes - self._blocks[other].nbytes) // ALIGNMENT * ALIGNMENT
            for at in (0, end):
                found += [(at + low) // ALIGNMENT * ALIGNMENT, align(at + high)]
        return list(dict.fromkeys(found))

    def _offsets(
        self, index: int, forbidden: Sequence[tuple[int, int]], ends: Sequence[int], nbytes: int
    ) -> list[int]:
        """Return the possible offsets of a block, each once."""
        # Called for every placement, of which there are hundreds of thousands.
        block = self._blocks[index]
        top = (nbytes - block.nbytes) // ALIGNMENT * ALIGNMENT
        if block.offset is None:
            tried = [0, top]
            for low, high in forbidden:
                tried.append(low - low % ALIGNMENT)
                tried.append(high + -high % ALIGNMENT)
            tried += ends
        else:
            tried = [block.offset]
        if len(forbidden) > _FEW_INTERVALS:
            lows, highs = joined(forbidden)
            forbidden = list(zip(lows, highs, strict=True))
        found: list[int] = []
        for offset in dict.fromkeys(tried):
            if 0 <= offset <= top:
                for low, high in forbidden:
                    if low < offset < high:
                        break
                else:
                    found.append(offset)
        return found


#: A block, its offset, and the blocks placed before it.
_Chain = tuple[int, int, "_Chain | None"]
