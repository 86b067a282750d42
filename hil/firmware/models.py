"""``hil.compile``: a model for a board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import hilc
from hil.board import Board, load_board
from hilc.artifact.library import ModelLibrary
from hilc.errors import InputError
from hilc.options import RENAMED, CompileKeywords
from hilc.support.arguments import typed
from hilc.support.option import check_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


@typed
def compile(
    model: Any,
    samples: Any = None,
    *,
    board: str | Path | Board | None = None,
    **options: Unpack[CompileKeywords],
) -> ModelLibrary:
    """Return the library of a model, for ``hil.open`` or to be saved.

    ``model`` is a file or its bytes, a PyTorch module, a program of ``torch.export``, or an ONNX
    ``ModelProto``. ``samples`` are example arguments of a module, one or a tuple, which give the
    shapes of its inputs. The code is for the core of ``board``, or for ``cpu``; further options are
    those of :class:`hilc.CompileOptions`. Raise :class:`~hilc.errors.HilError` as
    :func:`hilc.compile` does.
    """
    known = ["samples", "board", *CompileKeywords.__annotations__]
    check_keywords("hil.compile", options, known, RENAMED)
    if board is not None:
        if "cpu" in options:
            raise InputError(
                f"both a board and the core {options['cpu']!r} were given", "give one of them"
            )
        loaded = board if isinstance(board, Board) else load_board(board)
        options["cpu"] = loaded.cpu.name
    return hilc.compile(model, samples=samples, **options)
