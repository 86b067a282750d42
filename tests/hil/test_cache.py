"""What is kept between runs is believed only as far as it is whole; nothing else needs to be."""

from __future__ import annotations

import dataclasses
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from campaigns import cases
from small_models import moves
from tiny_library import tiny_library

import hil.firmware.build as build_module
import hil.support.cache as cache_module
import hilc
from hil.board import load_board
from hil.build import Firmware, build
from hil.errors import BuildError, InputError
from hil.firmware.compiled import compile_model
from hil.support.cache import cache_folder, evict_unused, locked, read_checked, with_checksum
from hilc.options import CompileOptions
from hilc.support.outputs import OutputError

BOARD = load_board("native")
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.tflite"
LIBRARY = tiny_library("for (int i = 0; i < 4; ++i) { y[i] = x[i] + 1; }", cpu=BOARD.cpu.name)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one build in it."""
    folder = tmp_path_factory.mktemp("cache") / "hil"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIL_CACHE", str(folder))
        build([LIBRARY], BOARD)
    return folder


@pytest.fixture
def kept(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Firmware:
    """The build in a copy of the cache, which a test may damage."""
    shutil.copytree(template, tmp_path / "cache", symlinks=True)
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    firmware = build([LIBRARY], BOARD)
    assert firmware.folder.is_relative_to(tmp_path)
    return firmware


def edited(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


def stretched(data: bytes) -> bytes:
    """Valid JSON with another figure in it."""
    return data.replace(b'"flash_bytes": ', b'"flash_bytes": 1', 1)


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


#: What becomes of the file with a build's result, or of its ELF.
RESULT_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "result empty": lambda _: b"",
    "result cut short": lambda data: data[:-40],
    "result no JSON": lambda _: b"\xff\0 nonsense",
    "result of another kind": lambda _: b"[]",
    "result deep": lambda _: b"[" * 100_000,
    "result of another version": lambda data: re.sub(rb',\s*"seal": "\w*"', b"", data),
    "result changed": stretched,
}
ELF_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "ELF cut short": lambda data: data[:-100],
    "ELF flipped": flipped,
    "ELF empty": lambda _: b"",
}
DAMAGE = (
    *RESULT_DAMAGE, *ELF_DAMAGE, "result a folder", "ELF a folder", "ELF gone", "entry a file",
    "entry a link to nothing",
)  # fmt: skip


def spoil(firmware: Firmware, damage: str) -> None:
    result = firmware.folder / "firmware.json"
    if damage in RESULT_DAMAGE:
        edited(result, RESULT_DAMAGE[damage])
    elif damage in ELF_DAMAGE:
        edited(firmware.elf, ELF_DAMAGE[damage])
    elif damage == "result a folder":
        replaced_by_folder(result)
    elif damage == "ELF a folder":
        replaced_by_folder(firmware.elf)
    elif damage == "ELF gone":
        shutil.rmtree(firmware.elf.parent)
    else:
        shutil.rmtree(firmware.folder)
        if damage == "entry a file":
            firmware.folder.write_text("x")
        else:
            firmware.folder.symlink_to("/nonexistent/place")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_build_counts_as_missing(damage: str, kept: Firmware) -> None:
    assert build_module._look_up(kept.folder, kept.build_id) == kept.sizes
    spoil(kept, damage)
    assert build_module._look_up(kept.folder, kept.build_id) is None


@cases("damage", ["result changed", "ELF a folder", "entry a file"], first=1)
def test_a_damaged_build_is_built_again(damage: str, kept: Firmware) -> None:
    image = kept.elf.read_bytes()
    spoil(kept, damage)
    assert build([LIBRARY], BOARD) == kept
    assert kept.elf.read_bytes() == image
    before = kept.elf.stat().st_mtime_ns
    assert build([LIBRARY], BOARD) == kept
    assert kept.elf.stat().st_mtime_ns == before, "now it is whole"


def test_a_link_leads_to_a_whole_build(kept: Firmware, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    kept.folder.rename(elsewhere)
    kept.folder.symlink_to(elsewhere)
    before = (elsewhere / "build" / "firmware.elf").stat().st_mtime_ns
    assert build([LIBRARY], BOARD) == kept
    edited(elsewhere / "build" / "firmware.elf", flipped)
    spoiled = (elsewhere / "build" / "firmware.elf").stat().st_mtime_ns
    assert build([LIBRARY], BOARD) == kept
    assert not kept.folder.is_symlink()
    # What the link led to is somebody's, and is not touched.
    assert (elsewhere / "build" / "firmware.elf").stat().st_mtime_ns == spoiled != before


@contextmanager
def as_nobody() -> Iterator[None]:
    """Files are the system's to refuse, also where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def read_only(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def open_way(folder: Path) -> None:
    """Lets anybody come to ``folder``."""
    for parent in folder.parents:
        if parent.is_relative_to("/tmp/pytest-of-root") or "pytest" in parent.name:
            parent.chmod(parent.stat().st_mode | 0o555)


