"""Which compiler flags and program names a description of a core or a toolchain may have.

A description is data that may come from anybody. Flags of a compiler can start programs
(``-fplugin=``, ``-wrapper``, ``-specs=FILE``, ``-B``), read and write files (``@FILE``,
``-include``, ``-o``, ``-Wl,``), and change the build files that hold them; so the accepted flags
are listed here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hilc.support.tables import Table

_ACCEPTED = (
    # The core and its binary interface. A word behind -mllvm would be an option of LLVM's.
    r"-m(?!llvm\b)[a-z0-9-]+(=[A-Za-z0-9_.,+-]+)?",
    # Without a value: a name of a file, a plugin or a function would be one.
    r"-f[A-Za-z0-9-]+",
    r"-O([0-3sgz]|fast)?",
    r"-g[0-3]?",
    r"-std=[a-z0-9+:]+",
    # Without a comma, which passes words to another program (-Wl, -Wa, -Wp).
    r"-W[a-z0-9+-]+(=[a-z0-9]+)?",
    r"-[DU][A-Za-z_][A-Za-z0-9_]*(=[A-Za-z0-9_]+)?",
    r"--param=[a-z0-9-]+=[0-9]+",
    r"--target=[A-Za-z0-9_.-]+",
    r"--?specs=(nano|nosys|rdimon|picolibc)\.specs",
    r"-(nostdlib|nostartfiles|nodefaultlibs|static)",
    r"-Wl,--((no-)?(gc-sections|relax)|no-warn-[a-z-]+|wrap=[A-Za-z0-9_]+)",
)
_FLAG = re.compile("|".join(f"(?:{form})" for form in _ACCEPTED))
_FORMS = (
    "-mNAME[=VALUE], -fNAME, -ON, -gN, -std=NAME, -WNAME, -DNAME[=VALUE], --param=NAME=N, "
    "--target=NAME, --specs= with nano, nosys, rdimon or picolibc, -nostdlib, -nostartfiles, "
    "-nodefaultlibs, -static, and -Wl,-- with gc-sections, relax, no-warn-NAME or wrap=NAME"
)


def read_flags(table: Table, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the list of compiler flags ``key``; raise for a flag that is not accepted."""
    flags = table.strings(key, default)
    for flag in flags if key in table else ():
        if not _FLAG.fullmatch(flag):
            raise table.error(
                key,
                f"the flag {flag!r} is not accepted: a description may not start programs, load "
                "plugins or read files",
                f"accepted flags: {_FORMS}",
            )
    return flags


def read_name(table: Table, key: str, form: str, example: str, default: str | None = None) -> str:
    """Return the string ``key``, which the regular expression ``form`` describes.

    Raise the table's error for another string.
    """
    text = table.string(key, default)
    if key in table and not re.fullmatch(form, text):
        raise table.error(key, f"{text!r} is not accepted", f"write {example}")
    return text


#: Pattern of names of programs and files: none is a path or an option.
WORD = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"


def read_sections(table: Table, key: str, default: Sequence[str]) -> tuple[str, ...]:
    """Return the list ``key`` of names of sections, which may end in a star.

    Raise the table's error for another word.
    """
    words = table.strings(key, tuple(default))
    for word in words:
        if not re.fullmatch(r"\.[A-Za-z0-9_.+-]+\*?", word):
            raise table.error(key, f"{word!r} is not a section", "write names such as .ARM.exidx*")
    return words
