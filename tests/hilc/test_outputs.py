"""What is written where the user asked for it: whole, or not at all, and never over their work."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
from pathlib import Path

import pytest
from processes import file_size_limit

from hilc.errors import InputError
from hilc.support.outputs import (
    FOLDER_MARKS,
    MANIFEST,
    OutputError,
    changed_files,
    check_file,
    check_folder,
    edited_files,
    looks_like_a_file,
    replacing,
    update_folder,
    write_file,
)

FILES = {"a.c": b"one", "src/b.c": b"two", "src/deep/c.c": b"three"}


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder but the list."""
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != MANIFEST}


# -- files -------------------------------------------------------------------------------------


def test_a_file_is_the_old_one_until_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)

    def interrupted() -> None:
        with replacing(path) as partial:
            partial.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(OutputError, match="File too large"), file_size_limit(4096):
        write_file(path, bytes(100_000))
    assert content(tmp_path) == {"x.bin": b"old"}
    write_file(path, "new")
    assert content(tmp_path) == {"x.bin": b"new"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "real")
    write_file(tmp_path / "link", b"data")
    assert (tmp_path / "folder" / "real").read_bytes() == b"data"
    assert (tmp_path / "link").is_symlink()
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left on device"):
        write_file("/dev/full", b"data")
    check_file("/dev/full", kind="anything")
    write_file("/dev/null", b"data")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("file/x.npz", "cannot write .*x.npz: Not a directory\n\nhint: .*no file is in the place"),
        ("folder.npz", "cannot write .*folder.npz: Is a directory\n\nhint: .*name of a file"),
        ("x.txt", "has the wrong suffix for outputs\n\nhint: use a name that ends in .npz"),
        ("mine.npz", "exists and is not outputs written by hil"),
        ("/proc/none/x.npz", "cannot write /proc/none/x.npz"),
    ],
)
def test_an_unwritable_output_fails_before_the_work(
    path: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "mine.npz").write_text("mine")
    before = content(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        check_file(tmp_path / path, ".npz", kind="outputs", is_own=lambda _: False, force=False)
    assert caught.value.exit_code == 2
    assert content(tmp_path) == before


def test_a_writable_output_is_not_touched_first(tmp_path: Path) -> None:
    (tmp_path / "own.npz").write_text("own")
    for name in ("own.npz", "new.npz", "new/folder/x.npz"):
        check_file(tmp_path / name, ".npz", kind="outputs", is_own=lambda _: True)
    check_file(tmp_path / "own.npz", kind="outputs", is_own=lambda _: False, force=True)
    check_folder(tmp_path / "none", kind="a library")
    assert content(tmp_path) == {"own.npz": b"own"}
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("has_list", [True, False])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("found", "wanted"),
    [("a firmware project", "a library"), ("a library", "a firmware project")],
)
def test_a_folder_of_another_kind_stays(
    found: str, wanted: str, force: bool, has_list: bool, tmp_path: Path
) -> None:
    update_folder(tmp_path, {FOLDER_MARKS[found]: b"mark", "src/a.c": b"code"})
    if not has_list:
        (tmp_path / MANIFEST).unlink()
    before = content(tmp_path)
    check_folder(tmp_path, kind=found, force=force)
    with pytest.raises(InputError, match=f"is {found}, not {wanted}"):
        check_folder(tmp_path, kind=wanted, force=force)
    assert content(tmp_path) == before


def test_no_file_is_made_where_another_may_not_be(tmp_path: Path) -> None:
    """As an unprivileged user meets it; root is refused by the system alone."""
    locked = tmp_path / "locked"
    locked.mkdir()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.getuid() == 0:
                os.chown(tmp_path, 0, 0)
                tmp_path.chmod(0o755)
                os.setuid(65534)
            else:
                locked.chmod(0o555)
            check_file(locked / "x.npz", kind="outputs")
        except InputError as error:
            # Without the right to come here at all, that is what is told.
            code = 0 if "Permission denied" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# -- folders -----------------------------------------------------------------------------------


def test_a_folder_is_brought_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    update_folder(folder, FILES)
    assert content(folder) == FILES
    inode = (folder / "a.c").stat().st_ino
    (folder / "src" / "notes.txt").write_text("mine")
    update_folder(folder, {"a.c": b"one", "x/y.c": b"new"})
    assert content(folder) == {"a.c": b"one", "x/y.c": b"new", "src/notes.txt": b"mine"}
    assert (folder / "a.c").stat().st_ino == inode, "what is unchanged is not written"
    assert not (folder / "src" / "deep").exists()


