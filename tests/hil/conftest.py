"""A firmware of the tests as a process, and a device that speaks to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from rpc_board import BoardProcess, running_board

from hil.device import Device
from hil.link.client import Client
from hil.link.line import Link


@pytest.fixture
def board() -> Iterator[BoardProcess]:
    with running_board() as running:
        yield running


@pytest.fixture
def device(board: BoardProcess) -> Iterator[Device]:
    with closing(Link(board.url)) as link:
        device = Device(Client(link), [])
        yield device
        device.close()
