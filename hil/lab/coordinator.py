"""A session with labgrid's coordinator: places, resources and reservations.

labgrid does not bind an acquired place to a session: it stays acquired when its user is gone. So
each session acquires places under a unique owner name (:func:`owner_name`) and *touches* them every
``BEAT_S``; the coordinator records the time. A client that waits for a board releases a place of
such an owner if the place was not touched for ``LEASE_S`` by the client's own clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import Any

import grpc
from labgrid.remote.common import Place as LabgridPlace
from labgrid.remote.common import build_dict_from_map
from labgrid.remote.generated import labgrid_coordinator_pb2 as pb
from labgrid.remote.generated import labgrid_coordinator_pb2_grpc as pb_grpc
from labgrid.util import labgrid_version

from hil.errors import DeviceError
from hil.lab.errors import NoPlaceError
from hil.lab.selector import Selector

#: Interval between touches of an acquired place, and time without one until it is abandoned.
BEAT_S, LEASE_S = 3.0, 15.0
_CALL_LIMIT_S = 12.0  # the coordinator itself waits up to 10 s for an exporter
_CONNECT_LIMIT_S = 5.0
#: Poll interval while waiting for a place: the coordinator does not announce every change.
_LOOK_S = 1.0
_OWNER = re.compile(r"[^/]+/hil\.[^/]+\.\d+\.[0-9a-f]{8}")
_RESERVATION_WAITING, _RESERVATION_ALLOCATED = 0, 1


@dataclass(frozen=True)
class Place:
    """A place as last reported by the coordinator."""

    name: str
    tags: dict[str, str]
    #: ``host/user``; empty if the place is free.
    acquired: str
    #: Time of the last touch by the coordinator's clock.
    changed: float
    reservation: str
    #: Parameters of its available resources, by class.
    resources: dict[str, dict[str, Any]]


class Coordinator:
    """A session with the coordinator; :func:`connect` opens one."""

    def __init__(self, address: str, owner: str, stub: Any) -> None:
        self.address = address
        self.owner = owner
        self._stub = stub
        self._places: dict[str, Any] = {}
        self._resources: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self._out: asyncio.Queue[Any] = asyncio.Queue()
        self._synced = asyncio.Event()
        self._changed = asyncio.Event()
        #: Set when the connection to the coordinator is lost.
        self.ended = asyncio.Event()
        # Own clock when this session first saw a place with (owner, touched).
        self._seen: dict[str, tuple[str, float, float]] = {}

    def places(self) -> list[Place]:
        """Return the places, sorted by name."""
        return [self._place(message) for _, message in sorted(self._places.items())]

    def place(self, name: str) -> Place | None:
        """Return the place of this name; None if the coordinator has none."""
        message = self._places.get(name)
        return self._place(message) if message is not None else None

    def _place(self, message: Any) -> Place:
        place = LabgridPlace.from_pb2(message)
        mine = {path[2]: params for path, params in self._resources.items() if place.hasmatch(path)}
        return Place(
            message.name,
            dict(message.tags),
            message.acquired,
            message.changed,
            message.reservation,
            mine,
        )

    async def changed(self, limit_s: float) -> None:
        """Return after a change, or after ``limit_s``."""
        self._changed.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), limit_s)

    # -- acquiring -------------------------------------------------------------------------------

    async def acquire(self, selector: Selector, limit_s: float) -> Place:
        """Acquire a free place that matches and whose exporter runs; first come, first served."""
        deadline = time.monotonic() + limit_s
        # The coordinator also assigns a place without exporter; while it is held, it is not
        # assigned again.
        offline: list[str] = []
        try:
            while True:
                place = await self._acquire_any(selector, deadline)
                if place.resources:
                    return place
                offline.append(place.name)
        finally:
            for name in offline:
                await asyncio.shield(self.release(name))

    async def _acquire_any(self, selector: Selector, deadline: float) -> Place:
        while True:
            await self.check_selector(selector)
            token = await self._reserve(selector)
            try:
                name = await self._allocated(selector, token, deadline)
                try:
                    await self._call(
                        self._stub.AcquirePlace(pb.AcquirePlaceRequest(placename=name))
                    )
                except _Refused:
                    pass  # acquired by another client meanwhile, or its exporter does not answer
                else:
                    return await self._fresh(name)
            finally:
                # The acquisition suffices; the reservation would outlast it.
                with contextlib.suppress(_Refused):
                    cancel = pb.CancelReservationRequest(token=token)
                    await asyncio.shield(self._call(self._stub.CancelReservation(cancel)))
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"the place {name} was reserved, but could not be acquired",
                    "check whether its exporter answers: labgrid-client resources -a",
                )
            await asyncio.sleep(_LOOK_S)

    async def check_selector(self, selector: Selector) -> None:
        """Raise :class:`NoPlaceError` if no place matches, :class:`DeviceError` if all are off."""
        # A place that was defined just now may not have been announced yet.
        await self.refresh()
        fits = [place for place in self.places() if selector.fits(place.name, place.tags)]
        if fits and not any(place.resources for place in fits):
            raise DeviceError(
                f"no exporter offers {', '.join(place.name for place in fits)}",
                "start it on the board's machine (hil lab serve), or add a match to the place",
            )
        if not fits:
            raise NoPlaceError(
                f"the lab at {self.address} has no place that matches {selector}",
                "`hil lab list` shows the places and their tags",
            )

    async def _reserve(self, selector: Selector) -> str:
        request = pb.CreateReservationRequest(prio=0.0)
        for key, value in selector.tags:
            request.filters["main"].filter[key] = value
        answer = await self._call(self._stub.CreateReservation(request))
        return str(answer.reservation.token)

    async def _allocated(self, selector: Selector, token: str, deadline: float) -> str:
        while True:
            request = pb.PollReservationRequest(token=token)
            answer = await self._call(self._stub.PollReservation(request))
            if answer.reservation.state == _RESERVATION_ALLOCATED:
                return str(answer.reservation.allocations["main"])
            await self.reap(selector)
            end = min(deadline, time.monotonic() + _LOOK_S)
            while time.monotonic() < end:
                await self.changed(end - time.monotonic())
                if self.ended.is_set():
                    raise self.gone()
                if any(message.reservation == token for message in self._places.values()):
                    break
            if time.monotonic() >= deadline:
                users = {
                    place.acquired or "nobody"
                    for place in self.places()
                    if selector.fits(place.name, place.tags)
                }
                raise DeviceError(
                    f"no board of the lab that matches {selector} became free in time; "
                    f"users: {', '.join(sorted(users))}",
                    "wait and try again, or ask these users",
                )

    async def _fresh(self, name: str) -> Place:
        """Return the place's current state, which announcements may not have reported yet."""
        await self.refresh()
        return self._place(self._places[name])

    async def refresh(self) -> None:
        """Update :meth:`places` from the coordinator; announcements lag behind."""
        answer = await self._call(self._stub.GetPlaces(pb.GetPlacesRequest()))
        for message in answer.places:
            self._keep(message)

    def _keep(self, message: Any) -> None:
        """Store a report of a place; answers and announcements may arrive in any order."""
        known = self._places.get(message.name)
        if known is None or message.changed >= known.changed:
            self._places[message.name] = message

    async def release(self, name: str, owner: str | None = None) -> None:
        """Release the place if ``owner``, this session by default, still holds it."""
        request = pb.ReleasePlaceRequest(placename=name, fromuser=owner or self.owner)
        with contextlib.suppress(_Refused):
            await self._call(self._stub.ReleasePlace(request))

    async def define(self, name: str, tags: dict[str, str], match: str) -> None:
        """Define or move a place with these tags and resources (``exporter/group/*``)."""
        with contextlib.suppress(_Refused):
            await self._call(self._stub.AddPlace(pb.AddPlaceRequest(name=name)))
        await self._call(self._stub.SetPlaceTags(pb.SetPlaceTagsRequest(placename=name, tags=tags)))
        with contextlib.suppress(_Refused):
            request = pb.AddPlaceMatchRequest(placename=name, pattern=match)
            await self._call(self._stub.AddPlaceMatch(request))

    async def touch(self, name: str) -> None:
        """Renew the time of a place's last change, which shows that its user is alive."""
        await self._call(self._stub.SetPlaceTags(pb.SetPlaceTagsRequest(placename=name)))

    async def is_contended(self, name: str) -> bool:
        """Return whether a client waits for a place like this one."""
        place = self.place(name)
        answer = await self._call(self._stub.GetReservations(pb.GetReservationsRequest()))
        return place is not None and any(
            Selector(tuple(reservation.filters["main"].filter.items())).fits(place.name, place.tags)
            for reservation in answer.reservations
            if reservation.state == _RESERVATION_WAITING
        )

    async def reap(self, selector: Selector | None = None) -> list[str]:
        """Release abandoned places; return their names.

        A place counts as abandoned after ``LEASE_S`` of this session, so repeat the call.
        """
        freed = []
        now = time.monotonic()
        for place in self.places():
            if not _OWNER.fullmatch(place.acquired):
                self._seen.pop(place.name, None)
                continue
            owner, changed, since = self._seen.get(place.name, ("", 0.0, now))
            if (owner, changed) != (place.acquired, place.changed):
                self._seen[place.name] = (place.acquired, place.changed, now)
            elif now - since > LEASE_S and (
                selector is None or selector.fits(place.name, place.tags)
            ):
                # Only that owner's acquisition: another client may hold the place by now.
                await self.release(place.name, place.acquired)
                freed.append(place.name)
        return freed

    # -- the session -----------------------------------------------------------------------------

    async def _call(self, call: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(call, _CALL_LIMIT_S)
        except asyncio.TimeoutError:
            raise self.gone() from None
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise self.gone() from None
            raise _Refused(f"labgrid's coordinator refuses: {error.details()}") from None

    def gone(self) -> DeviceError:
        """Return the error for a coordinator that does not answer."""
        return DeviceError(
            f"labgrid's coordinator at {self.address} does not answer",
            "start it, or set LG_COORDINATOR to HOST:PORT",
        )

    async def _listen(self) -> None:
        try:
            async for message in self._stub.ClientStream(self._requests()):
                for update in message.updates:
                    self._update(update)
                if message.HasField("sync"):
                    self._synced.set()
                self._changed.set()
        except grpc.aio.AioRpcError:
            pass
        finally:
            self.ended.set()
            self._changed.set()

    async def _requests(self) -> AsyncIterator[Any]:
        startup = pb.ClientInMessage()
        startup.startup.version = labgrid_version()
        startup.startup.name = self.owner
        subscription = pb.ClientInMessage()
        subscription.subscribe.all_places = True
        resources = pb.ClientInMessage()
        resources.subscribe.all_resources = True
        sync = pb.ClientInMessage()
        sync.sync.id = 1
        for message in (startup, subscription, resources, sync):
            yield message
        await self.ended.wait()

    def _update(self, update: Any) -> None:
        kind = update.WhichOneof("kind")
        if kind == "place":
            self._keep(update.place)
        elif kind == "del_place":
            self._places.pop(update.del_place, None)
        elif kind == "resource":
            path = update.resource.path
            key = (path.exporter_name, path.group_name, update.resource.cls, path.resource_name)
            self._resources[key] = build_dict_from_map(update.resource.params)
        elif kind == "del_resource":
            path = update.del_resource
            gone = (path.exporter_name, path.group_name, path.resource_name)
            for key in [key for key in self._resources if (key[0], key[1], key[3]) == gone]:
                del self._resources[key]


class _Refused(DeviceError):
    """Error for a request that the coordinator refused."""


@contextlib.asynccontextmanager
async def connect(address: str, owner: str) -> AsyncIterator[Coordinator]:
    """Open a session as ``owner``; raise :class:`DeviceError` if the coordinator is missing."""
    options = [
        # Keepalive detects a vanished coordinator after about 10 s instead of hours.
        ("grpc.keepalive_time_ms", 7500),
        ("grpc.keepalive_timeout_ms", 5000),
        ("grpc.http2.ping_timeout_ms", 5000),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        session = Coordinator(address, owner, pb_grpc.CoordinatorStub(channel))
        listen = asyncio.create_task(session._listen())
        try:
            synced = asyncio.create_task(session._synced.wait())
            # A refused connection ends the listening immediately.
            await asyncio.wait(
                {synced, listen}, timeout=_CONNECT_LIMIT_S, return_when="FIRST_COMPLETED"
            )
            synced.cancel()
            if not session._synced.is_set():
                raise session.gone()
            yield session
        finally:
            session.ended.set()
            listen.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listen
