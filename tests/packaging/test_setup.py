"""ci/setup.sh on machines that lack something, played by stand-ins for the commands it calls."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REAL_COMMANDS = ["bash", "cat", "chmod", "cksum", "cp", "dirname", "env", "grep", "head", "mkdir"]
REAL_COMMANDS += ["mktemp", "mv", "rm", "sed", "tail", "touch"]
TOOLS = ["gcc", "g++", "qemu-system-arm", "clang", "clang-tidy", "cppcheck", "gdb-multiarch"]
TOOLS += ["ccache", "openocd", "dfu-util", "bossac", "st-flash", "uhubctl"]
TOOLS += ["qemu-system-riscv32", "verilator"]
#: Files that say that a library is installed.
LIBRARIES = ("newlib", "picolibc", "libclang_rt.fuzzer-x86_64.a")

# A Python whose venv module makes copies of it and whose pip does as the test says: each line of
# the file `pip` is the message of an installation that fails.
PYTHON = r"""#!/usr/bin/env bash
echo "python $*" >>"$MACHINE/log"
case "$*" in
    "-c import sys"*) cat "${0%/*}/version" 2>/dev/null || echo "${VERSION:-3.11}" ;;
    "-c import ensurepip"*) [ -e "$MACHINE/bin/ensurepip" ] ;;
    "-m venv"*)
        mkdir -p .venv/bin && cp "$MACHINE/bin/python3" .venv/bin/python
        echo "${VERSION:-3.11}" >.venv/bin/version
        ;;
    "-m pip install"*"-r "*)
        outcome=$(head -n 1 "$MACHINE/pip")
        sed -i 1d "$MACHINE/pip"
        [ -z "$outcome" ] || { echo "$outcome" >&2; exit 1; }
        ;;
    "-m pip"*) ;;
    "- "*) cat >/dev/null; echo "state $2 $(shift 2; cat "$@" | cksum)" ;;
    *) exit 1 ;;
esac
"""

# One installation fails for each line of the file `apt`.
APT = r"""#!/usr/bin/env bash
echo "apt-get $*" >>"$MACHINE/log"
[[ " $* " == *" install "* ]] || exit 0
[ ! -s "$MACHINE/apt" ] || { sed -i 1d "$MACHINE/apt"; exit 100; }
for package in "$@"; do
    case $package in
        gcc-arm-none-eabi) touch "$MACHINE/bin/arm-none-eabi-gcc" ;;
        gcc-riscv64-unknown-elf) touch "$MACHINE/bin/riscv64-unknown-elf-gcc" ;;
        picolibc-riscv64-unknown-elf) touch "$MACHINE/picolibc" ;;
        qemu-system-misc) touch "$MACHINE/bin/qemu-system-riscv32" ;;
        python3.11-venv) touch "$MACHINE/bin/ensurepip" ;;
        libnewlib-arm-none-eabi) touch "$MACHINE/newlib" ;;
        libclang-rt-14-dev) touch "$MACHINE/libclang_rt.fuzzer-x86_64.a" ;;
        clang) cp "$MACHINE/clang" "$MACHINE/bin" ;;
        -* | *=*) continue ;;
        *) touch "$MACHINE/bin/$package" ;;
    esac
