"""``python -m hil.access.jumpstarter.client JSON``: a connection to an exporter of Jumpstarter.

The argument names the exporter (``""``: that of the surrounding ``jmp shell``), its drivers
(``""``: the only one of its kind) and the descriptor of a listening socket, whose clients get the
serial line, one at a time. Requests are lines of JSON on standard input, answered by one line each:

=======  ======  ==================================================================
do       with    what is done
=======  ======  ==================================================================
flash    image   switch the power on, program the file, switch off and on to start it
cycle            switch the power off and on
=======  ======  ==================================================================

The first line answers the connection: ``has_power``. An ``error`` has kind, message and hint. The
process ends with its standard input, with SIGTERM, and when the exporter closes the serial line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

import grpc
from google.protobuf import empty_pb2
from jumpstarter.client import DriverClient
from jumpstarter.config.exporter import ExporterConfigV1Alpha1
from jumpstarter.utils.env import env
from jumpstarter_driver_power.client import PowerClient
from jumpstarter_driver_pyserial.client import PySerialClient
from pydantic import ValidationError
from yaml import YAMLError

from hil.access.jumpstarter.runner import HOST_VARIABLE
from hil.errors import DeviceError, FlashError, HilError, InputError

_READ_BYTES = 65536
#: Time for a serial port to appear after its board was switched on, and between two looks.
_APPEAR_LIMIT_S, _RETRY_S = 10.0, 0.1
#: Time for an exporter to answer at all.
_ANSWER_LIMIT_S = 3.0
#: The base of clients of flashers: Jumpstarter has two of this name, whose `flash` is the same.
_FLASHER = "FlasherClientInterface"


class _Flasher(Protocol):
    def flash(self, path: str) -> Any:
        """Program the file."""


def _drivers(root: DriverClient, prefix: str = "") -> Iterator[tuple[str, DriverClient]]:
    """Yield the drivers below ``root`` by their names, those of a composite as ``board.serial``."""
    for name, child in root.children.items():
        yield f"{prefix}{name}", child
        yield from _drivers(child, f"{prefix}{name}.")


def _is_serial(driver: DriverClient) -> bool:
    return isinstance(driver, PySerialClient)


def _is_flasher(driver: DriverClient) -> bool:
    return any(base.__name__ == _FLASHER for base in type(driver).__mro__)


def _is_power(driver: DriverClient) -> bool:
    return isinstance(driver, PowerClient)


_KINDS = {
    "serial": ("serial line", _is_serial),
    "flasher": ("flasher", _is_flasher),
    "power": ("power switch", _is_power),
}


def _chosen(root: DriverClient, kind: str, name: str) -> DriverClient | None:
    """Return the driver of a kind; None if the exporter has none and none is named.

    Raise :class:`~hil.errors.InputError` for an unknown name, and for several drivers.
    """
    words, fits = _KINDS[kind]
    known = dict(_drivers(root))
    found = {key: driver for key, driver in known.items() if fits(driver)}
    if name:
        if name not in known:
            raise InputError(
                f"it exports no driver {name!r}",
                f"choose one of {', '.join(known)}" if known else "add one to its configuration",
            )
        # A stream of another driver, such as a network's, may be a serial line as well.
        if name not in found and kind != "serial":
            able = ", ".join(found) or "none"
            raise InputError(f"its driver {name} is no {words}", f"those that are: {able}")
        return known[name]
    if len(found) > 1:
        raise InputError(
            f"it exports {len(found)} drivers that are a {words}: {', '.join(found)}",
            f"name one: --runner jumpstarter:{kind}={next(iter(found))}",
        )
    return next(iter(found.values()), None)


def _needed(root: DriverClient, kind: str, name: str) -> DriverClient:
    driver = _chosen(root, kind, name)
    if driver is None:
        names = ", ".join(name for name, _ in _drivers(root)) or "nothing"
        raise InputError(
            f"it exports no {_KINDS[kind][0]}, but {names}",
            "add a driver for it to the exporter's configuration (docs/how-to/lab.md), and install "
            "the driver's package here",
        )
    return driver


class _Line:
    """Forwards the serial line to the clients of a socket, one at a time."""

    def __init__(self, serial: DriverClient, listener: socket.socket) -> None:
        self._serial = serial
        self._listener = listener
        self._turn = asyncio.Lock()

    async def serve(self) -> None:
        """Accept clients until the end of the process."""
        server = await asyncio.start_unix_server(self._forward, sock=self._listener)
        async with server:
            await server.serve_forever()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._turn:
            deadline = time.monotonic() + _APPEAR_LIMIT_S
            client = _Client(reader, writer)
            try:
                while (why := await self._connected(client)) is not None:
                    # A board that was switched on may need a moment until its port is there.
                    if client.has_received or time.monotonic() > deadline:
                        _end(await self._why_lost(why))
                        return
                    await asyncio.sleep(_RETRY_S)
            finally:
                writer.close()

    async def _why_lost(self, error: Exception) -> str:
        try:
            report = self._serial.stub.GetReport(empty_pb2.Empty())
            await asyncio.wait_for(report, _ANSWER_LIMIT_S)
        except Exception:  # of gRPC: any says that nobody answers
            return "the exporter has ended, or cannot be reached any more"
        return f"the exporter closed the serial line: {_text(error)}"

    async def _connected(self, client: _Client) -> Exception | None:
        """Forward until the client closes; return why, if the exporter ended it."""
        try:
            async with self._serial.stream_async("connect") as stream:
                to_board = asyncio.create_task(client.send_to(stream))
                from_board = asyncio.create_task(client.receive_from(stream))
                await asyncio.wait((to_board, from_board), return_when=asyncio.FIRST_COMPLETED)
                is_closed = client.is_closed
                for task in (to_board, from_board):
                    task.cancel()
                ends = await asyncio.gather(to_board, from_board, return_exceptions=True)
        except Exception as error:  # of the exporter, its drivers and gRPC
            return error
        if is_closed:
            return None
        return next((end for end in ends if isinstance(end, Exception)), EOFError("its end"))


class _Client:
    """A client of the socket, and whether the board has sent anything to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.has_received = False
        self.is_closed = False

    async def send_to(self, stream: Any) -> None:
        """Send what the client writes to the board, until the client closes."""
        while data := await self._reader.read(_READ_BYTES):
            await stream.send(data)
        self.is_closed = True

    async def receive_from(self, stream: Any) -> None:
        """Send the board's bytes to the client, until the exporter ends the stream."""
        while True:
            data = await stream.receive()
            self.has_received = True
            with contextlib.suppress(ConnectionError):  # closed: the other task ends
                self._writer.write(data)
                await self._writer.drain()


