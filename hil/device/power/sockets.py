"""Switched sockets and relays in the local network that speak HTTP: Shelly and Tasmota.

A request is sent to the stated host only: no proxy, no redirect, no password. The answer is
bounded in size and time, and must confirm the state.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from hil.device.power.switch import Switch, state
from hil.errors import DeviceError

if TYPE_CHECKING:
    from http.client import HTTPMessage

#: Bytes of the largest answer; those of the known devices are below 4 KiB.
_LARGEST: Final = 1 << 16
_SHOWN: Final = 120


@dataclass(frozen=True)
class NetworkSwitch(Switch):
    """A switch at ``host``, a name or an address, with the port where it is not 80."""

    host: str
    #: Number of the output, as the device counts.
    channel: int

    def answer(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at ``path``; raise DeviceError for any other answer."""
        status, headers, body = self._get(path)
        if status in (401, 403):
            raise self.needs_password()
        if 300 <= status < 400:
            other = headers.get("Location", "")[:_SHOWN]
            raise self.failed(
                f"at {self.host} redirects to {other!r}, which is not followed",
                f"state the host that answers in place of {self.host}",
            )
        if status != 200:
            text = body.decode(errors="replace").strip()[:_SHOWN]
            raise self.failed(f"at {self.host} answers {path} with status {status}: {text!r}")
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise self.is_another(body.decode(errors="replace"))
        return values

    def needs_password(self) -> DeviceError:
        """Return the error for a device that asks for a password."""
        return self.failed(
            f"at {self.host} asks for a password, and hil sends none",
            "switch its authentication off, or state commands for on and off in config.toml",
        )

    def is_another(self, answer: object) -> DeviceError:
        """Return the error for an answer that a device of this kind does not give."""
        return self.failed(
            f"at {self.host} does not answer like a {type(self).__name__}: "
            f"{str(answer).strip()[:_SHOWN]!r}",
            "check host and driver",
        )

    def confirm(self, on: bool, reported: object) -> None:
        """Raise if the device reports another state than it was switched to."""
        if reported is not on:
            raise self.failed(
                f"at {self.host} did not switch {state(on)}: channel {self.channel} is "
                f"{state(not on)}",
                "is the device overloaded, locked, or switched by somebody else?",
            )

    def _get(self, path: str) -> tuple[int, HTTPMessage, bytes]:
        # Not at the top: most boards have no such socket.
        from http.client import HTTPConnection, HTTPException

        connection = HTTPConnection(self.host, timeout=self.timeout_s)
        expired = threading.Event()
        try:
            connection.connect()
            with _deadline(connection.sock, self.timeout_s, expired):
                connection.request("GET", path, headers={"Connection": "close"})
                response = connection.getresponse()
                body = response.read(_LARGEST + 1)
        except (OSError, HTTPException) as error:
            if expired.is_set() or isinstance(error, TimeoutError):
                raise self._is_late() from None
            # Only errors of the system have a text of their own.
            why = getattr(error, "strerror", None) or f"it sends no HTTP ({type(error).__name__})"
            raise self.failed(f"at {self.host} cannot be used: {why}", "check host") from None
        finally:
            connection.close()
        if expired.is_set():
            raise self._is_late()
        if len(body) > _LARGEST:
            raise self.failed(f"at {self.host} answers with more than {_LARGEST} bytes")
        return response.status, response.headers, body

    def _is_late(self) -> DeviceError:
        return self.failed(
            f"at {self.host} did not answer within {self.timeout_s:g} s", "check host and network"
        )


@contextlib.contextmanager
def _deadline(connected: socket.socket, limit_s: float, expired: threading.Event) -> Iterator[None]:
    """End the connection at the deadline: a socket's own timeout is for each byte."""

    def end() -> None:
        expired.set()
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass(frozen=True)
class Shelly(NetworkSwitch):
    """A Shelly of any generation: ``/shelly`` reports which."""

    def turn(self, on: bool) -> None:
        about = self.answer("/shelly")
        if isinstance(about.get("gen"), int):
            self._turn_by_rpc(on)
        elif isinstance(about.get("type"), str):
            done = self.answer(f"/relay/{self.channel}?turn={state(on)}")
            self.confirm(on, self._boolean(done, "ison"))
        else:
            raise self.is_another(dict(about))

    def _turn_by_rpc(self, on: bool) -> None:
        word = "true" if on else "false"
        self._boolean(self.answer(f"/rpc/Switch.Set?id={self.channel}&on={word}"), "was_on")
        # The answer to Switch.Set has the state before it only.
        status = self.answer(f"/rpc/Switch.GetStatus?id={self.channel}")
        self.confirm(on, self._boolean(status, "output"))

    def _boolean(self, values: Mapping[str, Any], key: str) -> bool:
        value = values.get(key)
        if not isinstance(value, bool):
            raise self.is_another(dict(values))
        return value


@dataclass(frozen=True)
class Tasmota(NetworkSwitch):
    """A device with the firmware Tasmota."""

    def turn(self, on: bool) -> None:
        command = quote(f"Power{self.channel} {'On' if on else 'Off'}")
        done = self.answer(f"/cm?cmnd={command}")
        if "WARNING" in done:
            raise self.needs_password()
        # A device with one output does not number it.
        reported = done.get(
            f"POWER{self.channel}", done.get("POWER") if self.channel == 1 else None
        )
        if reported not in ("ON", "OFF"):
            raise self.is_another(dict(done))
        self.confirm(on, reported == "ON")