done
chmod +x "$MACHINE"/bin/*
"""
TOOL = "#!/usr/bin/env bash\n"
ARM_GCC = '#!/usr/bin/env bash\n[ -e "$MACHINE/newlib" ] && echo "$MACHINE/newlib" || echo libc.a\n'
CLANG = '#!/usr/bin/env bash\n[ "$1" = -dumpversion ] && echo 14.0.6 || echo "$MACHINE"\n'
RISCV_GCC = ARM_GCC.replace("newlib", "picolibc").replace("libc.a", "picolibc.specs")


class Machine:
    """A machine with every tool, a checkout, and no network; tests take away what they mean to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.checkout = folder / "checkout"
        (self.checkout / "ci" / "locks").mkdir(parents=True)
        self.lock = self.checkout / "ci" / "locks" / "development.txt"
        self.lock.touch()
        self.bin.mkdir()
        shutil.copy(ROOT / "ci" / "setup.sh", self.checkout / "ci")
        (self.checkout / "pyproject.toml").write_text("first\n")
        for name in REAL_COMMANDS:
            real = shutil.which(name)
            assert real is not None
            (self.bin / name).symlink_to(real)
        for name in TOOLS:
            self.put(name, TOOL)
        self.put("arm-none-eabi-gcc", ARM_GCC)
        self.put("riscv64-unknown-elf-gcc", RISCV_GCC)
        self.put("clang", CLANG)
        shutil.copy(self.bin / "clang", folder / "clang")
        self.put("python3", PYTHON)
        self.put("ensurepip", TOOL)
        self.put("sleep", TOOL)
        self.user(0)
        for name in [*LIBRARIES, "pip", "apt", "log"]:
            (folder / name).touch()

    def put(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(script)
        path.chmod(0o755)

    def user(self, number: int) -> None:
        self.put("id", f"{TOOL}echo {number}\n")

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name if name in LIBRARIES else self.bin / name).unlink()

    def setup(self, **environment: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        return subprocess.run(
            [self.bin / "bash", "ci/setup.sh"],
            cwd=self.checkout,
            env={"PATH": str(self.bin), "MACHINE": str(self.folder), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def count(self, text: str) -> int:
        """How often a command was called that has ``text`` in it."""
        return sum(text in line for line in self.log.read_text().splitlines())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_complete_machine_gets_an_environment_once(machine: Machine) -> None:
    assert machine.setup().returncode == 0
    assert machine.count("-m venv") == 1
    assert machine.count("-m pip install") == 2
    again = machine.setup()
    assert (again.returncode, again.stderr) == (0, "")
    assert machine.count("-m venv") == machine.count("-m pip") == 0


@pytest.mark.parametrize("name", ["pyproject.toml", "ci/locks/development.txt"])
def test_changed_project_is_installed_again(machine: Machine, name: str) -> None:
    assert machine.setup().returncode == 0
    (machine.checkout / name).write_text("second\n")
    assert machine.setup().returncode == 0
    assert machine.count("-m venv") == 0
    assert machine.count("--require-hashes --only-binary :all: -r ci/locks/development.txt") == 1
    assert machine.count("--no-index --no-deps --no-build-isolation -e .") == 1


@pytest.mark.parametrize("damage", ["missing", "broken"])
def test_damaged_environment_is_made_anew(machine: Machine, damage: str) -> None:
    assert machine.setup().returncode == 0
    python = machine.checkout / ".venv" / "bin" / "python"
    python.unlink() if damage == "missing" else python.write_text("#!/bin/false\n")
    assert machine.setup().returncode == 0
    assert machine.count("-m venv") == 1


MISSING = {
    ("gcc",): "gcc libc6-dev",
    ("arm-none-eabi-gcc",): "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    ("newlib",): "libnewlib-arm-none-eabi",
    ("qemu-system-arm", "clang"): "qemu-system-arm clang",
    ("ensurepip",): "python3.11-venv",
}


@pytest.mark.parametrize(("commands", "packages"), MISSING.items())
def test_without_apt_it_names_what_to_install(
    machine: Machine, commands: tuple[str, ...], packages: str
) -> None:
    machine.remove(*commands)
    done = machine.setup()
    assert done.returncode == 1
    assert f"sudo apt-get install {packages}" in " ".join(done.stderr.split())
    assert not (machine.checkout / ".venv").exists()


def test_without_sudo_apt_is_not_tried(machine: Machine) -> None:
    machine.remove("qemu-system-arm")
    machine.put("apt-get", APT)
    machine.user(1000)
    assert machine.setup().returncode == 1
    assert machine.count("apt-get") == 0


def test_apt_installs_what_is_missing(machine: Machine) -> None:
    machine.remove("qemu-system-arm", "ensurepip", "newlib", "cppcheck")
    machine.put("apt-get", APT)
    assert machine.setup().returncode == 0
    assert machine.count("libnewlib-arm-none-eabi qemu-system-arm python3.11-venv cppcheck") == 1
    assert machine.count("update") == 0


def test_apt_installs_what_riscv_boards_need(machine: Machine) -> None:
    machine.remove("riscv64-unknown-elf-gcc", "picolibc", "qemu-system-riscv32", "verilator")
    machine.put("apt-get", APT)
    assert machine.setup().returncode == 0
    packages = "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc verilator"
    assert machine.count(packages) == 1
    assert machine.setup().returncode == 0
    assert machine.count("apt-get") == 0


@pytest.mark.parametrize("missing", [["libclang_rt.fuzzer-x86_64.a"], ["clang"], []])
def test_apt_installs_libfuzzer_of_clangs_version(machine: Machine, missing: list[str]) -> None:
    machine.remove(*missing or ("clang", "libclang_rt.fuzzer-x86_64.a"))
    machine.put("apt-get", APT)
    done = machine.setup()
    assert (done.returncode, "going on without" in done.stderr) == (0, False)
    assert machine.count("libclang-rt-14-dev") == ("clang" not in missing)
    assert machine.setup().returncode == 0
    assert machine.count("apt-get") == 0


def test_old_package_lists_are_brought_up_to_date(machine: Machine) -> None:
    machine.remove("qemu-system-arm")
    machine.put("apt-get", APT)
    (machine.folder / "apt").write_text("fail\n" * 2)
    assert machine.setup().returncode == 0
    assert machine.count("update") == 2
    assert machine.count("qemu-system-arm") == 3


def test_a_missing_package_keeps_no_other_away(machine: Machine) -> None:
    machine.remove("qemu-system-arm", "gdb-multiarch")
    machine.put("apt-get", APT)
    (machine.folder / "apt").write_text("fail\n" * 4)
    done = machine.setup()
    assert done.returncode == 0
    assert "going on without gdb-multiarch" in done.stderr


def test_optional_packages_are_asked_for_once(machine: Machine) -> None:
    machine.remove("gdb-multiarch", "cppcheck")
    machine.put("apt-get", APT)
    (machine.folder / "apt").write_text("fail\n" * 9)
    done = machine.setup()
    assert done.returncode == 0
    assert "going on without cppcheck gdb-multiarch" in done.stderr
    assert machine.setup().returncode == 0
    assert machine.count("apt-get") == 0


def test_bad_network_is_tried_again(machine: Machine) -> None:
    (machine.folder / "pip").write_text("Connection reset by peer\nRead timed out\n")
    done = machine.setup()
    assert done.returncode == 0
    assert "attempt 2 of 3 failed" in done.stderr
    assert machine.count("-m venv") == 1


def test_a_lasting_failure_starts_anew_once(machine: Machine) -> None:
    (machine.folder / "pip").write_text("No space left on device\n" * 2)
    done = machine.setup()
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "pip could not install" in done.stderr
    assert machine.count("-m pip install") == machine.count("--require-hashes") == 2
    assert machine.setup().returncode == 0


@pytest.mark.parametrize(
    ("said", "attempts", "fact"),
    [
        ("THESE PACKAGES DO NOT MATCH THE HASHES", 2, "a package differs from its hash in"),
        ("ERROR: No matching distribution found for numpy", 4, "has no package for Python 3.11"),
    ],
)
def test_lock_that_does_not_fit_is_named(
    machine: Machine, said: str, attempts: int, fact: str
) -> None:
    """No other version is taken in place of the locked one."""
    (machine.folder / "pip").write_text(f"{said}\n" * 9)
    done = machine.setup()
    assert done.returncode == 1
    assert fact in done.stderr
    assert "ci/locks/development.txt" in done.stderr
    assert machine.count("-m pip install") == machine.count("--require-hashes") == attempts


@pytest.mark.parametrize("version", ["3.9", "2.7"])
def test_python_that_will_not_do_is_refused(machine: Machine, version: str) -> None:
    done = machine.setup(VERSION=version)
    assert done.returncode == 1
    assert f"python3 is {version}" in done.stderr


def test_any_python_will_do_without_another(machine: Machine) -> None:
    done = machine.setup(VERSION="3.14")
    assert done.returncode == 0
    assert "does not exist for Python 3.14" in done.stderr
    (machine.bin / "python3.12").write_text(PYTHON.replace("${VERSION:-3.11}", "3.12"))
    (machine.bin / "python3.12").chmod(0o755)
    done = machine.setup(VERSION="3.14")
    assert "with python3.12 (3.12)" in done.stderr


def test_environment_of_another_python_is_made_anew(machine: Machine) -> None:
    assert machine.setup(VERSION="3.11").returncode == 0
    assert machine.setup(VERSION="3.12").returncode == 0
    assert machine.count("-m venv") == 1
