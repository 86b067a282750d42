"""An exporter of Jumpstarter for tests: a board that is a machine of QEMU, with a power switch.

``python qemu_exporter.py CONFIG`` serves an exporter's configuration as `jmp shell` does, and
prints its address. Its drivers are Jumpstarter's own but for the two of this module, which stand
for a flasher and a power switch: QEMU needs neither.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from jumpstarter.config.exporter import ExporterConfigV1Alpha1
from jumpstarter.driver import Driver, export
from jumpstarter.driver.flasher import FlasherInterface
from jumpstarter_driver_power.common import PowerReading
from jumpstarter_driver_power.driver import PowerInterface


@dataclass(kw_only=True)
class QemuPower(PowerInterface, Driver):
    """Runs the firmware ``image`` by the words of ``command`` while it is switched on."""

    image: str
    command: list[str]
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    @export
    async def on(self) -> None:
        """Start the machine, unless it runs or there is no firmware yet."""
        if self._process is None and Path(self.image).exists():
            self._process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)

    @export
    async def off(self) -> None:
        """End the machine."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @export
    async def read(self) -> AsyncGenerator[PowerReading, None]:
        """Yield nothing: there is no meter."""
        return
        yield

    def close(self) -> None:
        """End the machine with the exporter."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@dataclass(kw_only=True)
class FileFlasher(FlasherInterface, Driver):
    """Puts the firmware into the file ``image``; one that begins with ``refused`` fails."""

    image: str
    refused: str = ""

    @export
    async def flash(self, source: Any, target: str | None = None) -> None:
        """Store the firmware."""
        data = b""
        async with self.resource(source) as stream:
            async for part in stream:
                data += part
        if self.refused and data.startswith(self.refused.encode()):
            raise RuntimeError("the chip is locked")
        await anyio.Path(self.image).write_bytes(data)

    @export
    async def dump(self, target: Any, partition: str | None = None) -> None:
        """Refuse: no test reads back."""
        raise NotImplementedError


def configuration(folder: Path, command: list[str], **export: Any) -> dict[str, Any]:
    """Return an exporter's configuration: a board that ``command`` runs, whose words may have
    ``{image}`` and ``{port}``, and the drivers ``export`` in place of those of their names.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    image = str(folder / "exported.elf")
    words = [word.format(image=image, port=port) for word in command]
    own = "qemu_exporter"
    serial = {"url": f"socket://127.0.0.1:{port}", "check_present": False}
    drivers: dict[str, Any] = {
        "serial": {"type": "jumpstarter_driver_pyserial.driver.PySerial", "config": serial},
        "flasher": {"type": f"{own}.FileFlasher", "config": {"image": image}},
        "power": {"type": f"{own}.QemuPower", "config": {"image": image, "command": words}},
        **export,
    }
    return {
        "apiVersion": "jumpstarter.dev/v1alpha1",
        "kind": "ExporterConfig",
        "metadata": {"namespace": "default", "name": "bench"},
        "export": {name: driver for name, driver in drivers.items() if driver is not None},
    }


@contextlib.contextmanager
def served(file: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve a configuration in a process of its own; yield its address and the process."""
    command = [sys.executable, __file__, str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()


def main() -> None:
    """Serve until standard input ends."""
    with ExporterConfigV1Alpha1.load_path(Path(sys.argv[1])).serve_unix() as address:
        print(address, flush=True)
        while sys.stdin.readline():
            pass


if __name__ == "__main__":
    main()
