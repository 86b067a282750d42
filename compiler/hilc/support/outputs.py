"""Output files and folders: written completely or not at all, never over the user's work.

A file is written beside its target and renamed. A folder has a list of its written files,
``hil-files.json``, with a digest of each: files that are not on the list, or differ from their
digest, are the user's, and are neither changed nor removed without ``force``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from hilc.errors import InputError
from hilc.support.inputs import check_regular
from hilc.support.limits import limit_of
from hilc.support.locks import locked_folder
from hilc.support.temporary import (
    TemporaryFolder,
    beside,
    partial_file,
    remove_abandoned_files,
    remove_abandoned_folders,
)

#: List of the files in a folder that were written, as opposed to added or edited later.
MANIFEST = "hil-files.json"
#: Kinds of folders, and the file that identifies each, also without a list.
FOLDER_MARKS = {
    "a library": "metadata.json",
    "a firmware project": "generated/hil_config.h",
    "an exported library": "hil-export.json",
}
_VERSION = 1
#: Takes the place of a digest.
_FOLDER = "a folder"
_DIGEST = re.compile("[0-9a-f]{64}")
_ABOUT = "SHA-256 of what hil wrote here; a file that differs is yours, and hil leaves it alone"
#: Maximum number of files in a message.
_MOST_NAMED = 5
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: System errors of a full or failing disk.
_UNWRITABLE = (*_FULL, errno.EFBIG, errno.EROFS, errno.EIO)
#: Remedies for errors that the name itself causes.
_REMEDIES = {
    errno.ENOTDIR: "choose a name where no file is in the place of a folder",
    errno.EISDIR: "give the name of a file: this one is a folder's",
}


class OutputError(InputError):
    """A file, a folder or standard output cannot be written."""


def cannot_write(place: object, error: OSError, remedy: str = "") -> OutputError:
    """Return the error for a system error at ``place``."""
    why = error.strerror or str(error)
    if (limit := limit_of(error)) is not None:
        return OutputError(f"cannot write {place}: {why}; {limit.fact}", limit.hint)
    if error.errno in _FULL:
        return OutputError(
            f"cannot write {place}: {why}", f"free some space there{remedy and f', or {remedy}'}"
        )
    if error.errno == errno.EFBIG:
        hint = "choose a file system that takes files of this size"
        return OutputError(f"cannot write {place}: {why}", hint)
    hint = _REMEDIES.get(error.errno or 0, "choose a place that can be written to")
    return OutputError(f"cannot write {place}: {why}", remedy or hint)


def is_unwritable(error: OSError) -> bool:
    """Return whether ``error`` means a full or broken disk."""
    return error.errno in _UNWRITABLE


# -- files -------------------------------------------------------------------------------------


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Open a temporary file that replaces ``path`` when the block ends without an error.

    Parent folders are created; a link stays one; a device or pipe is written as it is. Errors in
    the block count as failures to write ``path``.

    Raise :class:`~hilc.support.outputs.OutputError` if the file cannot be written.
    """
    path = Path(path)
    try:
        # Replace the target of a link, not the link.
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial_file(target) as partial:
            yield partial
            if target.exists():
                partial.chmod(stat.S_IMODE(target.stat().st_mode))
            partial.replace(target)
    except OSError as error:
        raise cannot_write(path, error) from None


def write_file(path: str | Path, data: bytes | str) -> None:
    """Write ``data`` (text as UTF-8) atomically: readers see the old file or the new one."""
    with replacing(path) as partial:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)


def check_file(
    path: str | Path,
    *suffixes: str,
    kind: str,
    is_own: Callable[[Path], bool] | None = None,
    force: bool | None = None,
) -> None:
    """Raise if an output could not be written later, or would replace a file that is not
    ``is_own``.

    To be called before the work whose result it will hold. ``kind`` describes the command's output
    in messages; ``force`` is None for a command without that option.
    """
    path = Path(path)
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(
            f"the output {str(path)!r} has the wrong suffix for {kind}",
            f"use a name that ends in {'one of ' * (len(suffixes) > 1)}{', '.join(suffixes)}",
        )
    check_place(path, is_folder=False)
    if force or is_own is None or not path.is_file() or path.stat().st_size == 0:
        return
    if not is_own(path):
        remedy = "delete it" if force is None else "replace it with --force"
        raise InputError(
            f"{path} exists and is not {kind} written by hil",
            f"choose another name, or {remedy}",
        )


