"""Text before the sources, for build systems that give a library no flags of its own."""

from __future__ import annotations

#: The same as ``-fno-delete-null-pointer-checks``, from within a source.
PROLOGUE = """\
/* GCC 12 leaves out layers that it takes for accesses to address 0, and this file's build system
 * has no flags for a library alone. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-delete-null-pointer-checks")
#endif

"""
FLAGS_ARE_NOT_SET = (
    "{system} cannot set flags for a library alone, so each source turns that analysis off for "
    "GCC by a pragma. The level of optimization is the project's{level}."
)
