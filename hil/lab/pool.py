"""Boards shared by workers: a pool gives each free board to one worker at a time.

The coordinator assigns boards of a lab (:mod:`hil.lab.place`). Boards of this machine, each behind
a probe or a serial port, are assigned by file locks, which the kernel releases when their holder
ends. Emulated boards are started for each worker and need no pool.

A worker keeps its board from test to test, since another board would have to be programmed. If
others wait, it releases the board after a test, but not within the first ``SLICE_S``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from hil.board import Board, load_board
from hil.errors import DeviceError, InputError
from hil.lab.selector import Selector, parse_selector
from hil.support.cache import writable_folder

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
#: Pause after a release for others, so that they acquire the board first.
_YIELD_S = 5 * _LOOK_S


class Unit(Protocol):
    """A board that is held until it is released."""

    @property
    def name(self) -> str: ...
    @property
    def board(self) -> Board: ...
    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments of ``hil.open`` for this board."""

    def is_contended(self) -> bool:
        """Return whether another worker waits for such a board."""

    def release(self) -> None: ...


class Pool(Protocol):
    """The boards that a board option of the user selects."""

    def acquire(self, limit_s: float = ACQUIRE_LIMIT_S) -> Unit:
        """Return a free board; raise :class:`DeviceError` if none becomes free."""

    @property
    def size(self) -> int:
        """Return the number of boards."""

    def close(self) -> None: ...


def another(pool: Pool, failed: Unit) -> Unit:
    """Release ``failed`` and return another board; the same one if there is no other."""
    found: Unit | None = None
    if pool.size > 1:
        # Acquire first and release later: otherwise the pool could return the same board.
        with contextlib.suppress(DeviceError):
            found = pool.acquire(OTHER_LIMIT_S)
    failed.release()
    return found or pool.acquire()


def open_pool(spec: str, ports: Sequence[str] = (), probes: Sequence[str] = ()) -> Pool | None:
    """Return the pool of ``--hil-board SPEC``; None if the board is started for each worker.

    ``ports`` and ``probes`` name the boards of this machine; without them the pool has the
    connected probes that match the board, unless it is emulated.
    """
    wanted = parse_selector(spec)
    if wanted is not None:
        return LabPool(wanted)
    board = load_board(spec)
    if probes and ports and len(probes) != len(ports):
        raise InputError(
            f"{len(probes)} probes and {len(ports)} ports are given, which cannot be paired",
            "give as many ports as probes, in the same order",
        )
    if "virtual" in probes:
        return None
    count = max(len(probes), len(ports))
    units = [
        _Local(probes[i] if probes else None, ports[i] if ports else None) for i in range(count)
    ]
    if not units and board.default_runner == "pyocd":
        units = [_Local(uid, None) for uid in _fitting_probes(board)]
    return LocalPool(board, units) if units else None


def _fitting_probes(board: Board) -> list[str]:
    from hil.board.config import configured
    from hil.probe.probes import choose_probe, connected_probes, known_probes

    probes = connected_probes()
    fits = {probe.uid for probe in known_probes(board, probes)}
    # One probe, or only unidentified ones: the normal choice applies, with its errors.
    if len(fits) > 1 and "probe" not in configured(board.name):
        # Also an error: several probes with one serial number.
        return [choose_probe(board, uid, probes).uid for uid in sorted(fits)]
    return [choose_probe(board, None, probes).uid]


# -- boards of a lab ----------------------------------------------------------------------------


class LabPool:
    """The matching places of a lab."""

    def __init__(self, wanted: Selector) -> None:
        from hil.lab.place import Keeper

        self._wanted = wanted
        self._keeper: Keeper = Keeper()

    @property
    def size(self) -> int:
        places = self._keeper.ask("list")["places"]
        return sum(
            self._wanted.fits(place["name"], place["tags"]) and bool(place["resources"])
            for place in places
        )

    def acquire(self, limit_s: float = ACQUIRE_LIMIT_S) -> Unit:
        from hil.lab.place import acquire

        return LabUnit(acquire(self._keeper, self._wanted, limit_s))

    def close(self) -> None:
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
        # If the coordinator is gone, there is nothing to release.
        with contextlib.suppress(DeviceError):
            self._lab.release()


# -- boards of this machine ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Local:
    probe: str | None
    port: str | None

    @property
    def name(self) -> str:
        return self.probe or self.port or ""


class LocalPool:
    """The boards of one kind that are connected to this machine."""

    def __init__(self, board: Board, boards: Sequence[_Local]) -> None:
        self._board = board
        self._boards = tuple(boards)
        self._folder = writable_folder("boards")
        self._folder.mkdir(exist_ok=True)
        self._wishes = sorted({self._wish(local.name) for local in boards})
        #: Boards that this pool has assigned itself: nobody needs to look whether they are free.
        self._held: WeakValueDictionary[_Local, LocalUnit] = WeakValueDictionary()

    @property
    def size(self) -> int:
        return len(self._boards)

    def acquire(self, limit_s: float = ACQUIRE_LIMIT_S) -> Unit:
        deadline = time.monotonic() + limit_s
        with self._waiting() as others_wait:
            if others_wait:
                time.sleep(_YIELD_S)
            while True:
                for local in self._boards:
                    if local in self._held:
                        continue
                    lock = _try_lock(self._path(local.name))
                    if lock is not None:
                        unit = self._held[local] = LocalUnit(self._board, local, lock, self)
                        return unit
                if time.monotonic() > deadline:
                    raise DeviceError(
                        f"none of {len(self._boards)} boards {self._board.name} became free "
                        f"within {limit_s:g} s",
                        "wait until other programs release them",
                    )
                time.sleep(_LOOK_S)

    def close(self) -> None:
        pass

    def released(self, local: _Local) -> None:
        """Record that the pool's user has released a board."""
        self._held.pop(local, None)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[bool]:
        """Register as waiting during the context; yield whether others wait, too."""
        with contextlib.ExitStack() as stack:
            others = self.is_wanted()
            for wish in self._wishes:
                file = stack.enter_context(wish.open("a"))
                fcntl.flock(file, fcntl.LOCK_SH)
            yield others

    def is_wanted(self) -> bool:
        """Return whether another worker waits: then the exclusive lock on a wait file fails."""
        for wish in self._wishes:
            lock = _try_lock(wish)
            if lock is None:
                return True
            lock.close()
        return False

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"

    def _wish(self, name: str) -> Path:
        return self._folder / f"{int(self._path(name).stem, 16) % _WISHES}.wanted"


class LocalUnit:
    """A board of this machine, held by a lock."""

    def __init__(self, board: Board, local: _Local, lock: IO[str], pool: LocalPool) -> None:
        self.name = f"{board.name}:{local.name}"
        self.board = board
        self.options: dict[str, Any] = {"probe": local.probe, "port": local.port}
        self._local = local
        self._lock = lock
        self._pool = pool

    def is_contended(self) -> bool:
        """Return whether another worker waits for a board of this pool."""
        return self._pool.is_wanted()

    def release(self) -> None:
        self._lock.close()
        self._pool.released(self._local)


def _try_lock(path: Path) -> IO[str] | None:
    """Return the locked file; None while another process or pool holds the lock."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
