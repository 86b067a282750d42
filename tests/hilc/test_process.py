"""How programs are started: they end with this process, and cost nothing that grows with it."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from campaigns import sampled

from hilc.support import process

#: As where util-linux is not installed.
NO_LAUNCHER = "process._launcher = lambda: ()\n"


def run_script(script: str) -> str:
    """What a Python process of its own prints."""
    code = "import os, sys\nfrom pathlib import Path\nfrom hilc.support import process\n"
    done = subprocess.run(
        [sys.executable, "-c", code + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not process._launcher(), reason="this machine has no setpriv --pdeathsig")
@pytest.mark.parametrize(("setup", "told"), [("", ""), (NO_LAUNCHER, "forked\n")])
def test_a_program_starts_without_a_fork(setup: str, told: str) -> None:
    """A fork copies the page tables, and takes longer the more memory the process has."""
    assert (
        run_script(
            setup + "os.register_at_fork(before=lambda: print('forked'))\n"
            "done = process.run(['echo', 'it ran'], Path('/'), limit_s=50)\n"
            "assert done.stdout == 'it ran\\n', done\n"
            "assert done.args == ['echo', 'it ran'], done\n"
        )
        == told
    )


@pytest.mark.parametrize("setup", sampled(["", NO_LAUNCHER], keep=[""]), ids=["launched", "forked"])
def test_a_program_ends_with_its_killed_parent(setup: str) -> None:
    script = (
        "import sys\nfrom hilc.support import process\n"
        f"{setup}"
        "print(process.start(['sleep', '600']).pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    gone, alive = psutil.wait_procs([child], timeout=60)
    assert gone
    assert not alive


def test_a_program_of_a_dead_parent_does_not_begin(tmp_path: Path) -> None:
    """It was killed between starting the program and the program asking to be ended with it."""
    launcher = process._launcher()
    if not launcher:
        pytest.skip("this machine has no setpriv --pdeathsig")
    nobody = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    begun = tmp_path / "begun"
    done = subprocess.run([*launcher, nobody.stdout.strip(), "touch", str(begun)], check=False)
    assert done.returncode == 1
    assert not begun.exists()


def test_an_unstartable_program_is_a_system_error(tmp_path: Path) -> None:
    def refused(program: str | Path, message: str) -> None:
        with pytest.raises(OSError, match=message):
            process.run([str(program)], tmp_path, limit_s=50)

    refused("no-such-program", "No such file")
    refused("./no-such-program", "No such file")
    plain = tmp_path / "plain"
    plain.write_text("echo it ran")
    refused("./plain", "Permission denied")
    plain.chmod(0o755)
    refused(plain, "Exec format error")
    # ELF's head alone, of a machine that does not exist.
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<2H", 2, 0x7FFF) + bytes(44))
    foreign.chmod(0o755)
    refused(foreign, "Exec format error")


def test_a_program_sees_only_what_it_was_given(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\necho "$ONLY in $(pwd -P), $1"\ncat "/proc/self/fd/$2"\n')
    script.chmod(0o755)
    reading, writing = os.pipe()
    os.write(writing, b"handed on")
    os.close(writing)
    environment = {"PATH": os.environ["PATH"], "ONLY": "alone"}
    child = process.start(
        ["./script", "two words", str(reading)],
        cwd=tmp_path,
        env=environment,
        pass_fds=[reading],
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(reading)
    with child:
        assert child.communicate(timeout=60)[0] == (
            f"alone in {tmp_path.resolve()}, two words\nhanded on"
        )
        assert os.getpgid(0) != child.pid
    assert child.returncode == 0
