"""C identifiers made from arbitrary names, and names that are not taken."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable

# Keywords of C and C++ (both compile the generated header), macros that GNU dialects predefine,
# and macros of the standard headers and of Arduino's, which users include before it.
_RESERVED_WORDS = """
    BUFSIZ EDOM EILSEQ EOF ERANGE EXIT_FAILURE EXIT_SUCCESS HUGE_VAL I INFINITY INPUT NAN NULL
    OUTPUT PI SEEK_CUR SEEK_END SEEK_SET _Alignas _Alignof _Atomic _BitInt _Bool _Complex
    _Decimal128 _Decimal32 _Decimal64 _Generic _Imaginary _Noreturn _Static_assert _Thread_local
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    char8_t class co_await co_return co_yield compl complex concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum errno
    explicit export extern false float for friend goto if imaginary inline int linux long mutable
    namespace new noexcept noreturn not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast stderr stdin stdout struct switch template this thread_local throw true try typedef
    typeid typename typeof typeof_unqual union unix unsigned using virtual void volatile wchar_t
    while xor xor_eq
"""
_RESERVED = re.compile(
    "|".join(
        (
            *_RESERVED_WORDS.split(),
            "__.*",  # predefined macros, and keywords of compilers
            "_Float[0-9]+x?",
            "M_[A-Z0-9_]+",  # constants of <math.h>
            "[A-Z0-9_]+_(MAX|MIN)",  # limits of types
        )
    )
)

_C_HEADERS = """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar
    wchar wctype
"""
#: Headers of the C library, without their suffix: no header of ours may hide one.
C_HEADERS = frozenset(_C_HEADERS.split())

# A longer identifier is truncated and gets a hash of the whole, as in TVM.
_IDENTIFIER_MAX = 80


def sanitise(name: str) -> str:
    """Return ``name`` with every character that is invalid in a C identifier replaced by ``_``."""
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


def shorten(identifier: str) -> str:
    """Return ``identifier``, truncated to 80 characters including a hash of the whole if it is
    longer.
    """
    if len(identifier) <= _IDENTIFIER_MAX:
        return identifier
    digest = hashlib.sha256(identifier.encode()).hexdigest()[:16]
    return f"{identifier[:_IDENTIFIER_MAX]}_{digest}_"


def c_identifier(name: str) -> str:
    """Return a C and C++ identifier made from ``name``; two names may have equal identifiers."""
    identifier = shorten(sanitise(name))
    if not identifier or identifier[0].isdigit():
        return f"_{identifier}"
    return f"{identifier}_" if _RESERVED.fullmatch(identifier) else identifier


def unused(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken: ``name`` itself, or with underscores behind it."""
    while name in taken:
        name += "_"
    return name


class NumberedNames:
    """Names that are taken, and the first of ``base:0``, ``base:1``, ... that is not.

    A name stays taken, so the search for the next one of a base continues where it ended.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Note a name that something else has."""
        self._taken.add(name)

    def new(self, base: str) -> str:
        """Return the first numbered name that is not taken, and take it."""
        number = self._next.get(base, 0)
        while (name := f"{base}:{number}") in self._taken:
            number += 1
        self._next[base] = number + 1
        self._taken.add(name)
        return name
