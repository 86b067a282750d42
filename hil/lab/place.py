"""A board of a lab, acquired through a keeper process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import hil.errors
import hil.lab.errors
from hil.access.connection import Connection, Flashed
from hil.access.hardware import ProbedBoard
from hil.access.qemu import QemuBoard
from hil.board import Board
from hil.board.board import load_named_board
from hil.errors import DeviceError, HilError, InputError
from hil.lab.errors import BusyError, LostError
from hil.lab.selector import Selector, parse_selector
from hil.support.poll import is_readable
from hil.support.process import python_module
from hilc.support import optional

DEFAULT_ADDRESS = "127.0.0.1:20408"
#: Time to wait for a board that others use.
ACQUIRE_LIMIT_S = 600.0
#: Time to wait for another board after a failure.
OTHER_LIMIT_S = 30.0
_START_LIMIT_S = 30.0
_ANSWER_LIMIT_S = 30.0
_END_LIMIT_S = 10.0
#: Time to program a large image through a slow probe.
_FLASH_LIMIT_S = 180.0
_STATUS_LIMIT_S = 10.0
#: The board server detects a vanished client within this time.
_BUSY_LIMIT_S = 20.0
_POWER_LIMIT_S = 60.0
_RETRY_S = 0.2
#: HTTP header that names the user to the board server.
USER_HEADER = "X-Hil-User"
#: Errors that keep their class over the network: of boards and of inputs. Others become
#: DeviceError.
_ERRORS: dict[str, type[HilError]] = {
    name: error
    for module in (hil.errors, hil.lab.errors)
    for name, error in vars(module).items()
    if isinstance(error, type) and issubclass(error, (DeviceError, InputError))
}


def coordinator_address() -> str:
    """Return ``LG_COORDINATOR``, as labgrid's own programs do."""
    return os.environ.get("LG_COORDINATOR") or DEFAULT_ADDRESS


