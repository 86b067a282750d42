"""An exporter of Jumpstarter for tests: a board that is a machine of QEMU, with a power switch.

``python qemu_exporter.py CONFIG`` serves an exporter's configuration as `jmp shell` does, and
prints its address. Its drivers are Jumpstarter's own but for the two of this module, which stand
for a flasher and a power switch: QEMU needs neither.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
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


def main() -> None:
    """Serve until standard input ends."""
    with ExporterConfigV1Alpha1.load_path(Path(sys.argv[1])).serve_unix() as address:
        print(address, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while sys.stdin.readline():
                pass
            threading.Event().wait(0.0)


if __name__ == "__main__":
    main()
