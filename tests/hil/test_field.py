"""A sample of the campaign ``field``, and what it found before."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from pyocd.core import exceptions
from torture.campaign import Budget
from torture.field.disk import full
from torture.field.forked import Forked
from torture.field.killed import jumping, killed
from torture.field.power import lost
from torture.field.resets import reset, undisturbed
from torture.field.world import JOBS, world

from hil import virtual_probe
from hil.access.pyocd import flash
from hil.board import load_board
from hil.errors import InputError, ProbeError
from hil.virtual_probe.probe import VirtualProbe

#: Frames before the first request of the caller: the device asks what models there are.
_OPENING = (10,)


@pytest.mark.parametrize("at", _OPENING)
def test_a_restart_while_opening_is_recovered_from(at: int) -> None:
    _, expected = undisturbed()
    for to_board in (True, False):
        wrong, is_done = reset(at, 0.5, to_board, expected)
        assert (wrong, is_done) == ("", True)


@pytest.mark.full
@pytest.mark.parametrize("at", [34])
def test_a_probe_is_free_after_connecting_has_failed(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyOCD's session is not open then, but holds the probe."""
    board = load_board("microbit")
    real, transfers = VirtualProbe._checked, iter(range(1 << 20))

    def checked(probe: VirtualProbe, access: Any) -> Any:
        if next(transfers) >= at:
            raise exceptions.ProbeDisconnected("gone")
        return real(probe, access)

    with virtual_probe.start(board) as (virtual, _):
        with monkeypatch.context() as patch:
            patch.setattr(VirtualProbe, "_checked", checked)
            # As the caller that reports it: the exception holds the frames.
            with pytest.raises(ProbeError) as caught, flash.connected(board, virtual.uid):
                pass
        virtual.claim().close()
        assert caught.value.hint
        with flash.connected(board, virtual.uid) as session:
            assert session.target.read32(0) is not None


def test_deadlines_of_pyocd_ignore_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyocd.utility import timeout

    board = load_board("microbit")
    with virtual_probe.start(board) as (virtual, _), flash.connected(board, virtual.uid):
        with timeout.Timeout(60) as waiting:
            for name in ("time", "time_ns"):
                monkeypatch.setattr(f"time.{name}", lambda: 1e12)
            assert waiting.check()
        late = timeout.Timeout(0)
        late.start()
        assert not late.check()


def test_a_virtual_board_without_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "probes").write_text("a file")
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    with (
        pytest.raises(InputError, match="probes.*File exists") as caught,
        virtual_probe.start(load_board("microbit")),
    ):
        pass
    assert "HIL_CACHE" in caught.value.hint


@pytest.mark.full
def test_power_lost_while_programming(tmp_path: Path) -> None:
    for tally in lost(Budget(False, 2, tmp_path)):
        assert not tally.findings
        assert tally.told == 12


@pytest.mark.full
def test_full_disks_killed_commands_and_jumping_clocks(tmp_path: Path) -> None:
    budget = Budget(False, 2, tmp_path)
    jobs = JOBS[:1]
    with world() as made, Forked(made.environment) as server, contextlib.ExitStack() as stack:
        stack.callback(made.heal)
        made.prepare(server, jobs)
        tallies = [
            *full(made, server, budget, jobs),
            *killed(made, server, budget, jobs),
            *jumping(made, server, budget, jobs),
        ]
    assert [tally.findings for tally in tallies] == [[]] * 4
    assert tallies[0].told == 6, "the disk was never full"
    assert tallies[2].told > 0, "no command was killed"
