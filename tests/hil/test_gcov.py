"""Coverage of a user's firmware: the counters of gcov, from its console to gcov's own report."""

from __future__ import annotations

import json
import subprocess
import zlib
from pathlib import Path, PurePosixPath

import pytest
from firmware_app import BOARD, build_with_coverage
from waiting import PATIENCE_S

import hil
from hil.cli import main
from hil.device.gcov import CoverageReader
from hil.errors import ConsoleError, InputError

DATA = b"adcg and counters"
NOTE = b"oncg and a graph"


def lines_of(*files: tuple[str, bytes], count: int | None = None) -> list[str]:
    """What the firmware prints for files."""
    lines = ["boot"]
    for name, data in files:
        lines.append(f"hil-gcov: file {name}")
        lines += [f"hil-gcov: data {data[i : i + 8].hex()}" for i in range(0, len(data), 8)]
        lines.append(f"hil-gcov: end {len(data):08x} {zlib.crc32(data):08x}")
    return [*lines, f"hil-gcov: done {len(files) if count is None else count:08x}"]


def read(lines: list[str]) -> CoverageReader:
    reader = CoverageReader()
    for line in lines:
        reader.feed(line)
    return reader


def counts(folder: Path) -> dict[int, str]:
    """The count of each line of filter.c, by Arm's gcov."""
    command = ["arm-none-eabi-gcov", "-o", ".", "filter.gcda"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    rows = (line.split(":", 2) for line in (folder / "filter.c.gcov").read_text().splitlines())
    return {int(row[1]): row[0].strip() for row in rows}


def line_with(text: str) -> int:
    source = Path(__file__).parents[2] / "examples" / "own_firmware" / "filter.c"
    return next(n for n, line in enumerate(source.read_text().splitlines(), 1) if text in line)


def test_gcov_counts_the_lines(tmp_path: Path) -> None:
    app = build_with_coverage(tmp_path)
    with hil.open_elf(BOARD, app) as device:
        assert [test.outcome for test in device.console.tests("unity", PATIENCE_S)][0] == "passed"
        (path,) = device.console.save_coverage(tmp_path / "out", PATIENCE_S)
    assert path == tmp_path / "out" / "filter.gcda"
    assert path.with_suffix(".gcno").is_file()
    found = counts(tmp_path / "out")
    assert found[line_with("sum += numbers[i]")] == "3"
    assert found[line_with("return high")] == "1"
    assert found[line_with("return low")] == "#####", "no test of the firmware comes there"


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = build_with_coverage(tmp_path)
    out = tmp_path / "out"
    words = ["run", "--elf", str(app), "--board", BOARD, "--coverage", str(out), "--expect", "OK"]
    assert main([*words, "--timeout", str(PATIENCE_S), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["results"]
    assert entry["coverage"] == [str(out / "filter.gcda")]
    assert entry["matched"] is True
    assert counts(out)[line_with("return high")] == "1"


def test_firmware_without_counters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = build_with_coverage(tmp_path, keeps=False)
    words = ["run", "--elf", str(app), "--board", BOARD, "--coverage", str(tmp_path / "out")]
    assert main([*words, "--timeout", str(PATIENCE_S)]) == 1
    assert "-fprofile-info-section" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_counters_that_never_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from firmware_app import build_app

    app = build_app("unity_app", tmp_path)
    words = ["run", "--elf", str(app), "--board", BOARD, "--coverage", str(tmp_path / "out")]
    assert main([*words, "--timeout", "2"]) == 1
    assert "did not arrive" in capsys.readouterr().err
    with hil.open_elf(BOARD, app) as device, pytest.raises(ConsoleError, match="not complete"):
        device.console.save_coverage(tmp_path / "out", 2)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (lines_of(("/a.gcda", DATA), count=2), "1 files arrived, .* sent 00000002|00000001 files"),
        ([*lines_of(("/a.gcda", DATA))[:3], "hil-gcov: file /b.gcda"], "/a.gcda has no end"),
        ([*lines_of(("/a.gcda", DATA))[:3], "hil-gcov: done 00000000"], "files arrived"),
        (["hil-gcov: data 00"], "belong to no file"),
        (["hil-gcov: file /a.gcda", "hil-gcov: data 0g"], "no hexadecimal"),
        (lines_of(("/a.gcda", DATA))[:2] + lines_of(("/a.gcda", DATA))[3:], "bytes, checksum"),
        (lines_of(("/a.gcda", b"something else")), "no file of gcov"),
    ],
)
def test_damaged_counters(lines: list[str], problem: str) -> None:
    with pytest.raises(ConsoleError, match=problem):
        read(lines)


def test_lines_between_them_do_no_harm(tmp_path: Path) -> None:
    lines = [part for line in lines_of(("/a.gcda", DATA)) for part in (line, "log: 3")]
    assert read(lines).save(tmp_path) == [tmp_path / "a.gcda"]
    assert (tmp_path / "a.gcda").read_bytes() == DATA


@pytest.mark.parametrize(
    "name",
    [
        "/../../../etc/x.gcda",
        "../x.gcda",
        "/etc/cron.d/x",
        "",
        "/",
        "..",
        "a\0b.gcda",
        "C:\\x.gcda",
    ],
)
def test_no_file_is_written_elsewhere(tmp_path: Path, name: str) -> None:
    """A board may send any name; only files of counters below the folder are written."""
    folder = tmp_path / "one" / "two"
    read(lines_of((name, DATA), ("/etc/y.gcda", DATA))).save(folder)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(found) == 2
    assert all(path.is_relative_to(folder) and path.suffix == ".gcda" for path in found)


def image_naming(folder: Path, *names: str) -> Path:
    """A stand-in for a firmware that was compiled with these files of counters."""
    image = folder / "app.elf"
    image.write_bytes(b"\x7fELF" + b"".join(name.encode() + b"\0" for name in names))
    return image


def test_only_graphs_of_the_firmware_are_copied(tmp_path: Path) -> None:
    """A board may name any file of this machine."""
    for name in ("own", "other"):
        (tmp_path / f"{name}.gcno").write_bytes(NOTE)
    reader = read(lines_of(*((f"{tmp_path}/{name}.gcda", DATA) for name in ("own", "other"))))
    reader.elf = image_naming(tmp_path, f"{tmp_path}/own.gcda")
    reader.save(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*.gcno")] == ["own.gcno"]


@pytest.mark.parametrize(
    "names",
    [
        ("/b/x/../main.gcda", "/b/x/main.gcda"),
        ("/b/a?c.gcda", "/b/a_c.gcda"),
        ("/b/main.c", "/b/main.S"),
    ],
)
def test_two_counters_with_one_name(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(ConsoleError, match="have the same name, b/"):
        read(lines_of(*((name, DATA) for name in names))).save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_counters_that_were_sent_twice() -> None:
    with pytest.raises(ConsoleError, match="/b/a.gcda was sent twice"):
        read(lines_of(("/b/a.gcda", DATA), ("/b/a.gcda", DATA)))


def test_too_many_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [(f"/b/{number}.gcda", DATA) for number in range(5)]
    monkeypatch.setattr("hil.device.gcov._MOST_FILES", 4)
    with pytest.raises(ConsoleError, match="more than 4 files"):
        read(lines_of(*files))
    monkeypatch.undo()
    monkeypatch.setattr("hil.device.gcov._MOST_BYTES", 4 * len(DATA))
    with pytest.raises(ConsoleError, match=f"have more than {4 * len(DATA)} bytes"):
        read(lines_of(*files))


def test_only_graphs_of_gcc_are_copied(tmp_path: Path) -> None:
    build = tmp_path / "build"
    (build / "sub").mkdir(parents=True)
    (build / "a.gcno").write_bytes(NOTE)
    (build / "sub" / "a.gcno").write_text("a secret")
    names = (f"{build}/a.gcda", f"{build}/sub/a.gcda")
    reader = read(lines_of(*((name, DATA) for name in names)))
    reader.elf = image_naming(tmp_path, *names)
    saved = reader.save(tmp_path / "out")
    assert saved == [tmp_path / "out" / "a.gcda", tmp_path / "out" / "sub" / "a.gcda"]
    assert [path.name for path in (tmp_path / "out").rglob("*.gcno")] == ["a.gcno"]
    assert (tmp_path / "out" / "a.gcno").read_bytes() == NOTE


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        read(lines_of(("/a.gcda", DATA))).save(tmp_path / "out")


def test_paths_are_those_of_gcc() -> None:
    assert list(read(lines_of(("/b/a.gcda", DATA))).files) == [PurePosixPath("/b/a.gcda")]
