"""The history: what `hil verify`, `bench` and `evaluate` found, kept in a SQLite file.

:func:`history_path` says which file the user chose, :class:`History` writes and reads it,
:mod:`hil.history.comparison` compares measurements, and :mod:`hil.history.gate` holds them to
limits.
"""

from __future__ import annotations

from hil.history.store import Entry, History, history_path

__all__ = ["Entry", "History", "history_path"]
