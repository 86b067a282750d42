"""Write ``firmware_template/include/hil_protocol.h`` from :mod:`hil.link.protocol`.

``python -m hil.link.header`` writes the file; with ``--check`` it only compares (exit code 1 if
the file is out of date).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

from construct import SizeofError

from hil.link import protocol
from hilc.support.resources import data_dir

HEADER_PATH = data_dir("firmware_template") / "include" / "hil_protocol.h"

_ENUMS: tuple[tuple[str, str, type[IntEnum]], ...] = (
    ("hil_kind", "HIL_KIND", protocol.Kind),
    ("hil_command", "HIL_COMMAND", protocol.Command),
    ("hil_event", "HIL_EVENT", protocol.Event),
    ("hil_status", "HIL_STATUS", protocol.Status),
    ("hil_wire_dtype", "HIL_WIRE", protocol.Dtype),
    ("hil_tensors", "HIL_TENSORS", protocol.Tensors),
    ("hil_value", "HIL_VALUE", protocol.Value),
    ("hil_metadata_list", "HIL_METADATA_LIST", protocol.MetadataList),
)


def _enum(name: str, entries: Iterable[tuple[str, int]]) -> Iterator[str]:
    yield f"enum {name} {{" if name else "enum {"
    for entry, value in entries:
        yield f"    {entry} = {value},"
    yield "};"
    yield ""


def _layout(prefix: str, message: Any) -> Iterator[tuple[str, int]]:
    """Yield the offset of each field, then the size of the fixed part."""
    offset = 0
    for field in message.subcons:
        yield f"{prefix}_{field.name.upper()}", offset
        try:
            offset += field.sizeof()
        except SizeofError:  # the variable-length field at the end
            break
    yield f"{prefix}_BYTES", offset


def header_text() -> str:
    """Return the C header, ending in a newline."""
    lines = [
        "/* Generated from hil/link/protocol.py by `python -m hil.link.header`.",
        " * docs/reference/protocol.md describes the protocol.",
        " * Messages are packed and little-endian: a field's constant is its byte offset in the",
        " * message, _BYTES the message's size, or its fixed part's when it has an open end. */",
        "#ifndef HIL_PROTOCOL_H",
        "#define HIL_PROTOCOL_H",
        "",
        f"#define HIL_PROTOCOL_VERSION {protocol.VERSION}",
        f"#define HIL_PROTOCOL_OLDEST {protocol.OLDEST}",
        f'#define HIL_PROTOCOL_MAGIC "{protocol.MAGIC.decode("ascii")}"',
        f"#define HIL_PROTOCOL_MAGIC_BYTES {len(protocol.MAGIC)}",
        f"#define HIL_BUILD_ID_BYTES {protocol.BUILD_ID_BYTES}",
        "",
        "/* Bytes of a frame on the line, both delimiters included. */",
        f"#define HIL_FRAME_MIN {protocol.FRAME_MIN}",
        f"#define HIL_FRAME_LIMIT {protocol.FRAME_LIMIT}",
        f"#define HIL_FRAME_CRC_BYTES {protocol.CRC.sizeof()}",
        "",
    ]
    for name, prefix, members in _ENUMS:
        lines += _enum(name, ((f"{prefix}_{member.name}", member.value) for member in members))
    lines += ["/* Messages. */"]
    messages = [("HIL_HEADER", protocol.HEADER), ("HIL_ERROR", protocol.ERROR)]
    messages += [(f"HIL_{c.name}_REQUEST", m) for c, m in protocol.REQUESTS.items()]
    messages += [(f"HIL_{c.name}_REPLY", m) for c, m in protocol.REPLIES.items()]
    messages += [
        (f"HIL_HELLO_{version}_REPLY", message)
        for version, message in protocol.HELLO_REPLIES.items()
        if version != protocol.VERSION
    ]
    messages += [(f"HIL_{v.name}_VALUE", m) for v, m in protocol.VALUES.items()]
    messages += [(f"HIL_{e.name}_EVENT", m) for e, m in protocol.EVENTS.items()]
    for prefix, message in messages:
        lines += _enum("", _layout(prefix, message))
    lines += ["#endif", ""]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the C header of the protocol, or compare it; return the exit code.

    1 with ``--check`` if the file differs.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    options = parser.parse_args(arguments)
    text = header_text()
    if not options.check:
        HEADER_PATH.write_text(text, encoding="ascii")
        return 0
    if HEADER_PATH.is_file() and HEADER_PATH.read_text(encoding="ascii") == text:
        return 0
    print(
        f"{HEADER_PATH} differs from hil/link/protocol.py\n\nhint: run python -m hil.link.header",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