def test_a_cache_that_is_read_only_is_of_use(kept: Firmware) -> None:
    cache = cache_folder()
    open_way(cache)
    read_only(cache)
    try:
        with as_nobody():
            if not os.access(kept.elf, os.R_OK, effective_ids=True):
                pytest.skip(f"nobody else may come to {kept.elf}")
            assert build([LIBRARY], BOARD) == kept
            other = dataclasses.replace(BOARD, clock_hz=1_000_000)
            with pytest.raises(OutputError) as caught:
                build([LIBRARY], other)
    finally:
        for path in (cache, *cache.rglob("*")):
            path.chmod(0o755)
    assert caught.value.fact == f"cannot write the cache folder {cache}: Permission denied"
    assert "set HIL_CACHE" in caught.value.hint


def test_an_empty_cache_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the folder's, not that of a file in it."""
    folder = tmp_path / "cache"
    folder.mkdir()
    open_way(folder)
    folder.chmod(0o555)
    monkeypatch.setenv("HIL_CACHE", str(folder))
    with as_nobody(), pytest.raises(OutputError, match="Permission denied"), locked(folder):
        pass


def give_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make ``folder`` another user's; return whose."""
    if os.geteuid() == 0:
        os.chown(folder, 12345, -1)
        return 12345
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    return owner


@pytest.mark.parametrize("kind", ["", "builds", "libraries", "answers", "locks"])
def test_a_cache_of_another_user_is_not_used(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    place = tmp_path / kind
    place.mkdir(exist_ok=True)
    # What the sticky bit protects is still its owner's.
    tmp_path.chmod(0o1777)
    assert cache_folder() == tmp_path
    owner = give_away(place, monkeypatch)
    with pytest.raises(InputError) as caught:
        build([LIBRARY], BOARD)
    told = f"the cache folder {place if os.geteuid() == 0 else tmp_path} belongs to another user"
    assert caught.value.fact.startswith(f"{told} (uid {owner}; this process is of uid ")
    assert caught.value.hint.startswith("set HIL_CACHE to a folder of your own")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("kind", ["", "builds", "libraries", "answers", "locks"])
def test_a_cache_that_anybody_can_write_is_not_used(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    tmp_path.chmod(0o755)
    place = tmp_path / kind
    place.mkdir(exist_ok=True)
    place.chmod(0o775)  # the group's, too: of the umask 002
    assert cache_folder() == tmp_path
    place.chmod(0o777)
    with pytest.raises(InputError) as caught:
        build([LIBRARY], BOARD)
    told = f"may write into the cache folder {place} (mode 0777)"
    assert told in caught.value.fact
    assert f"'chmod o-w {place}'" in caught.value.hint
    assert list(place.iterdir()) == []
    tmp_path.chmod(0o777 if place == tmp_path else 0o770)  # where nobody else may enter
    if place != tmp_path:
        assert cache_folder() == tmp_path


@pytest.mark.full
@cases("exists", [False, True], first=1)
def test_a_cache_is_private_at_any_umask(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "cache"
    if exists:
        folder.mkdir(parents=True)
        folder.chmod(0o755)
    monkeypatch.setenv("HIL_CACHE", str(folder))
    before = os.umask(0)
    try:
        compile_model(DIGITS, CompileOptions(cpu="host"))
        build([LIBRARY], BOARD)
        build([LIBRARY], BOARD)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == (0o755 if exists else 0o770)
    kinds = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {"builds", "locks"} <= kinds.keys()
    assert set(kinds.values()) == {0o775}


@pytest.mark.parametrize("place", ["file", "file/below", "dangling", "/proc/none", "/dev/null"])
def test_a_cache_that_cannot_be_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "dangling").symlink_to("/proc/none")
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / place))
    with pytest.raises(OutputError, match=r"cannot write the cache folder \S+: ") as caught:
        build([LIBRARY], BOARD)
    assert (caught.value.exit_code, caught.value.hint) == (2, cache_module.REMEDY)