def check_place(path: Path, *, is_folder: bool, remedy: str = "") -> None:
    """Raise if the file or folder could not be created or written now."""
    try:
        target = Path(os.path.realpath(path))
        if target.exists():
            if target.is_dir() != is_folder:
                number = errno.ENOTDIR if is_folder else errno.EISDIR
                raise OSError(number, os.strerror(number))
            if not os.access(target, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            if not is_folder and not target.is_file():
                return  # a device or a pipe
        folder = target if is_folder else target.parent
        while not folder.exists():
            folder = folder.parent
        # A killed process left them; they are not the user's.
        remove_abandoned_files(folder)
        remove_abandoned_folders(str(folder))
        # Some systems report only on creation whether a file can be created.
        probe = beside(folder / "probe")
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        # Nobody has locked it, so another process may have taken it for abandoned.
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error, remedy) from None


# -- folders -----------------------------------------------------------------------------------


def looks_like_a_file(path: str | Path) -> bool:
    """Return whether a name has the suffix of a file format, so that it is not a folder."""
    # A trailing slash, or an existing folder, means a folder.
    if str(path).endswith("/") or Path(path).is_dir():
        return False
    return re.fullmatch(r"\.[A-Za-z]\w*", Path(path).suffix) is not None


def check_folder(folder: str | Path, *, kind: str, force: bool = False) -> None:
    """Raise if :func:`update_folder` could not or must not write a folder.

    ``kind`` is one of :data:`FOLDER_MARKS`. A folder of another kind is refused even with
    ``force``: files in it that are not on its list, such as a build, would stay.
    """
    folder = Path(folder)
    check_place(folder, is_folder=True)
    if not folder.exists():
        return
    kinds = _kinds(folder)
    if kinds and kind not in kinds:
        raise InputError(
            f"{folder} is {' and '.join(kinds)}, not {kind}",
            "choose a folder that is empty or does not exist",
        )
    is_own = bool(kinds) or (folder / MANIFEST).is_file()
    if not is_own and any(folder.iterdir()):
        raise InputError(
            f"{folder} is a folder with files that do not belong to {kind}",
            "choose a folder that is empty or does not exist",
        )
    if not force and (edited := edited_files(folder)):
        raise _edited(folder, edited)


def _kinds(folder: Path) -> list[str]:
    """Return the kinds of the folder; an interrupted write leaves its list, if not all of its
    files.
    """
    known = _read_manifest(folder)
    return [
        kind for kind, mark in FOLDER_MARKS.items() if mark in known or (folder / mark).is_file()
    ]


