"""What programs are expected to cost is near what they do: whole models, on an emulated board each.

The search compares programs by these estimates only, so they have to hold for kernels as they are
and for the bands of layers that stream.
"""

from __future__ import annotations

import pytest
from models import model_path

import hil
import hilc
from hil.bench import layer_counts
from hil.board import load_board

#: By how much an estimate of instructions may be off, and one of flash.
_OFF, _OFF_FLASH = 0.25, 0.1


@pytest.mark.parametrize("name", ["mps2-an385", "mps2-an386", "mps3-an547"])
@pytest.mark.parametrize(
    ("model", "optimize"),
    # Layers of the larger models stream in other tests; the fastest program is found in a second.
    [("ad", "balanced"), ("kws", "balanced"), ("ic", "speed"), ("vww", "speed")],
)
def test_estimates_of_whole_programs(model: str, optimize: str, name: str) -> None:
    board = load_board(name)
    library = hilc.compile(
        model_path(model),
        cpu=board.cpu.name,
        name=model,
        optimize=optimize,
        io_in_pool=True,
        pools="external",
    )
    (module,) = library.modules
    estimate = library.reports[model].chosen
    with hil.open(board, library) as device:
        counted = sum(layer_counts(device, module))
        assert device.firmware is not None
        flash_bytes = device.firmware.sizes.models[model].flash_bytes
    assert estimate.instructions == pytest.approx(counted, rel=_OFF)
    assert estimate.flash_bytes == pytest.approx(flash_bytes, rel=_OFF_FLASH)
