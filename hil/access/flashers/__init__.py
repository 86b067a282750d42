"""Flashers by programs: each is a module, most of them a table of command lines."""

from __future__ import annotations

from typing import Final

from hil.access.flashers.bossac import Bossac
from hil.access.flashers.command import UserCommand
from hil.access.flashers.dfu_util import DfuUtil
from hil.access.flashers.drive import ProbeDrive
from hil.access.flashers.esptool import EspTool
from hil.access.flashers.jlink import JLink
from hil.access.flashers.nrfutil import NrfUtil
from hil.access.flashers.openocd import OpenOcd
from hil.access.flashers.picotool import PicoTool
from hil.access.flashers.probe_rs import ProbeRs
from hil.access.flashers.st_flash import StFlash
from hil.access.flashers.stm32cube import Stm32Cube
from hil.access.flashers.uf2 import Uf2
from hil.access.protocols import Flasher

#: In the order in which they are listed.
FLASHERS: Final[tuple[Flasher, ...]] = (
    OpenOcd(),
    ProbeRs(),
    JLink(),
    StFlash(),
    Stm32Cube(),
    NrfUtil(),
    EspTool(),
    ProbeDrive(),
    Uf2(),
    PicoTool(),
    DfuUtil(),
    Bossac(),
    UserCommand(),
)