def _text(error: object) -> str:
    """Return an error of Jumpstarter in one line: of a group the first."""
    while inner := getattr(error, "exceptions", None):
        error = inner[0]
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _end(why: str) -> None:
    """End the process from any thread; its user reads ``why``."""
    print(why, file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _connected(exporter: str) -> Iterator[DriverClient]:
    """Yield the drivers of an exporter: of a name in this machine's configuration, which is served
    here, or of the surrounding shell.
    """
    with contextlib.ExitStack() as stack:
        if exporter:
            host = stack.enter_context(_configuration(exporter).serve_unix())
            # As `jmp shell --exporter NAME` sets them.
            os.environ[HOST_VARIABLE] = str(host)
            os.environ["JMP_DRIVERS_ALLOW"] = "UNSAFE"
        # Its warnings are for users of Jumpstarter's shell.
        os.environ.setdefault("_JMP_SUPPRESS_DRIVER_WARNINGS", "1")
        yield stack.enter_context(env())


def _configuration(name: str) -> ExporterConfigV1Alpha1:
    if not ExporterConfigV1Alpha1.exists(name):
        folders = (ExporterConfigV1Alpha1.BASE_PATH, ExporterConfigV1Alpha1.SYSTEM_CONFIG_PATH)
        known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
        raise InputError(
            f"there is no {name}.yaml in {' or '.join(map(str, folders))}",
            f"choose one of {', '.join(known)}" if known else "make it: jmp config exporter create",
        )
    try:
        return ExporterConfigV1Alpha1.load(name)
    except (ValidationError, YAMLError, OSError) as error:
        raise InputError(
            f"{ExporterConfigV1Alpha1.resolve_path(name)} is no configuration of an exporter: "
            f"{_text(error)}",
            "correct it",
        ) from None


def _serve(words: dict[str, Any]) -> None:
    listener = socket.socket(fileno=int(words["line"]))
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(_connected(str(words["exporter"])))
        serial = _needed(root, "serial", words["serial"])
        flasher: Any = _needed(root, "flasher", words["flasher"])
        power = _chosen(root, "power", words["power"])
        forwarding = root.portal.start_task_soon(_Line(serial, listener).serve)
        stack.callback(forwarding.cancel)
        _say({"has_power": power is not None})
        for text in sys.stdin:
            request = json.loads(text)
            with _answered():
                if request["do"] == "flash":
                    _program(flasher, power, request["image"])
                else:
                    assert isinstance(power, PowerClient), "it is asked of a power switch only"
                    power.cycle()


def _program(flasher: _Flasher, power: Any, image: str) -> None:
    """Program and start an image, on a board that is switched on."""
    if power is not None:
        power.on()
    try:
        flasher.flash(image)
    except Exception as error:  # of the exporter, its driver and gRPC
        raise FlashError(
            f"its flasher failed: {_text(error)}", "see the exporter's log for the reason"
        ) from None
    if power is not None:
        power.cycle()


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """Answer a request: with ``error`` if it fails."""
    try:
        yield
    except HilError as error:
        _say(_error(error))
    except Exception as error:  # of the exporter, its driver and gRPC
        _say(_error(DeviceError(_text(error), "see the exporter's log for the reason")))
    else:
        _say({})


def _error(error: HilError) -> dict[str, Any]:
    kind = type(error).__name__
    return {"error": {"kind": kind, "message": error.fact, "hint": error.hint}}


def _say(answer: dict[str, Any]) -> None:
    _ANSWERS.write(json.dumps(answer) + "\n")
    _ANSWERS.flush()


#: Standard output is for answers only; drivers print to standard error.
_ANSWERS = os.fdopen(os.dup(1), "w")


def main() -> int:
    """Serve one connection; return the exit code."""
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its user's process
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    try:
        _serve(json.loads(sys.argv[1]))
    except HilError as error:
        _say(_error(error))
        return error.exit_code
    except Exception as error:  # of the exporter, its drivers and gRPC
        hint = "check whether the exporter runs; in a shell of Jumpstarter: j --help"
        _say(_error(DeviceError(f"it does not answer: {_text(error)}", hint)))
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
