"""Facts of chips from flashers, for new board descriptions."""

from __future__ import annotations

from hil.access.protocols import require
from hil.access.registry import flasher_named, flashers
from hil.board.chip import ChipFlasher
from hil.board.settings import parse_named


def chip_flasher(text: str) -> ChipFlasher:
    """Return the flasher, the settings and the chip of ``NAME[:KEY=VALUE,...]``.

    Raise :class:`~hil.errors.InputError` for an unknown flasher, setting or chip, and for settings
    of a flasher that describes no chips.
    """
    name, words = parse_named("--flasher", text)
    flasher = flasher_named(name)
    stated = {key: flasher.settings[key].parsed(word) for key, word in words.items()}
    if not stated:
        return ChipFlasher(name, flasher.settings_for(None))
    require(flasher, "chips", flashers())
    chip = flasher.chip(stated)
    return ChipFlasher(name, {**flasher.settings_for(chip), **stated}, chip)


def default_chip_flasher() -> ChipFlasher:
    """Return this project's first flasher, with the settings that suit any chip."""
    return chip_flasher(next(iter(flashers())))
