"""Whose the bytes of an image's flash are: kernels, constants, glue, run time, firmware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from hil.firmware.linkmap import LinkMap, Piece

#: ``kernels``: code of the model's layers, with what is inlined into it. ``constants``: weights,
#: tables and other data of that code. ``glue``: the model's entry, and its description for the
#: serial protocol. ``runtime``: the C library, the compiler's own library, TVM's C run time.
#: ``firmware``: start, drivers, serial protocol. ``padding``: for alignment.
Owner = Literal["kernels", "constants", "glue", "runtime", "firmware", "padding"]
OWNERS: tuple[Owner, ...] = ("kernels", "constants", "glue", "runtime", "firmware", "padding")


@dataclass(frozen=True)
class FlashOwners:
    """Bytes of flash by owner: each model, and the parts that the whole image shares."""

    models: Mapping[str, Mapping[str, int]]
    shared: Mapping[str, int]


def flash_owners(
    link: LinkMap, objects: Mapping[str, Set[str]], flash_sections: Iterable[str]
) -> FlashOwners:
    """Return the owners of the bytes in ``flash_sections``, which add up to their sizes.

    ``objects`` are the files of each model.
    """
    sections = set(flash_sections)
    models: dict[str, Counter[str]] = {name: Counter() for name in objects}
    shared: Counter[str] = Counter()
    rest = link.size(sections)
    for piece in link.pieces:
        if piece.output not in sections:
            continue
        rest -= piece.size
        model = next((name for name, files in objects.items() if piece.file in files), None)
        if model is not None:
            models[model][_owner_in_model(piece)] += piece.size
        else:
            shared[_owner_in_image(piece)] += piece.size
    shared["padding"] += rest
    return FlashOwners({name: dict(counts) for name, counts in models.items()}, dict(shared))


def _owner_in_model(piece: Piece) -> Owner:
    if piece.file.endswith(")"):
        # Code that came with the model, or what it alone needs of the C library.
        return "kernels" if "libextra.a(" in piece.file else "runtime"
    if "/generated/model_" in piece.file or "_lib0." in piece.file:
        return "glue"
    return "kernels" if piece.section.startswith(".text") else "constants"


def _owner_in_image(piece: Piece) -> Owner:
    if piece.file.endswith(")") or "CMakeFiles/crt.dir/" in piece.file:
        return "runtime"
    return "firmware"
