"""``python -m hil.lab.keeper ADDRESS``: hold the places that a process acquired until it ends.

It reads requests from stdin and writes answers to stdout, one JSON object per line. When stdin
ends, also because its user crashed or was killed, the keeper releases all places at once. If the
keeper is killed as well, or the machine loses power, nothing touches the places any more, and a
waiting client releases them (:mod:`hil.lab.coordinator`).

=========  ======================  =============================================================
do         with                    answers
=========  ======================  =============================================================
acquire    tags, limit_s           place: name, tags, resources
release    place
check      tags                    nothing; an error if no place matches
contended  place                   contended: whether a client waits for such a place
list                               places
reap                               freed: names of abandoned places that were released
define     place, tags, match
=========  ======================  =============================================================

An answer carries the request's ``id``, and ``error`` (kind, message, hint) if the request failed.
An unrequested line ``{"lost": place, "why": ...}`` reports a place that is no longer held.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any

from hil.errors import DeviceError, HilError
from hil.lab.coordinator import BEAT_S, Coordinator, connect
from hil.lab.selector import Selector

#: Interval for checking that the user's process runs: a child of it could keep the pipe open.
_PARENT_LOOK_S = 0.5


class _Keeper:
    def __init__(self, lab: Coordinator) -> None:
        self._lab = lab
        self._held: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, lines: asyncio.StreamReader) -> None:
        """Answer requests until their end, then release all held places."""
        keep = [asyncio.create_task(self._beat()), asyncio.create_task(self._watch())]
        try:
            while line := await lines.readline():
                request = json.loads(line)
                task = asyncio.create_task(self._answer(request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            waiting = [*keep, *self._tasks]
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            with contextlib.suppress(HilError):
                for name in sorted(self._held):
                    await self._lab.release(name)

    async def _answer(self, request: dict[str, Any]) -> None:
        try:
            answer = await self._do(request)
        except HilError as error:
            answer = _error(error)
        _say({"id": request["id"], **answer})

    async def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        do = request["do"]
        if do == "acquire":
            place = await self._lab.acquire(_selector(request), float(request["limit_s"]))
            self._held.add(place.name)
            return {"place": asdict(place)}
        if do == "release":
            self._held.discard(request["place"])
            await self._lab.release(request["place"])
            return {}
        if do == "contended":
            return {"contended": await self._lab.is_contended(request["place"])}
        if do == "reap":
            return {"freed": await self._lab.reap()}
        if do == "check":
            await self._lab.check_selector(_selector(request))
            return {}
        if do == "define":
            await self._lab.define(request["place"], request["tags"], request["match"])
            return {}
        assert do == "list", do
        await self._lab.refresh()
        return {"places": [asdict(place) for place in self._lab.places()]}

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            for name in sorted(self._held):
                # _watch reports a lost coordinator.
                with contextlib.suppress(DeviceError):
                    await self._lab.touch(name)

    async def _watch(self) -> None:
        while True:
            await self._lab.changed(BEAT_S)
            for name in sorted(self._held):
                place = self._lab.place(name)
                if self._lab.ended.is_set():
                    self._lose(name, str(self._lab.gone().fact))
                elif place is None:
                    self._lose(name, f"the place {name} was deleted")
                elif place.acquired != self._lab.owner:
                    self._lose(name, f"the place {name} was released by another client")
            if self._lab.ended.is_set():
                return

    def _lose(self, name: str, why: str) -> None:
        self._held.discard(name)
        _say({"lost": name, "why": why})


def _selector(request: dict[str, Any]) -> Selector:
    return Selector(tuple((str(key), str(value)) for key, value in request["tags"]))


def _error(error: HilError) -> dict[str, Any]:
    kind = type(error).__name__
    return {"error": {"kind": kind, "message": error.fact, "hint": error.hint}}


def _say(answer: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


async def _serve(address: str, owner: str) -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lines.feed_eof)
    orphaned = asyncio.create_task(_end_with_parent(lines))
    async with connect(address, owner) as lab:
        _say({"ready": owner})
        await _Keeper(lab).serve(lines)
    orphaned.cancel()


async def _end_with_parent(lines: asyncio.StreamReader) -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_LOOK_S)
    lines.feed_eof()


def main() -> int:
    """Hold places as OWNER of the coordinator at ADDRESS."""
    address, owner = sys.argv[1:]
    # Ignore Ctrl-C: the keeper ends when the user's process does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_serve(address, owner))
    except HilError as error:
        _say(_error(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
