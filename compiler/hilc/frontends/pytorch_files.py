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
_MEMO = frozenset(("BINPUT", "LONG_BINPUT"))
_RECALLED = frozenset(("BINGET", "LONG_BINGET"))
_STRINGS = frozenset(("SHORT_BINUNICODE", "BINUNICODE", "UNICODE"))

_EXPORT = "torch.export.save(torch.export.export(module.eval(), (x,)), 'net.pt2')"
_EXAMPLE = "with x an example input"


def script_hint(loaded: str) -> str:
    """Return the remedy for TorchScript; ``loaded`` is the expression for the scripted module."""
    return (
        f"export the module that it was made of: {_EXPORT}, {_EXAMPLE}; if only the script is "
        f"left: torch.onnx.export({loaded}.eval(), (x,), 'net.onnx', dynamo=False)"
    )


@dataclass(frozen=True)
class Kind:
    """What a file is, and the remedy; ``{name!r}`` stands for its path."""

    what: str
    hint: str


_SCRIPT = Kind(
    "a TorchScript file (torch.jit.save)",
    script_hint("torch.jit.load({name!r})"),
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
        return _weights(_key_of_weights(data))
    return Kind(
        f"a pickle of the class {name!r} (torch.save), and pickles are never opened",
        "where the class is defined, load and export it: module = torch.load({name!r}, "
        f"weights_only=False); {_EXPORT}, {_EXAMPLE}",
    )


def _weights(key: str | None) -> Kind:
    """Return the kind of a state_dict, or of a checkpoint that has it under a key."""
    place = "" if key is None else f"[{key!r}]"
    loaded = "torch.load({name!r}, weights_only=True)" + place.replace("{", "{{").replace("}", "}}")
    under = "" if key is None else f" under the key {key!r}"
    return Kind(
        f"weights without a network (a state_dict that torch.save wrote{under})",
        "make the module, load them and export it: "
        f"module.load_state_dict({loaded}); {_EXPORT}, {_EXAMPLE}",
    )


def _key_of_weights(data: bytes) -> str | None:
    """Return the key of the first ordered dictionary that is an entry of another one, which
    ``state_dict()`` makes; None where there is none, or the outermost object is one.
    """
    stream = io.BytesIO(data)
    try:
        while True:  # before PyTorch 1.6, pickles of other objects come first
            # The place of the class in the pickle's memo, after its first use.
            memo: object = None
            key: str | None = None
            is_first, is_class = True, False
            for code, argument, _ in pickletools.genops(stream):
                if code.name in _MEMO:
                    memo = argument if is_class and memo is None else memo
                    continue
                is_class = code.name == "GLOBAL" and argument == "collections OrderedDict"
                is_used = code.name in _RECALLED and memo is not None and argument == memo
                if (is_class or is_used) and (is_first or key is not None):
                    return key
                is_first = is_first and code.name == "PROTO"
                key = str(argument) if code.name in _STRINGS else None
    except ValueError:  # the end, or the end of what is looked at
        return None


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
