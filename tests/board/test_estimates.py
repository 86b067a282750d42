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

#: By how much an estimate may be off.
_OFF = 0.25


@pytest.mark.parametrize("name", ["mps2-an385", "mps2-an386", "mps3-an547"])
@pytest.mark.parametrize("model", ["ad", "kws"])
def test_estimates_of_whole_programs(model: str, name: str) -> None:
    board = load_board(name)
    library = hilc.compile(
        model_path(model), cpu=board.cpu.name, name=model, io_in_pool=True, pools="external"
    )
    (module,) = library.modules
    estimate = library.reports[model].chosen.instructions
    with hil.open(board, library) as device:
        counted = sum(layer_counts(device, module))
    assert estimate == pytest.approx(counted, rel=_OFF)