@pytest.mark.parametrize("case", ["edited", "edited and unwanted", "in the way", "a link", "file"])
def test_the_users_work_is_left_alone(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    update_folder(folder, FILES)
    new = FILES | {"src/b.c": b"2"}
    name = "src/b.c"
    if case == "edited":
        (folder / name).write_bytes(b"mine")
    elif case == "edited and unwanted":
        (folder / name).write_bytes(b"mine")
        del new[name]
    elif case == "in the way":
        name = "new.c"
        (folder / name).write_bytes(b"mine")
        new[name] = b"theirs"
    elif case == "a link":
        (tmp_path / "mine.c").write_bytes(b"mine")
        (folder / name).unlink()
        (folder / name).symlink_to(tmp_path / "mine.c")
    else:
        name = "new"
        (folder / name).write_bytes(b"mine")
        new["new/x.c"] = b"theirs"
    before = content(folder)
    with pytest.raises(InputError, match=f"edited or added .*: {name}\n\nhint: .*--force"):
        update_folder(folder, new)
    assert content(folder) == before
    update_folder(folder, new, force=True)
    assert content(folder) == new
    if case == "a link":
        assert (tmp_path / "mine.c").read_bytes() == b"mine"


SWAPPED = [
    {"a": b"1", "b/c/d": b"2", "b/e": b"3", "f": b"4"},
    {"a/x/y": b"5", "b": b"6", "f": b"7"},
]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_files_become_folders_and_folders_files(tmp_path: Path, order: tuple[int, int]) -> None:
    old, new = (SWAPPED[index] for index in order)
    update_folder(tmp_path, old)
    (tmp_path / next(name for name in ("b", "a") if name not in old) / "empty").mkdir()
    update_folder(tmp_path, new)
    assert content(tmp_path) == new
    assert edited_files(tmp_path) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_change_of_kinds_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, int], count: int,
    is_repeated: bool,
) -> None:  # fmt: skip
    """It is gone on with, or taken back, without ``force``."""
    old, new = (SWAPPED[index] for index in order)
    update_folder(tmp_path, old)
    move, moved = Path.replace, []

    def failing(self: Path, target: Path) -> Path:
        moved.append(target)
        if len(moved) == count:
            raise KeyboardInterrupt
        return move(self, target)

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(Path, "replace", failing)
        update_folder(tmp_path, new)
    assert edited_files(tmp_path) == []
    wanted = new if is_repeated else old
    update_folder(tmp_path, wanted)
    assert content(tmp_path) == wanted


def test_a_folder_of_the_users_is_not_replaced(tmp_path: Path) -> None:
    """Not with ``force`` either, which is for files."""
    update_folder(tmp_path, {"a": b"1", "b/c": b"2", "z": b"3"})
    (tmp_path / "b" / "mine").write_bytes(b"mine")
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path)
    before = content(tmp_path)
    for files, others in (({"a": b"9"}, "a/link"), ({"a/link": b"1", "b": b"9"}, "b/mine")):
        for force in (False, True):
            with pytest.raises(InputError, match=rf"folder in the place of a file.*: {others}\n"):
                update_folder(tmp_path, files, force=force)
            assert content(tmp_path) == before
    assert edited_files(tmp_path) == ["a"]
    with pytest.raises(InputError, match="edited or added .*: a\n"):
        update_folder(tmp_path, {"z": b"3"})
    update_folder(tmp_path, {"z": b"3"}, force=True)
    assert content(tmp_path) == {"b/mine": b"mine", "z": b"3"}
    assert (tmp_path / "a" / "link").is_symlink()


def test_what_was_removed_comes_back(tmp_path: Path) -> None:
    update_folder(tmp_path, FILES)
    (tmp_path / "a.c").unlink()
    assert (edited_files(tmp_path), changed_files(tmp_path)) == ([], ["a.c"])
    update_folder(tmp_path, FILES)
    assert content(tmp_path) == FILES


def test_an_update_that_was_cut_short_is_gone_on_with(tmp_path: Path) -> None:
    """At no point is a file of ours taken for the user's."""
    update_folder(tmp_path, FILES)
    new = {"a.c": b"1" * 9000, "src/b.c": b"2", "z.c": b"3"}
    with pytest.raises(OutputError, match="File too large"), file_size_limit(8000):
        update_folder(tmp_path, new)
    assert edited_files(tmp_path) == []
    update_folder(tmp_path, FILES)
    assert content(tmp_path) == FILES
    update_folder(tmp_path, new)
    assert content(tmp_path) == new


