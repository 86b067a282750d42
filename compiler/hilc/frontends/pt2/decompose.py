"""Which operators of a program PyTorch has to replace by more basic ones."""

from __future__ import annotations

from collections.abc import Iterable

from hilc.errors import ModelError
from hilc.frontends.pt2 import translators
from hilc.frontends.pt2.archive import read_archive
from hilc.frontends.pt2.convert import convert
from hilc.frontends.pt2.model import UnsupportedOperatorError, is_supported
from hilc.frontends.pt2.program import read_program

assert translators


def without_translator(targets: Iterable[str]) -> set[str]:
    """Return those of the operators that have no translator."""
    return {target for target in targets if not is_supported(target)}


def refused_operator(data: bytes) -> str | None:
    """Return the operator of a program's archive that is refused; None where another reason, or
    nothing, stands in the way.
    """
    try:
        convert(read_program(read_archive(data)), {}, "main")
    except UnsupportedOperatorError as error:
        return error.target
    except ModelError:
        return None
    return None