def update_folder(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> None:
    """Write ``files`` into ``folder``, replacing those of an earlier call.

    Files of an earlier call that are no longer in ``files`` are removed. Before any change,
    InputError names files that the user has edited or added at their paths; with ``force`` these
    are replaced. Other files of the user are kept in any case: a folder in the place of a file is
    replaced only if it holds nothing but files of an earlier call.

    All files are written beside their places before the first of them is put there: where one of
    them cannot be written, the folder stays as it was, and is removed if it is new.

    Raise :class:`~hilc.support.outputs.OutputError` if a file cannot be written.
    """
    try:
        with ExitStack() as undone:
            # A link stays one, also where the folder that it names is yet to be created.
            _make_folders(Path(os.path.realpath(folder)), undone)
            # Another process may be writing the same folder; it will finish soon.
            with locked_folder(folder):
                _update(folder, files, force, undone)
            undone.pop_all()
    except OSError as error:
        raise cannot_write(error.filename or folder, error) from None


def _make_folders(folder: Path, undone: ExitStack) -> None:
    """Create a folder and those above it; ``undone`` removes the created ones that are empty."""
    if folder.is_dir():
        return
    _make_folders(folder.parent, undone)
    folder.mkdir(exist_ok=True)
    undone.callback(_remove_empty, folder)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _update(folder: Path, files: Mapping[str, bytes], force: bool, undone: ExitStack) -> None:
    wanted = {path: _digest(data) for path, data in files.items()}
    known = _read_manifest(folder)
    stale = [path for path in known if path not in wanted]
    blocked = _blocked(folder, (*files, *known))
    found = _found(folder, (*files, *stale), blocked)
    ours = _ours(found, {path: (wanted.get(path), *known.get(path, ())) for path in found})
    taken = [path for path in files if found[path] == _FOLDER]
    for path in taken:
        if others := _others(folder, path, ours.intersection(stale)):
            raise _in_the_way(folder, path, others)
    theirs = _theirs(folder, found, ours, blocked)
    if theirs and not force:
        raise _edited(folder, theirs)
    changes = [path for path in files if found[path] != wanted[path]]
    if not changes and not stale and known == {path: (own,) for path, own in wanted.items()}:
        return
    with TemporaryFolder("partial", str(folder)) as staging:
        staged = {path: Path(staging, f"{i}") for i, path in enumerate(changes)}
        # Until all is in place, a file may be the old or the new one.
        both = {p: (*known.get(p, ()), *new) for p, new in _lists(wanted).items()}
        lists = Path(staging, "both"), Path(staging, "list")
        contents = [
            (MANIFEST, lists[0], _manifest(both)),
            (MANIFEST, lists[1], _manifest(_lists(wanted))),
        ]
        contents += [(path, staged[path], files[path]) for path in changes]
        for path, place, data in contents:
            _stage(folder / path, place, data)
        _put(lists[0], folder / MANIFEST, undone)
        # First, so that nothing is removed or written behind a link. A wanted file may be in the
        # way of a stale one after an update that was cut short.
        for parent in blocked:
            if str(parent) not in wanted:
                (folder / parent).unlink()
        for path in taken:
            for old in stale:
                if _is_below(PurePosixPath(old), [PurePosixPath(path)]):
                    _remove(folder, old)
            _remove_empty_folders(folder / path)
        # A new name may need room in its folder; replacing a file and removing one do not.
        for path in sorted(changes, key=lambda path: found[path] is not None):
            target = folder / path
            _make_folders(target.parent, undone)
            _put(staged[path], target, undone)
        for path in stale:
            _remove(folder, path)
        _put(lists[1], folder / MANIFEST, undone)


def _stage(target: Path, place: Path, data: bytes) -> None:
    """Write what is to be put at ``target``, with the permissions of the file that is there."""
    try:
        place.write_bytes(data)
        if target.is_file() and not target.is_symlink():
            place.chmod(stat.S_IMODE(target.stat().st_mode))
    except OSError as error:
        raise cannot_write(target, error) from None


def _put(place: Path, target: Path, undone: ExitStack) -> None:
    """Move a file to its place; ``undone`` removes one whose name is new. A link is replaced, not
    its target.
    """
    is_new = not os.path.lexists(target)
    place.replace(target)
    if is_new:
        undone.callback(target.unlink, missing_ok=True)


def edited_files(folder: Path) -> list[str]:
    """Return the files that were written into ``folder`` and have changed since, and links to
    others.
    """
    known = _read_manifest(folder)
    blocked = _blocked(folder, known)
    found = _found(folder, known, blocked)
    return _theirs(folder, found, _ours(found, known), blocked)


def changed_files(folder: Path) -> list[str]:
    """Return edited files and missing ones."""
    known = _read_manifest(folder)
    found = _found(folder, known, _blocked(folder, known))
    return [path for path, digests in known.items() if found[path] not in digests]


def _ours(found: Mapping[str, str | None], digests: Mapping[str, Iterable[str | None]]) -> set[str]:
    """Return the existing files that have one of their digests."""
    return {p for p, found_ in found.items() if found_ is not None and found_ in digests[p]}


def _theirs(
    folder: Path,
    found: Mapping[str, str | None],
    ours: Container[str],
    blocked: Iterable[PurePosixPath],
) -> list[str]:
    """Return the paths at which the user has edited or added something.

    A folder in the place of a file is ours if nothing but our files is in it: in an update that was
    cut short, or whose next call has files there.
    """
    edited = [
        path
        for path, digest in found.items()
        if digest is not None and path not in ours
        if digest != _FOLDER or _others(folder, path, ours)
    ]
    return [*edited, *(str(parent) for parent in blocked if str(parent) not in ours)]


def _others(folder: Path, path: str, ours: Container[str]) -> list[str]:
    """Return the files and links below the folder ``path`` that are not ``ours``."""
    others = []
    for parent, folders, names in os.walk(folder / path, onerror=_raise):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        places = [Path(parent, name).relative_to(folder).as_posix() for name in (*names, *links)]
        others += [place for place in places if place not in ours]
    return sorted(others)


def _raise(error: OSError) -> None:
    raise error


def _edited(folder: Path, paths: Sequence[str]) -> InputError:
    return InputError(
        f"{folder} has files that were edited or added after they were written: {_shown(paths)}",
        "write to another folder, or replace these files with --force",
    )


def _in_the_way(folder: Path, path: str, others: Sequence[str]) -> InputError:
    return InputError(
        f"{folder / path} is a folder in the place of a file, and has files that were edited or "
        f"added: {_shown(others)}",
        "move it away, or write to another folder",
    )


def _shown(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"{', '.join(paths[:_MOST_NAMED])}{more}"


def _blocked(folder: Path, paths: Iterable[str]) -> list[PurePosixPath]:
    """Return files and links at paths where ``paths`` need a folder.

    A link counts even if its target is a folder: that is outside of ``folder``, so nothing in it
    was written here. Paths below another result are not listed.
    """
    blocked: list[PurePosixPath] = []
    for parent in sorted({parent for path in paths for parent in PurePosixPath(path).parents}):
        place = folder / parent
        # The folder itself, also a parent of each path, is what the user has named.
        if not parent.parts or _is_below(parent, blocked):
            continue
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            blocked.append(parent)
    return blocked


def _is_below(path: PurePosixPath, places: Iterable[PurePosixPath]) -> bool:
    return not set(path.parents).isdisjoint(places)


def _found(
    folder: Path, paths: Iterable[str], blocked: Sequence[PurePosixPath]
) -> dict[str, str | None]:
    """Return the digest of each existing file; nothing behind one of ``blocked``."""
    return {
        path: None if _is_below(PurePosixPath(path), blocked) else _digest_of(folder / path)
        for path in paths
    }


def _remove(folder: Path, path: str) -> None:
    """Remove a file and the folders that it leaves empty."""
    target = folder / path
    if _is_folder(target):
        return  # in its place: the user's, or one that is written now
    with suppress(FileNotFoundError, NotADirectoryError):
        target.unlink()
    for parent in list(PurePosixPath(path).parents)[:-1]:
        with suppress(OSError):
            (folder / parent).rmdir()


def _remove_empty_folders(place: Path) -> None:
    """Remove a folder that has folders alone, if it exists."""
    for parent, _, _ in os.walk(place, topdown=False):
        os.rmdir(parent)


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _lists(digests: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {path: (digest,) for path, digest in digests.items()}


def _manifest(digests: Mapping[str, tuple[str, ...]]) -> bytes:
    value = {"about": _ABOUT, "version": _VERSION, "files": dict(sorted(digests.items()))}
    return (json.dumps(value, indent=1) + "\n").encode()


def _read_manifest(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the digests that each file may have; empty if there is no readable list.

    A folder may be untrusted: what cannot be a file of this folder is ignored.

    Raise InputError where the list is a folder, or a pipe or a device, which may never end.
    """
    place = folder / MANIFEST
    remedy = "remove it, or write to another folder"
    if place.is_dir():
        raise InputError(f"{place} is not a regular file", remedy)
    check_regular(place, remedy)
    try:
        value = json.loads(place.read_bytes())
        if value["version"] != _VERSION:
            return {}
        files = {
            str(path): tuple(digest for digest in map(str, found) if _DIGEST.fullmatch(digest))
            for path, found in value["files"].items()
        }
    except OSError as error:
        # A limit of this process says nothing about the file.
        if limit_of(error) is not None:
            raise
        return {}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return {path: digests for path, digests in files.items() if _is_name(folder, path)}


def _is_name(folder: Path, path: str) -> bool:
    """Return whether a list may have the path: of a file in ``folder``, in its one spelling."""
    if path in (".", MANIFEST) or str(PurePosixPath(path)) != path:
        return False
    if path.startswith("/") or ".." in path.split("/"):
        return False
    try:
        os.lstat(folder / path)
    except ValueError:
        return False  # null characters and lone surrogates
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of(path: Path) -> str | None:
    """Return the digest of a file; None if it does not exist, and a word for other kinds."""
    try:
        if _is_folder(path):
            return _FOLDER
        # Reading a pipe or a device may never end.
        return _digest(path.read_bytes()) if stat.S_ISREG(path.stat().st_mode) else "no file"
    except (FileNotFoundError, NotADirectoryError):
        # A dangling link exists too.
        return "a link" if path.is_symlink() else None
    except OSError as error:
        # A limit of this process says nothing about the file.
        if limit_of(error) is not None:
            raise
        return "unreadable"