class Keeper:
    """The keeper process of this process: acquires places, and releases them even after a crash."""

    def __init__(self, address: str | None = None) -> None:
        optional.check_installed("labgrid", "a board of a lab")
        host, user = _owner()
        self.environment = {"LG_HOSTNAME": host, "LG_USERNAME": user}
        self.address = address or coordinator_address()
        self.owner = f"{host}/{user}"
        #: By place: why it is no longer held.
        self._lost: dict[str, str] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._requests = 0
        self._buffer = b""
        # In a session of its own: a signal to this process's group leaves it time to release the
        # places.
        self._process = subprocess.Popen(
            python_module("hil.lab.keeper", self.address, self.owner),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        try:
            self._wait(lambda: self._answers.pop(0, None), _START_LIMIT_S)
        except BaseException:
            self.close()
            raise

    def ask(self, do: str, answer_s: float = _ANSWER_LIMIT_S, **words: Any) -> dict[str, Any]:
        """Return the keeper's answer to one request."""
        self._requests += 1
        number = self._requests
        request = {"id": number, "do": do, **words}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self._ended() from None
        return self._wait(lambda: self._answers.pop(number, None), answer_s)

    def check(self, place: str) -> None:
        """Raise :class:`LostError` if ``place`` is no longer held. Takes microseconds."""
        self._read(0.0)
        if place in self._lost:
            raise LostError(f"the board is lost: {self._lost[place]}", "acquire it again")

    def forget(self, place: str) -> None:
        """Forget that the place was lost, since it is acquired again."""
        self._lost.pop(place, None)

    def close(self) -> None:
        """Release all places."""
        with contextlib.ExitStack() as stack:
            for pipe in (self._process.stdout, self._process.stdin):
                assert pipe is not None
                stack.callback(pipe.close)
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            # Other clients release the places when the leases expire.
            self._process.kill()
            self._process.wait()

    def _wait(self, answer: Any, limit_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        while (found := answer()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeviceError(
                    f"labgrid's coordinator at {self.address} gave no answer within {limit_s:g} s",
                    "check whether it runs: hil lab list",
                )
            self._read(left)
        result: dict[str, Any] = found
        if error := result.get("error"):
            raise _ERRORS.get(error["kind"], DeviceError)(error["message"], error["hint"])
        return result

    def _read(self, limit_s: float) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        if not is_readable(stdout, limit_s):
            return
        data = stdout.read(65536)
        if not data:
            raise self._ended()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "lost" in message:
                self._lost[message["lost"]] = message["why"]
            else:
                # Answer 0 reports that the keeper is ready, or why not.
                self._answers[message.get("id", 0)] = message

    def _ended(self) -> DeviceError:
        return DeviceError(
            "the keeper process of the lab's boards has ended",
            "run the command again; the boards become free within seconds",
        )


def _owner() -> tuple[str, str]:
    import getpass
    import secrets
    import socket

    host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
    user = os.environ.get("LG_USERNAME") or getpass.getuser()
    return host, f"hil.{user}.{os.getpid()}.{secrets.token_hex(4)}"


class LabBoard:
    """An acquired place."""

    def __init__(self, keeper: Keeper, place: dict[str, Any]) -> None:
        self._keeper = keeper
        self.place: str = place["name"]
        self.tags: dict[str, str] = place["tags"]
        keeper.forget(self.place)
        serial = place["resources"].get("NetworkSerialPort")
        control = place["resources"].get("NetworkService")
        if "board" not in self.tags:
            raise InputError(
                f"the place {self.place} has no tag board",
                f"labgrid-client -p {self.place} set-tags board=NAME, a name of `hil boards`",
            )
        if serial is None or control is None:
            missing = "NetworkService" if serial else "NetworkSerialPort"
            raise DeviceError(
                f"the place {self.place} has no {missing}",
                "start its exporter (hil lab serve), or add a match to the place",
            )
        if serial.get("protocol") != "raw":
            raise InputError(
                f"the serial line of {self.place} speaks {serial.get('protocol', 'rfc2217')}",
                "export it with `protocol: raw`",
            )
        self.board: Board = load_named_board(self.tags["board"])
        self._line_url = f"board://{serial['host']}:{serial['port']}"
        self._control_url = f"http://{control['address']}:{control['port']}"
        self._has_power = any("Power" in name for name in place["resources"])

    def flash(self, elf: Path) -> Flashed:
        """Program and start ``elf``; switch a failing board off and on once."""
        try:
            return self._flash(elf)
        except (BusyError, LostError):
            raise  # another client holds it
        except DeviceError:
            if not self._has_power:
                raise
            self.power_cycle()
            return self._flash(elf)

    def _flash(self, elf: Path) -> Flashed:
        data = elf.read_bytes()
        deadline = time.monotonic() + _BUSY_LIMIT_S
        while True:
            self.check()
            answer = self._ask("PUT", "/firmware", data, _FLASH_LIMIT_S)
            error = answer.get("error")
            if error is None:
                return Flashed(**answer)
            # Its last user vanished just now: the server detects it within this time.
            if error["kind"] != "BusyError" or time.monotonic() > deadline:
                kind = _ERRORS.get(error["kind"], DeviceError)
                raise kind(f"{self.place}: {error['message']}", error.get("hint", ""))
            time.sleep(_RETRY_S)

    def status(self) -> dict[str, Any]:
        """Return the board server's state."""
        return self._ask("GET", "/status", None, _STATUS_LIMIT_S)

    def power_cycle(self) -> None:
        """Switch the board off and on by labgrid's power resource.

        Raise :class:`DeviceError` if the power is not switched in time.
        """
        command = python_module("labgrid.remote.client", "-p", self.place, "power", "cycle")
        environment = {
            **os.environ,
            **self._keeper.environment,
            "LG_COORDINATOR": self._keeper.address,
        }
        try:
            subprocess.run(
                command,
                env=environment,
                check=True,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_POWER_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            raise DeviceError(
                f"the power of {self.place} was not switched within {_POWER_LIMIT_S:g} s",
                "check whether its power switch answers",
            ) from None
        except subprocess.CalledProcessError as error:
            said = (error.stderr or error.stdout).strip().splitlines()
            raise DeviceError(
                f"labgrid cannot switch the power of {self.place}: {said[-1] if said else error}",
                "check whether its power switch answers",
            ) from None

    @contextlib.contextmanager
    def start(self, elf: Path, connection: Connection) -> Iterator[ProbedBoard | QemuBoard]:
        """Program and start ``elf``; the board keeps running after the context."""
        done = self.flash(elf)
        if connection.flashed is not None:
            connection.flashed(done)
        if self.board.qemu is not None and self.status().get("runner") == "qemu":
            shift = self.board.qemu.icount_shift
            yield QemuBoard(self.check, self._line_url, None, shift)
        else:
            yield _Remote(self._line_url, self)

    def check(self) -> None:
        """Raise :class:`DeviceError` if the place is no longer held."""
        self._keeper.check(self.place)

    def release(self) -> None:
        """Release the place, for other clients."""
        self._keeper.ask("release", place=self.place)

    def is_contended(self) -> bool:
        """Return whether another client waits for a board like this one."""
        return bool(self._keeper.ask("contended", place=self.place)["contended"])

    def _ask(self, method: str, path: str, body: bytes | None, limit_s: float) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._control_url}{path}", data=body, method=method)
        request.add_header(USER_HEADER, self._keeper.owner)
        try:
            with DIRECT.open(request, timeout=limit_s) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                answer = json.load(error)
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise DeviceError(
                f"the board server of {self.place} at {self._control_url} does not answer: "
                f"{reason}",
                "start it on the exporter's machine (hil lab serve)",
            ) from None
        return answer


# Machines of a lab are not reached through the web proxy.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class _Remote(ProbedBoard):
    def __init__(self, url: str, lab: LabBoard) -> None:
        super().__init__(url, None)
        self._lab = lab

    def alive(self) -> None:
        """Raise if the board is no longer held."""
        self._lab.check()


def acquire(keeper: Keeper, selector: Selector, limit_s: float = ACQUIRE_LIMIT_S) -> LabBoard:
    """Return the first matching board that becomes free."""
    answer = keeper.ask("acquire", limit_s + _ANSWER_LIMIT_S, tags=selector.tags, limit_s=limit_s)
    try:
        return LabBoard(keeper, answer["place"])
    except BaseException:
        keeper.ask("release", place=answer["place"]["name"])
        raise


def acquire_other(
    keeper: Keeper, selector: Selector, avoid: Collection[str], limit_s: float = ACQUIRE_LIMIT_S
) -> LabBoard:
    """Return a matching board that becomes free: one of none of the places ``avoid``, if another
    becomes free within ``OTHER_LIMIT_S``, else one of these.
    """
    held = [acquire(keeper, selector, limit_s)]
    try:
        places = matching(keeper, selector) if held[0].place in avoid else ()
        # Acquired before the first is released: the lab could give the same one again.
        while held[-1].place in avoid and not set(places) <= {*avoid, *(b.place for b in held)}:
            held.append(acquire(keeper, selector, OTHER_LIMIT_S))
    except HilError:
        pass  # the others are in use, or the lab has none
    except BaseException:
        for board in held:
            board.release()
        raise
    chosen = held[-1] if held[-1].place not in avoid else held[0]
    for board in held:
        if board is not chosen:
            board.release()
    return chosen


def matching(keeper: Keeper, selector: Selector) -> list[str]:
    """Return the names of the places that match and have their resources."""
    places = keeper.ask("list")["places"]
    return [
        place["name"]
        for place in places
        if selector.fits(place["name"], place["tags"]) and place["resources"]
    ]


def check_known(selector: Selector) -> None:
    """Raise if there is no coordinator or none of its places matches."""
    with contextlib.closing(Keeper()) as keeper:
        keeper.ask("check", tags=selector.tags)


@contextlib.contextmanager
def leased(
    spec: str | Selector, limit_s: float = ACQUIRE_LIMIT_S, avoid: Collection[str] = ()
) -> Iterator[LabBoard]:
    """Acquire a board of the lab until the context or this process ends; rather none of the places
    ``avoid``.

    Raise :class:`InputError` if ``spec`` is not a lab selector.
    """
    selector = parse_selector(spec) if isinstance(spec, str) else spec
    if selector is None:
        raise InputError(f"{spec!r} is not a lab selector", "write lab:PLACE or TAG=VALUE")
    keeper = Keeper()
    try:
        yield acquire_other(keeper, selector, avoid, limit_s)
    finally:
        keeper.close()
