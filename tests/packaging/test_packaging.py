"""The distribution works as a wheel, as an editable install, and from a checkout's folders.

Each way gets an environment of its own that holds nothing of the project but what was installed.
The dependencies are those of the running environment, so nothing is downloaded.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import answers
import pytest
import tflm

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
LICENSE = ROOT / "LICENSE"
DISTRIBUTED = ["hil", "compiler", "targets", "firmware_template"]
#: The model of `hil board prove`.
PROVEN_MODEL = "examples/digits/digits.tflite"
PROJECT_FILES = ["pyproject.toml", "README.md", "LICENSE", ".gitignore"]
# Where the wheel puts each folder of the sources.
PLACES = {
    "hil": "hil",
    "compiler/hilc": "hilc",
    "compiler/runtime": "hilc/_data/runtime",
    "targets": "hilc/_data/targets",
    "firmware_template": "hilc/_data/firmware_template",
}
# What the build itself writes, for type checkers.
TYPES = Path("hilc/lowering/parameters.pyi")
BUILD_OUTPUTS = [
    "firmware_template/build/main.o",
    "compiler/runtime/build/kernels.a",
    "targets/__pycache__/x.pyc",
    "hil/.mypy_cache/x.json",
]


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Stdout of a command that must succeed; nothing of this process's Python reaches it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass
class Environment:
    """A virtual environment, an empty working folder, and a firmware cache of its own."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> "Environment":
        venv.create(folder / "env", with_pip=False, symlinks=True)
        environment = cls(folder)
        environment.empty.mkdir()
        # The paths of another environment, but not what its own .pth files add to the path.
        paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (environment.site / "dependencies.pth").write_text("\n".join(paths))
        # Where pip puts it, and where its package looks for it.
        ninja = Path(sysconfig.get_path("scripts")) / "ninja"
        (environment.python.parent / "ninja").symlink_to(ninja)
        return environment

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    @property
    def hil(self) -> Path:
        return self.folder / "env" / "bin" / "hil"

    @property
    def empty(self) -> Path:
        return self.folder / "empty"

    @property
    def site(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "env" / "lib" / version / "site-packages"

    def install(self, *words: object) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "-q"]
        run(*pip, "--no-deps", "--no-index", "--no-build-isolation", *words, cwd=self.empty)

    def run(self, *command: object, **environment: str) -> str:
        cache = str(self.folder / "cache")
        return run(*command, cwd=self.empty, XDG_CACHE_HOME=cache, **environment)

    def places(self, **environment: str) -> list[Path]:
        """Where the packages and the three folders of data come from."""
        code = (
            "import hil, hilc, json; from hilc.support.resources import data_dir as d;"
            "print(json.dumps([hil.__file__, hilc.__file__,"
            "*(str(d(n)) for n in ('targets', 'firmware_template', 'runtime'))]))"
        )
        return [Path(p) for p in json.loads(self.run(self.python, "-c", code, **environment))]


def copy_sources(folder: Path) -> Path:
    """The sources as a checkout has them, with outputs of builds among them."""
    ignored = shutil.ignore_patterns("__pycache__", "build", TYPES.name)
    for name in DISTRIBUTED:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in (*PROJECT_FILES, PROVEN_MODEL):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def source_files(sources: Path) -> dict[str, Path]:
    """The files that the wheel has to carry, by their place in it."""
    single = {f"hilc/_data/{name}": sources / name for name in (LICENSE.name, PROVEN_MODEL)}
    return single | {
        f"{place}/{path.relative_to(sources / folder)}": path
        for folder, place in PLACES.items()
        for path in (sources / folder).rglob("*")
        if path.is_file()
    }


def build(kind: str, sources: Path, output: Path) -> Path:
    """The wheel or sdist of ``sources``."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", output, cwd=sources)
    (built,) = output.iterdir()
    return built


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment.create(tmp_path_factory.mktemp("installed"))
    environment.install(wheel)
    return environment


def package_files(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel but for its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        return {name: archive.read(name) for name in names}


def test_wheel_has_every_source_and_no_output(tmp_path: Path) -> None:
    copy = copy_sources(tmp_path / "dirty")
    expected = {place: path.read_bytes() for place, path in source_files(copy).items()}
    assert {"hil/py.typed", "hilc/py.typed"} <= expected.keys()
    for name in BUILD_OUTPUTS:
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_bytes(b"output of a build")
    files = package_files(build("wheel", copy, tmp_path / "dist"))
    assert b"\nclass HilGenericMatmulS8(Parameters):\n" in files.pop(TYPES.as_posix())
    assert files == expected


@pytest.mark.full  # It changes rarely, and takes long.
def test_wheel_of_the_sdist_is_the_same(sources: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", sources, tmp_path / "sdist")) as archive:
        # As the standard library asks for where Pythons without filters are to be served.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(tmp_path)
    (unpacked,) = tmp_path.glob("hil_harness-*")
    assert package_files(build("wheel", unpacked, tmp_path / "again")) == package_files(wheel)


@pytest.mark.full  # It changes rarely, and takes long.
def test_wheel_brings_its_own_data(installed: Environment) -> None:
    assert all(place.is_relative_to(installed.site) for place in installed.places())


@pytest.mark.full
def test_wheel_verifies_in_an_empty_folder(installed: Environment) -> None:
    installed.run(installed.hil, "compile", DIGITS, "-o", "digits.tar")
    installed.run(
        installed.hil, "export", "digits.tar", "--build-system", "cmake", "-o", "exported"
    )
    assert (installed.empty / "exported" / "LICENSE").read_bytes() == LICENSE.read_bytes()
    with tarfile.open(installed.empty / "digits.tar") as archive:
        assert "./metadata.json" in archive.getnames()
    installed.run(installed.hil, "build", DIGITS, "--board", "native", "-o", "firmware")
    assert (installed.empty / "firmware" / "CMakeLists.txt").is_file()
    verify = [installed.hil, "verify", DIGITS, "--board", "native", "--samples", "3", "--json"]
    report = answers.entry(installed.run(*verify, "--allow-fallback"))
    assert report["match"] is True
    assert report["samples"] == 3
    assert report["reference"] == ("tflm" if tflm.EXISTS else "hilc")


@pytest.mark.full  # It changes rarely, and takes long.
def test_wheel_brings_the_pytest_plugin(installed: Environment) -> None:
    # Pytest refuses an option that no plugin defines.
    (installed.empty / "test_nothing.py").write_text("def test_nothing(): pass\n")
    command = [installed.python, "-m", "pytest", "-q", "--hil-board=native", "test_nothing.py"]
    assert "1 passed" in installed.run(*command)


@pytest.mark.full  # It changes rarely, and takes long.
def test_editable_install_uses_the_checkout(sources: Path, tmp_path: Path) -> None:
    environment = Environment.create(tmp_path)
    environment.install("-e", sources)
    assert (sources / "compiler" / TYPES).is_file()
    assert all(place.is_relative_to(sources) for place in environment.places())
    environment.run(environment.hil, "compile", DIGITS, "-o", "digits.tar")
    assert (environment.empty / "digits.tar").is_file()


def test_checkout_works_from_its_folders_alone(sources: Path, tmp_path: Path) -> None:
    environment = Environment.create(tmp_path)
    path = f"{sources}{os.pathsep}{sources / 'compiler'}"
    assert all(place.is_relative_to(sources) for place in environment.places(PYTHONPATH=path))
    command = [environment.python, "-m", "hil.cli", "compile", DIGITS, "-o", "digits.tar"]
    environment.run(*command, PYTHONPATH=path)
    assert (environment.empty / "digits.tar").is_file()
