"""Boards shared by workers: a pool gives each free board to one worker at a time.

The coordinator assigns boards of a lab (:mod:`hil.lab.place`). Boards of this machine, each behind
a probe or a serial port, are assigned by file locks, which the kernel releases when their holder
ends. Emulated boards are started for each worker and need no pool.

A board that failed for good is set aside for the rest of its test run, also by the other workers
of the run: nobody waits for it again.

A worker keeps its board from test to test, since another board would have to be programmed. If
others wait, it releases the board after a test, but not within the first ``SLICE_S``.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from hil.access import (
    VIRTUAL,
    Connection,
    Flasher,
    chosen_runner,
    is_real,
    runner_name,
    runner_named,
)
from hil.access.bench_boards import lock_names_of, reach_of
from hil.access.board_lock import open_lock, try_board_lock, try_lock, wish_path
from hil.access.hardware import Hardware
from hil.access.probes import choose_probe, known_probes, lock_names, probes_for
from hil.board import Board, load_board
from hil.board.bench import is_of_bench
from hil.board.bench_selector import selected_boards
from hil.errors import DeviceError, InputError, ProbeError
from hil.lab.selector import Selector, parse_selector
from hil.support.cache import writable_folder
from hilc.support.locks import lock

if TYPE_CHECKING:
    from hil.lab.place import Keeper, LabBoard

#: Time to wait for a board, and for another board after a failure.
ACQUIRE_LIMIT_S, OTHER_LIMIT_S = 600.0, 30.0
#: Shortest time of use: otherwise programming would take most of the time.
SLICE_S = 5.0
_LOOK_S = 0.02
#: Files in which workers say that they wait: a pool of any size takes no more descriptors. Workers
#: of two boards that share a file only release theirs needlessly.
_WISHES = 64
#: Files of boards that were set aside are removed when they are older: their run has ended.
_ASIDE_KEPT_S = 24 * 3600.0
#: One of so many attempts to take several boards is in another order.
_SHUFFLED = 8
#: How long a lab is asked for a board while others are held.
_LAB_TRY_S = 0.5
#: Pause after a release for others, so that they acquire the board first.
_YIELD_S = 5 * _LOOK_S


class Unit(Protocol):
    """A board that is held until it is released."""

    @property
    def name(self) -> str:
        """Name of the board among those of its kind."""

    @property
    def board(self) -> Board:
        """The board's description."""

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments of ``hil.open`` for this board."""

    def is_contended(self) -> bool:
        """Return whether another worker waits for such a board."""

    def release(self) -> None:
        """Release the board, for other workers."""


class Pool(Protocol):
    """The boards that a board option of the user selects."""

    @property
    def name(self) -> str:
        """The boards in words, the same for all users of them."""

    def acquire(self, limit_s: float = ACQUIRE_LIMIT_S) -> Unit:
        """Return a free board; raise :class:`DeviceError` if none becomes free."""

    def try_acquire(self) -> Unit | None:
        """Return a board that is free now, or None; raise :class:`DeviceError` if there is none to
        wait for.
        """

    def waiting(self) -> contextlib.AbstractContextManager[object]:
        """Return a context during which the holders of boards know that somebody waits."""

    @property
    def size(self) -> int:
        """Return the number of boards that were not set aside."""

    def set_aside(self, unit: Unit, reason: str) -> None:
        """Give a board to nobody for the rest of the test run."""

    def is_aside(self, unit: Unit) -> bool:
        """Return whether a board was set aside."""

    def close(self) -> None:
        """Release the resources of the pool itself."""


def another(pool: Pool, failed: Unit) -> Unit:
    """Release ``failed`` and return another board; the same one if there is no other."""
    found: Unit | None = None
    if pool.size > 1:
        # Acquire first and release later: otherwise the pool could return the same board.
        with contextlib.suppress(DeviceError):
            found = pool.acquire(OTHER_LIMIT_S)
    failed.release()
    return found or pool.acquire()


def acquire_all(pools: Sequence[Pool], limit_s: float = ACQUIRE_LIMIT_S) -> list[Unit]:
    """Return a board of each pool, all different: all or none, so that two users who want the same
    boards in another order do not wait for each other.

    A pool may be there several times. Raise :class:`InputError` if it has fewer boards, and
    :class:`DeviceError` if the boards are not free at the same time within ``limit_s`` seconds.
    """
    for pool in pools:
        if pool.size < (count := pools.count(pool)):
            raise InputError(
                f"{count} different boards are needed where only {pool.size} can be chosen",
                "connect another board, or select more with --hil-board",
            )
    deadline = time.monotonic() + limit_s
    with contextlib.ExitStack() as stack:
        for pool in set(pools):
            stack.enter_context(pool.waiting())
        attempts = itertools.count(1)
        while (found := _all_free(pools, next(attempts))) is None:
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"{len(pools)} boards did not become free at the same time within "
                    f"{limit_s:g} s",
                    "wait until other programs release them",
                )
            # Two users who took half of their boards each try again at different times.
            time.sleep(random.uniform(_LOOK_S, _YIELD_S))
        return found


def _all_free(pools: Sequence[Pool], attempt: int) -> list[Unit] | None:
    """Return a board of each pool; None, and hold none, if they are not all free now."""
    # All users take boards in one order, the least choice first: who gets the first one mostly gets
    # the others. Sometimes in any order, since a board of one pool may be the only one of another.
    order = sorted(range(len(pools)), key=lambda i: (pools[i].size, pools[i].name))
    if attempt % _SHUFFLED == 0:
        random.shuffle(order)
    units: dict[int, Unit] = {}
    with contextlib.ExitStack() as held:
        for index in order:
            unit = pools[index].try_acquire()
            if unit is None:
                return None
            held.callback(unit.release)
            units[index] = unit
        held.pop_all()
    return [units[index] for index in range(len(pools))]


def open_pool(
    spec: str,
    ports: Sequence[str] = (),
    probes: Sequence[str] = (),
    runner: str | None = None,
    run: str | None = None,
) -> Pool | None:
    """Return the pool of ``--hil-board SPEC``; None if the board is started for each worker.

    ``ports`` and ``probes`` name the boards of this machine; without them the pool has the
    connected probes that match the board, unless it is emulated. ``runner`` starts them, by default
    the board's first. ``run`` names the test run that the worker is part of.
    """
    aside = _Aside(run or uuid.uuid4().hex)
    wanted = parse_selector(spec)
    if wanted is not None:
        return LabPool(wanted, aside)
    if is_of_bench(spec):
        boards = selected_boards(spec)
        return LocalPool(boards[0], [_of_bench(board) for board in boards], aside)
    board = load_board(spec)
    pairs = paired(probes, ports)
    for probe, port in pairs:
        check_pair(board, runner, probe, port)
    if VIRTUAL in probes:
        return None
    if pairs:
        return LocalPool(board, [_local(board, runner, *pair) for pair in pairs], aside)
    connection = Connection(rtt=board.is_over_rtt)
    board, chosen = chosen_runner(board, runner, connection)
    if not is_real(chosen):
        return None
    if isinstance(chosen, Hardware) and chosen.flasher.uses_probe:
        return LocalPool(
            board,
            [_Local(uid, None, locks=(uid,)) for uid in _fitting_probes(board, chosen.flasher)],
            aside,
        )
    # It finds its probe itself: nobody knows how many there are.
    return LocalPool(board, [_Local(None, None, chosen.lock_name(board))], aside)


def _of_bench(board: Board) -> _Local:
    """Return a board of the bench, as its file says that it is reached."""
    assert board.unit is not None, "it is of a bench"
    locks = tuple(lock_names_of(board))
    return _Local(**reach_of(board), whole=board.unit.spec, locks=locks, board=board)


def paired(probes: Sequence[str], ports: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """Return probe and port of each board; raise InputError if they cannot be paired."""
    if probes and ports and len(probes) != len(ports):
        raise InputError(
            f"{len(probes)} probes and {len(ports)} ports are given, which cannot be paired",
            "give as many ports as probes, in the same order",
        )
    if VIRTUAL in probes and len(probes) > 1:
        raise InputError(
            f"{len(probes)} probes are given, and one of them is virtual",
            "give real probes only, or the virtual one alone, which each worker starts",
        )
    for what, names in (("probe", probes), ("port", ports)):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"the {what} {twice!r} is given twice", "give each once")
    count = max(len(probes), len(ports))
    return [(probes[i] if probes else None, ports[i] if ports else None) for i in range(count)]


def check_pair(board: Board, runner: str | None, probe: str | None, port: str | None) -> None:
    """Raise InputError if ``runner`` cannot start the board behind the probe and the port."""
    if runner is None and probe is None and port is not None:
        return  # the firmware that runs at the port is used
    chosen_runner(board, runner, Connection(probe, port, board.is_over_rtt))


def _local(board: Board, runner: str | None, probe: str | None, port: str | None) -> _Local:
    """Return a board of this machine, by the whole serial number of its probe."""
    chosen = runner_named(runner_name(board, runner, Connection(probe, port)))
    if probe is None or not isinstance(chosen, Hardware):
        return _Local(probe, port, locks=tuple(lock_names(probe, port)))

    # A probe that is not connected fails when it is used, and others take over.
    with contextlib.suppress(ProbeError):
        probe = choose_probe(board, probe, chosen.flasher.candidates(board, Connection(probe))).uid
    return _Local(probe, port, locks=tuple(lock_names(probe, port)))


def _fitting_probes(board: Board, flasher: Flasher) -> list[str]:
    from hil.board.config import configured

    probes = probes_for(board, flasher)
    fits = {probe.uid for probe in known_probes(board, probes)}
    # One probe, or only unidentified ones: the normal choice applies, with its errors.
    if len(fits) > 1 and "probe" not in configured(board.name):
        # Also an error: several probes with one serial number.
        return [choose_probe(board, uid, probes).uid for uid in sorted(fits)]
    return [choose_probe(board, None, probes).uid]


class _Aside:
    """The boards that failed for good in a test run, by name: files that its workers share."""

    def __init__(self, run: str) -> None:
        self._run = hashlib.sha256(run.encode()).hexdigest()[:16]
        self._folder = writable_folder("boards")
        self._folder.mkdir(exist_ok=True)
        for old in self._folder.glob("*.aside"):
            with contextlib.suppress(OSError):  # another worker was faster
                if time.time() - old.stat().st_mtime > _ASIDE_KEPT_S:
                    old.unlink()

    def add(self, name: str, reason: str) -> None:
        self._path(name).write_text(reason, encoding="utf-8")

    def reason(self, name: str) -> str | None:
        """Return why a board was set aside; None if it was not."""
        try:
            return self._path(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def require_any(self, what: str, names: Sequence[str]) -> None:
        """Raise DeviceError if all boards of a pool were set aside."""
        reasons = {name: self.reason(name) for name in names}
        if not reasons or None in reasons.values():
            return
        listed = "\n".join(f"  {name}: {reason}" for name, reason in reasons.items())
        raise DeviceError(
            f"no board {what} is left in this test run; set aside since they failed:\n{listed}",
            "repair the board, and start the tests again",
        )

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        return self._folder / f"{digest}-{self._run}.aside"


# -- boards of a lab ----------------------------------------------------------------------------


class LabPool:
    """The matching places of a lab."""

    def __init__(self, wanted: Selector, aside: _Aside | None = None) -> None:
        from hil.lab.place import Keeper

        self._wanted = wanted
        self._keeper: Keeper = Keeper()
        self._aside = aside

    @property
    def name(self) -> str:
        """The selector of the places."""
        return str(self._wanted)

    @property
    def size(self) -> int:
        """Return the number of places that were not set aside."""
        return len(self._places()) - len(self._avoided())

    def acquire(self, limit_s: float = ACQUIRE_LIMIT_S) -> Unit:
        """Return a board of a place that was not set aside.

        Raise :class:`DeviceError` if none becomes free within ``limit_s`` seconds.
        """
        from hil.lab.place import acquire_other

        avoided = self._avoided()
        if avoided and self._aside is not None:
            self._aside.require_any(str(self._wanted), [f"lab:{p}" for p in self._places()])
        return LabUnit(acquire_other(self._keeper, self._wanted, avoided, limit_s))

    def try_acquire(self) -> Unit | None:
        """Return a board of a place that is free now, or None; raise :class:`DeviceError` if the
        coordinator does not answer.
        """
        with contextlib.suppress(DeviceError):
            return self.acquire(_LAB_TRY_S)
        self._places()
        return None

    def waiting(self) -> contextlib.AbstractContextManager[object]:
        """Return a context without effect: the coordinator knows who waits."""
        return contextlib.nullcontext()

    def set_aside(self, unit: Unit, reason: str) -> None:
        """Exclude a place for the rest of the test run."""
        if self._aside is not None:
            self._aside.add(unit.name, reason)

    def is_aside(self, unit: Unit) -> bool:
        """Return whether a place was set aside."""
        return self._aside is not None and self._aside.reason(unit.name) is not None

    def _places(self) -> list[str]:
        from hil.lab.place import matching

        return matching(self._keeper, self._wanted)

    def _avoided(self) -> list[str]:
        if self._aside is None:
            return []
        return [p for p in self._places() if self._aside.reason(f"lab:{p}") is not None]

    def close(self) -> None:
        """End the connection to the coordinator, which releases all places."""
        self._keeper.close()


class LabUnit:
    """An acquired place of a lab."""

    def __init__(self, lab: LabBoard) -> None:
        self.name = f"lab:{lab.place}"
        self.board = lab.board
        self.options: dict[str, Any] = {"lab": lab}
        self._lab = lab

    def is_contended(self) -> bool:
        """Return whether another worker waits for it, or it was lost."""
        try:
            self._lab.check()
            return self._lab.is_contended()
        except DeviceError:
            return True

    def release(self) -> None:
        """Release the place; nothing if the coordinator is gone."""
        # If the coordinator is gone, there is nothing to release.
        with contextlib.suppress(DeviceError):
            self._lab.release()


# -- boards of this machine ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Local:
    probe: str | None
    port: str | None
    #: Name of the board, for a runner that finds its probe itself.
    whole: str = ""
    #: Names by which others lock the same board.
    locks: tuple[str, ...] = ()
    #: The board of a bench, which may be of another type than the others.
    board: Board | None = field(default=None, compare=False)
    runner: str | None = None

    @property
    def name(self) -> str:
        return self.probe or self.port or self.whole


class LocalPool:
    """The boards of one kind that are connected to this machine."""

    def __init__(self, board: Board, boards: Sequence[_Local], aside: _Aside) -> None:
        self._board = board
        self._boards = tuple(boards)
        self._aside = aside
        self._wishes = sorted({wish_path(local.name, _WISHES) for local in boards})
        #: Boards that this pool has assigned itself: nobody needs to look whether they are free.
        self._held: WeakValueDictionary[_Local, LocalUnit] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """The names of the boards."""
        return " ".join(sorted(map(self._name, self._boards)))

    @property
    def size(self) -> int:
        """Return the number of boards that were not set aside."""
        return sum(self._aside.reason(self._name(local)) is None for local in self._boards)

    def set_aside(self, unit: Unit, reason: str) -> None:
        """Exclude a board for the rest of the test run, in all workers."""
        self._aside.add(unit.name, reason)

    def is_aside(self, unit: Unit) -> bool:
        """Return whether a board was set aside, by any worker."""
        return self._aside.reason(unit.name) is not None

    def _name(self, local: _Local) -> str:
        if local.board is not None and local.board.unit is not None:
            return local.board.unit.spec
        return f"{self._board.name}:{local.name}"

    def acquire(self, limit_s: float = ACQUIRE_LIMIT_S) -> Unit:
        """Return a board whose lock is free.

        Raise :class:`DeviceError` if none becomes free within ``limit_s`` seconds.
        """
        deadline = time.monotonic() + limit_s
        with self.waiting() as others_wait:
            if others_wait:
                time.sleep(_YIELD_S)
            while (unit := self.try_acquire()) is None:
                if time.monotonic() > deadline:
                    raise DeviceError(
                        f"none of {len(self._boards)} boards {self._board.name} became free "
                        f"within {limit_s:g} s",
                        "wait until other programs release them",
                    )
                time.sleep(_LOOK_S)
            return unit

    def try_acquire(self) -> Unit | None:
        """Return a board whose lock is free, or None; raise :class:`DeviceError` if all boards were
        set aside.
        """
        self._aside.require_any(self._board.name, [self._name(b) for b in self._boards])
        for local in self._boards:
            if local in self._held or self._aside.reason(self._name(local)) is not None:
                continue
            lock = _locked(local)
            if lock is not None:
                unit = self._held[local] = LocalUnit(
                    local.board or self._board, self._name(local), local, lock, self
                )
                return unit
        return None

    def close(self) -> None:
        """Do nothing: each board has a lock of its own."""
        pass

    def released(self, local: _Local) -> None:
        """Record that the pool's user has released a board."""
        self._held.pop(local, None)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[bool]:
        """Register as waiting during the context; yield whether others wait, too."""
        with contextlib.ExitStack() as stack:
            others = self.is_wanted()
            for wish in self._wishes:
                file = stack.enter_context(open_lock(wish))
                lock(file, shared=True)
            yield others

    def is_wanted(self) -> bool:
        """Return whether another worker waits: then the exclusive lock on a wait file fails."""
        for wish in self._wishes:
            lock = try_lock(wish)
            if lock is None:
                return True
            lock.close()
        return False


class LocalUnit:
    """A board of this machine, held by a lock."""

    def __init__(
        self,
        board: Board,
        name: str,
        local: _Local,
        lock: contextlib.ExitStack,
        pool: LocalPool,
    ) -> None:
        self.name = name
        self.board = board
        self.options: dict[str, Any] = {"probe": local.probe, "port": local.port}
        if local.board is not None:
            self.options["runner"] = local.runner
        self._local = local
        self._lock = lock
        self._pool = pool

    def is_contended(self) -> bool:
        """Return whether another worker waits for a board of this pool."""
        return self._pool.is_wanted()

    def release(self) -> None:
        """Release the board's lock."""
        self._lock.close()
        self._pool.released(self._local)


def _locked(local: _Local) -> contextlib.ExitStack | None:
    """Return the locks of a board; None while another process or pool holds one of them."""
    with contextlib.ExitStack() as locks:
        for name in local.locks or (local.whole,):
            lock = try_board_lock(name)
            if lock is None:
                return None
            locks.enter_context(lock)
        return locks.pop_all()
