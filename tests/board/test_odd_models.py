"""Models with something that few models have, on a board: equal in every byte and layer."""

from __future__ import annotations

import pytest
import tflm
from odd_models import ODD_MODELS, reference_name

import hil
import hilc
from hil import verify
from hil.board import load_board
from hil.oracle import reference_of
from hil.verify.samples import random_sample


@pytest.mark.full  # It changes rarely, and takes long.
@tflm.needs_tflm
def test_on_a_board():
    board = load_board("mps2-an386")
    libraries = [
        hilc.compile(
            build(), cpu=board.cpu.name, name=name, pools="external", io_in_pool=index % 2 == 0
        )
        for index, (name, build) in enumerate(ODD_MODELS.items())
    ]
    with hil.open(board, *libraries) as device:
        for library in libraries:
            (module,) = library.modules
            report = verify(
                device[module.name],
                [random_sample(module.inputs, 2, index) for index in range(2)],
                reference_of(library, module, reference_name(module.name)),
                board=board.name,
                per_layer=True,
            )
            report.check()
            assert not any(layer.uncompared for layer in report.layers or ())
