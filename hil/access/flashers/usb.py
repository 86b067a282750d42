"""USB ids of the devices that flashers use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

#: The product ids of each vendor; None for all of them.
Ids: TypeAlias = Mapping[int, "tuple[int, ...] | None"]

STLINK: Final[Ids] = {
    0x0483: (
        *(0x3744, 0x3748, 0x374B, 0x374D, 0x374E, 0x374F, 0x3752, 0x3753, 0x3754, 0x3755, 0x3757),
    )
}
JLINK: Final[Ids] = {0x1366: None}
#: DAPLink, Raspberry Pi's probe, NXP's and Microchip's, Keil's.
CMSIS_DAP: Final[Ids] = {
    0x0D28: (0x0204,),
    0x2E8A: (0x000C,),
    0x1FC9: (0x0090, 0x0143),
    0x03EB: (0x2111, 0x2140, 0x2141, 0x2145, 0x216C, 0x2175),
    0xC251: None,
}
#: FT2232, FT4232, FT232H, and the JTAG of ESP32-C3 and later.
FTDI: Final[Ids] = {0x0403: (0x6010, 0x6011, 0x6014)}
ESP_JTAG: Final[Ids] = {0x303A: (0x1001,)}
#: The boot ROMs of RP2040 and RP2350, and their firmware with the reset interface.
PICO: Final[Ids] = {0x2E8A: (0x0003, 0x000F, 0x0009, 0x000A)}
#: Boards with a SAM-BA bootloader: Atmel, Arduino, Adafruit, SparkFun, Seeed.
SAM_BA: Final[Ids] = {
    0x03EB: (0x6124,),
    0x2341: None,
    0x2A03: None,
    0x239A: None,
    0x1B4F: None,
    0x2886: None,
}


def merged(*tables: Ids) -> Ids:
    """Return one table of several, of different vendors or products."""
    found: dict[int, tuple[int, ...] | None] = {}
    for table in tables:
        for vendor, products in table.items():
            known = found.get(vendor, ())
            found[vendor] = None if products is None or known is None else (*known, *products)
    return found


def has(ids: Ids, vendor: int, product: int) -> bool:
    """Return whether ``ids`` contains a device."""
    products = ids.get(vendor, ())
    return products is None or product in products
