"""Exceptions of the system and of libraries as errors of the project; what is left is a bug."""

from __future__ import annotations

import errno
import sys
import tempfile
from copy import copy

from hil.errors import HilError, InputError
from hil.plugins import plugin_error_from
from hilc.support.limits import Limit, is_memory_limited, limit_of
from hilc.support.outputs import cannot_write, is_unwritable

#: Remedies for a file or folder that cannot be used.
_REMEDIES = {
    errno.EACCES: "give this user access to it, or name another one",
    errno.EPERM: "give this user access to it, or name another one",
    errno.ENOENT: "check the name, and the folder that it is in",
    errno.ENOTDIR: "check the name: a part of it is a file, not a folder",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ELOOP: "links lead in a circle there; name the file itself",
}


def known_error(error: BaseException) -> HilError | None:
    """Return the error that explains ``error`` to the user; None for a bug of this program.

    An error of the project whose cause was a limit of the system gets the remedy for that limit.
    """
    limit = limit_of(error)
    known = error if isinstance(error, HilError) else plugin_error_from(error)
    if known is not None:
        is_cause = limit is not None and (not limit.is_memory or is_memory_limited())
        return _with_remedy(known, limit) if limit is not None and is_cause else known
    if limit is not None:
        return InputError(limit.fact, limit.hint)
    if isinstance(error, RecursionError):
        return InputError(
            f"the input is nested more deeply than Python's limit of {sys.getrecursionlimit():,} "
            "calls allows",
            "simplify it; -v shows where",
        )
    if not isinstance(error, OSError):
        return None
    if is_unwritable(error):
        # Before the first use of a temporary folder this may raise, too.
        folder = tempfile.tempdir or "the temporary folder"
        return cannot_write(error.filename or f"a file; temporary ones are in {folder}", error)
    if isinstance(error, FileNotFoundError) and "usable temporary directory" in str(error):
        return InputError(
            "there is no folder for temporary files that can be written to: TMPDIR, /tmp, /var/tmp "
            "and the working directory were tried",
            "set TMPDIR to a folder with free space",
        )
    if error.filename is not None:
        remedy = _REMEDIES.get(error.errno or 0, "check it, or name another one")
        return InputError(f"cannot use {error.filename}: {error.strerror}", remedy)
    return None


def _with_remedy(error: HilError, limit: Limit) -> HilError:
    """Return the error with the remedy for the limit in place of its own."""
    again = copy(error)
    again.hint = limit.hint if limit.fact in error.fact else f"{limit.fact}; {limit.hint}"
    return again