def whole(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_new", [True, False])
def test_an_update_without_room_changes_nothing(tmp_path: Path, is_new: bool) -> None:
    folder = tmp_path / "outer" / "made"
    if not is_new:
        update_folder(folder, FILES)
    before = whole(tmp_path)
    files = {"a.c": b"other", "new/d.c": b"four", "z.c": bytes(5000)}
    with file_size_limit(4000), pytest.raises(OutputError, match=r"z\.c: File too large"):
        update_folder(folder, files)
    assert whole(tmp_path) == before
    assert (tmp_path / "outer").exists() != is_new
    update_folder(folder, files)
    assert content(folder) == files


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_new_folder_without_room_for_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A folder may need room for a name, too."""
    move, moved = Path.replace, []

    def failing(self: Path, target: Path) -> Path:
        moved.append(target)
        if len(moved) == count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return move(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OutputError, match="No space left"):
        update_folder(tmp_path / "made", FILES)
    assert len(moved) == count
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "[]", '{"version": 9}', '{"version": 1, "files": 3}', "\xff"])
def test_without_a_list_every_file_is_the_users(text: str, tmp_path: Path) -> None:
    update_folder(tmp_path, FILES)
    (tmp_path / MANIFEST).write_text(text, encoding="latin-1")
    update_folder(tmp_path, FILES)
    (tmp_path / MANIFEST).write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"edited or added .*: a\.c\n"):
        update_folder(tmp_path, FILES | {"a.c": b"new"})


def test_a_foreign_list_removes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (tmp_path / "mine.c").write_bytes(b"one")
    update_folder(folder, FILES)
    text = (folder / MANIFEST).read_text()
    for path in ("../mine.c", str(tmp_path / "mine.c"), "src/../../mine.c"):
        (folder / MANIFEST).write_text(text.replace('"a.c"', f'"{path}"'))
        update_folder(folder, {"src/b.c": b"two"}, force=True)
        assert (tmp_path / "mine.c").exists()


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800", "", ".", "./a.c", "src//b.c", MANIFEST, "x" * 300, "y/" * 3000 + "z"]
)
def test_a_list_with_names_of_no_file_is_read(name: str, tmp_path: Path) -> None:
    update_folder(tmp_path, FILES)
    value = json.loads((tmp_path / MANIFEST).read_text())
    value["files"][name] = ["0" * 64]
    (tmp_path / MANIFEST).write_text(json.dumps(value))
    assert edited_files(tmp_path) == changed_files(tmp_path) == []
    update_folder(tmp_path, FILES | {"a.c": b"new"})
    assert content(tmp_path) == FILES | {"a.c": b"new"}
    assert list(json.loads((tmp_path / MANIFEST).read_text())["files"]) == sorted(FILES)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_a_list_that_is_no_file_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading one may never end."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    update_folder(tmp_path, FILES)
    place = tmp_path / MANIFEST
    place.unlink()
    with contextlib.ExitStack() as stack:
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "device":
            place.symlink_to("/dev/zero")
        elif kind == "folder":
            place.mkdir()
        else:
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(MANIFEST)
        with pytest.raises(InputError, match=r"hil-files.json is not a regular file\n\nhint: remo"):
            check_folder(tmp_path, kind="a library", force=True)
        with pytest.raises(InputError, match=r"hil-files.json is not a regular file"):
            update_folder(tmp_path, FILES | {"a.c": b"new"}, force=True)
    assert content(tmp_path) == FILES


def test_a_pipe_in_the_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    update_folder(tmp_path, FILES)
    (tmp_path / "a.c").unlink()
    os.mkfifo(tmp_path / "a.c")
    assert edited_files(tmp_path) == ["a.c"]
    with pytest.raises(InputError, match=r"edited or added .*: a\.c\n"):
        update_folder(tmp_path, FILES)
    update_folder(tmp_path, FILES, force=True)
    assert content(tmp_path) == FILES


@pytest.mark.parametrize(
    ("name", "is_file"),
    [("x.zip", True), ("x.tar.gz", True), ("x.c", True), ("x", False), ("v1.2", False),
     ("x.zip/", False), (".hidden", False)],
)  # fmt: skip
def test_names_of_files_are_no_folders(
    name: str, is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert looks_like_a_file(name) == is_file
    Path(name).mkdir()
    assert not looks_like_a_file(name)


def test_a_link_to_a_folder_that_is_yet_to_be_created(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "lib")
    check_folder(tmp_path / "out", kind="a library")
    update_folder(tmp_path / "out", FILES)
    assert (tmp_path / "out").is_symlink()
    assert content(tmp_path / "disk" / "lib") == FILES


@pytest.mark.parametrize("is_stale", [False, True])
def test_nothing_is_changed_behind_a_link(tmp_path: Path, is_stale: bool) -> None:
    """A folder in the output that is a link: what it leads to is somebody else's."""
    folder, other = tmp_path / "out", tmp_path / "other"
    update_folder(folder, {"a/b/f": b"1", "g": b"2"})
    (folder / "a" / "b").rename(other)
    (folder / "a" / "b").symlink_to(other)
    (folder / MANIFEST).rename(tmp_path / "list")
    (folder / MANIFEST).symlink_to(tmp_path / "list")
    listed = (tmp_path / "list").read_bytes()
    assert edited_files(folder) == ["a/b"]
    files = {"g": b"2"} if is_stale else {"a/b/f": b"3", "g": b"2"}
    with pytest.raises(InputError, match="written: a/b\n"):
        update_folder(folder, files)
    update_folder(folder, files, force=True)
    assert (other / "f").read_bytes() == b"1"
    assert (tmp_path / "list").read_bytes() == listed
    assert not (folder / "a" / "b").is_symlink()
    assert (folder / "a" / "b" / "f").exists() is not is_stale
    assert edited_files(folder) == []


def test_a_list_removes_nothing_behind_a_link(tmp_path: Path) -> None:
    folder, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    (other / "f").write_bytes(b"kept")
    update_folder(folder, {"g": b"2", "z/f": b"kept"})
    (folder / "z" / "f").unlink()
    (folder / "z").rmdir()
    (folder / "z").symlink_to(other)
    with pytest.raises(InputError, match="written: z\n"):
        update_folder(folder, {"g": b"3"})
    assert (other / "f").read_bytes() == b"kept"
