"""Files of PyTorch that are no exported programs, recognized for messages that state the remedy.

Pickles in them are never opened: the names of their classes are read from their operation codes.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

_ZIP = b"PK\x03\x04"
#: Start of what ``torch.save`` wrote before PyTorch 1.6: the pickle of a number.
_OLD_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_EXECUTORCH = b"ET12"
#: Bytes of a pickle in which names of classes are looked for.
_MAX_PICKLE = 1 << 20
#: Modules whose classes are in files of weights alone.
_OF_WEIGHTS = frozenset(
    ("torch", "torch._utils", "torch.storage", "torch._tensor", "collections", "builtins",
     "__builtin__", "_codecs", "numpy", "numpy.core.multiarray", "numpy._core.multiarray")
)  # fmt: skip
_STRINGS = frozenset(("SHORT_BINUNICODE", "BINUNICODE", "UNICODE"))

_EXPORT = "torch.export.save(torch.export.export(module.eval(), (x,)), 'net.pt2')"
_EXAMPLE = "with x an example input"


@dataclass(frozen=True)
class Kind:
    """What a file is, and the remedy; ``{name!r}`` stands for its path."""

    what: str
    hint: str


_SCRIPT = Kind(
    "a TorchScript file (torch.jit.save)",
    f"export the module that it was made of: {_EXPORT}, {_EXAMPLE}; if only this file is left: "
    "torch.onnx.export(torch.jit.load({name!r}).eval(), (x,), 'net.onnx', dynamo=False)",
)
_STATE_DICT = Kind(
    "weights without a network (a state_dict that torch.save wrote)",
    "make the module, load them and export it: module.load_state_dict(torch.load({name!r}, "
    f"weights_only=True)); {_EXPORT}, {_EXAMPLE}",
)
_SAFETENSORS = Kind(
    "weights without a network (safetensors)",
    "make the module, load them and export it: module.load_state_dict(safetensors.torch.load_file("
    f"{{name!r}})); {_EXPORT}, {_EXAMPLE}",
)
_COMPILED = Kind(
    "a package of AOTInductor, compiled for one kind of machine",
    f"export the module that it was made of: {_EXPORT}, {_EXAMPLE}",
)
_PTE = Kind(
    "an ExecuTorch program (.pte)",
    f"export the module that it was made of: {_EXPORT}, {_EXAMPLE}",
)


def kind_of(data: bytes) -> Kind | None:
    """Return which file of PyTorch ``data`` is; None for any other file."""
    if data.startswith(_ZIP):
        return _kind_of_archive(data)
    if data.startswith(_OLD_START):
        return _kind_of_pickle(data[:_MAX_PICKLE])
    if data[4:8] == _EXECUTORCH:
        return _PTE
    if data[8:9] == b"{" and int.from_bytes(data[:8], "little") <= len(data) - 8:
        return _SAFETENSORS
    return None


def _kind_of_archive(data: bytes) -> Kind | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            names = file.namelist()
            # A program that is cut off ends in an archive of its own: that of its sample inputs.
            if min((entry.header_offset for entry in file.infolist()), default=0):
                return None
            if any("/data/aotinductor/" in name for name in names):
                return _COMPILED
            if any(name.endswith("/constants.pkl") for name in names):
                return _SCRIPT
            pickled = next((n for n in names if n.count("/") == 1 and n.endswith("/data.pkl")), "")
            if not pickled:
                return None
            with file.open(pickled) as member:
                return _kind_of_pickle(member.read(_MAX_PICKLE))
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, NotImplementedError, EOFError):
        return None


def _kind_of_pickle(data: bytes) -> Kind:
    name = next(
        (name for name in _classes(data) if name.rpartition(".")[0] not in _OF_WEIGHTS), None
    )
    if name is None:
        return _STATE_DICT
    return Kind(
        f"a pickle of the class {name!r} (torch.save), and pickles are never opened",
        "where the class is defined, load and export it: module = torch.load({name!r}, "
        f"weights_only=False); {_EXPORT}, {_EXAMPLE}",
    )


def _classes(data: bytes) -> Iterator[str]:
    """Yield the classes and functions that pickles, one after the other, name."""
    stream = io.BytesIO(data)
    texts = ["", ""]
    try:
        while True:
            for code, argument, _ in pickletools.genops(stream):
                if code.name == "GLOBAL":
                    yield str(argument).replace(" ", ".")
                elif code.name == "STACK_GLOBAL":
                    yield ".".join(texts)
                elif code.name in _STRINGS:
                    texts = [texts[1], str(argument)]
    except ValueError:  # the end, or the end of what is looked at
        return