def test_there_need_be_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HIL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent/home")
    if os.geteuid() == 0:
        monkeypatch.setenv("HOME", "/proc/none")
    with pytest.raises(OutputError, match=r"\.cache/hil: "):
        build([LIBRARY], BOARD)

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(InputError, match="there is no home folder"):
        build([LIBRARY], BOARD)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "hil"


@pytest.mark.parametrize("nbytes", [2_000, 30_000])
def test_a_disk_that_is_full_says_where(
    nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First while the project is written, then while the linker writes the image."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, limit[1]))
    try:
        with pytest.raises(OutputError) as caught:
            build([LIBRARY], BOARD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.exit_code == 2
    assert str(tmp_path / "cache" / "builds") in caught.value.fact
    assert "File " in caught.value.fact
    assert "HIL_CACHE" in caught.value.hint
    assert build([LIBRARY], BOARD).elf.is_file(), "nothing half-written is left to trip over"


def test_a_lock_is_waited_for_and_not_for_ever(
    kept: Firmware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_LOCK_LIMIT_S", 0.2)
    edited(kept.folder / "firmware.json", flipped)
    with locked(kept.folder), pytest.raises(BuildError, match="another process has been building"):
        build([LIBRARY], BOARD)


def test_strange_files_in_the_cache_do_no_harm(kept: Firmware, tmp_path: Path) -> None:
    builds = kept.folder.parent
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("mine")
    (builds / "file").write_text("x")
    (builds / "link").symlink_to(tmp_path / "mine")
    (builds / "dangling").symlink_to("/nonexistent")
    long_ago = time.time() - 40 * 24 * 3600
    for name in ("file", "link", "dangling"):
        os.utime(builds / name, (long_ago, long_ago), follow_symlinks=False)
    evict_unused()
    assert list(builds.iterdir()) == [kept.folder]
    assert (tmp_path / "mine" / "x").exists()


@pytest.mark.parametrize("years", [-20, 20])
def test_a_clock_that_jumps_costs_no_build_in_use(
    years: int, kept: Firmware, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time() + years * 365 * 24 * 3600
    monkeypatch.setattr(time, "time", lambda: now)
    with locked(kept.folder):
        evict_unused()
    assert build([LIBRARY], BOARD) == kept


def test_a_seal_is_of_the_whole_value(tmp_path: Path) -> None:
    value = {"a": [1, {"b": None}], "c": "\N{GREEK SMALL LETTER MU}"}
    path = tmp_path / "x.json"
    path.write_text(with_checksum(value))
    assert read_checked(path) == value
    text = path.read_text()
    for other in (text.replace("1", "2", 1), text.replace('"a"', '"b"'), text[:-3], ""):
        path.write_text(other)
        assert read_checked(path) is None


# -- interrupts --------------------------------------------------------------------------------


def processes_in(folder: Path) -> list[str]:
    """The processes that work below ``folder``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            place = os.readlink(process / "cwd")
            if Path(place).is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.mark.full
def test_an_interrupted_build_leaves_nothing(kept: Firmware, tmp_path: Path) -> None:
    """At several moments; the signal goes to the command alone, as a supervisor sends it."""
    archive, output = tmp_path / "net.tar", tmp_path / "project"
    hilc.compile(moves(), name="net").save(archive)
    command = [sys.executable, "-m", "hil", "build", str(archive), "--board", "native"]
    started = time.monotonic()
    done = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole_s = time.monotonic() - started
    (output / "firmware.json").unlink()
    moments = {0.3: "INT", 0.5: "TERM", 0.7: "HUP", 0.85: "INT"}
    for part, name in moments.items():
        number = signal.Signals[f"SIG{name}"]
        process = subprocess.Popen(
            [*command, "-o", str(output)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(part * whole_s)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        # Killed by the signal itself where Python has not begun yet, or is about to end.
        assert process.returncode in (128 + number, -number, 0), errors
        assert "Traceback" not in errors
        assert processes_in(tmp_path) == []
        assert not list(output.rglob(".hil-*"))
    done = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (output / "build" / "firmware.elf").is_file()
