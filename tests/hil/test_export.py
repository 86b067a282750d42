"""``hil export``: libraries of other build systems, by the rules that these document."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import answers
import export_hosts as hosts
import numpy as np
import pytest
import yaml
from row_chains import random_chains
from stateful import keyword_file

import hil
import hilc
from hil.board import load_board
from hil.cli import main
from hil.cli.command_line import build_parser
from hil.errors import InputError
from hil.export import About, ExportFormat, Package, register_export
from hil.export import registry as export_registry
from hil.verify.oracle import reference_of
from hil.verify.samples import random_sample
from hilc.artifact.library import ModelLibrary
from hilc.fusion.bands import NotFusible
from hilc.fusion.fused import GroupCalls
from hilc.lowering.choice import KernelSelection
from hilc.target import load_cpu

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
FORMATS = ("cmake", "zephyr", "arduino", "cmsis-pack", "platformio", "esp-idf")
#: Each format's core here: ESP-IDF has no Cortex-M.
CORES = dict.fromkeys(FORMATS, "cortex-m4") | {"esp-idf": "rv32imac"}
#: Formats whose build system gives a library no flags of its own.
WITHOUT_FLAGS = ("arduino", "cmsis-pack")
FLAG = "-fno-delete-null-pointer-checks"
PRAGMA = b'#pragma GCC optimize("no-delete-null-pointer-checks")'

_FULL = pytest.mark.full


@pytest.fixture(scope="module")
def digits() -> ModelLibrary:
    return hilc.compile(DIGITS, cpu="cortex-m4")


@pytest.fixture(scope="module")
def libraries(digits: ModelLibrary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with digits as a library of each format, in a path with spaces."""
    folder = tmp_path_factory.mktemp("exported") / "a folder"
    # The example is linked for the memory of a board.
    hil.export(digits, "cmake", folder / "cmake", board="mps2-an386")
    for name in FORMATS[1:]:
        compiled = digits if digits.modules[0].cpu == CORES[name] else DIGITS
        hil.export(compiled, name, folder / name, cpu=CORES[name])
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# -- what every library has ---------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_a_library_is_complete_in_itself(libraries: Path, name: str) -> None:
    """It has README and license, and no file includes one from outside of the library."""
    folder = libraries / name
    files = files_of(folder)
    assert files["LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert b"tvmgen_digits_run" in files["README.md"]
    made = json.loads(files["hil-export.json"])
    assert (made["library"], made["version"]) == ("digits", "1.0.0")
    assert (made["core"], made["models"]) == (CORES[name], ["digits"])
    bill = json.loads(files["bom.cdx.json"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "digits"
    assert [part["name"] for part in bill["components"]] == ["hil-kernels", "digits"]
    refs = {part["bom-ref"] for part in (bill["metadata"]["component"], *bill["components"])}
    assert {one["ref"] for one in bill["dependencies"]} == refs
    assert refs >= {ref for one in bill["dependencies"] for ref in one.get("dependsOn", ())}
    # Nobody has said what the license of the weights is.
    assert ["licenses" in part for part in bill["components"]] == [True, False]
    assert "licenses" not in bill["metadata"]["component"]
    sources = [path for path in files if path.endswith((".c", ".h")) and "example" not in path]
    assert len([path for path in sources if path.endswith(".c")]) >= 3
    for path in sources:
        for header in re.findall(rb'^#include "(.+)"', files[path], re.MULTILINE):
            place = (folder / path).parent / header.decode()
            public = folder / ("src" if name == "arduino" else "include") / header.decode()
            beside = place.resolve().is_relative_to(folder.resolve()) and place.is_file()
            is_program = path.startswith(("samples/", "template/"))
            assert beside or (is_program and public.is_file()), f"{path} includes {header!r}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_library_is_no_model(
    libraries: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what a board takes instead."""
    folder = str(libraries / name)
    assert main(["verify", folder, "--board", "native"]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in (folder, "hil export", "hil compile -o", "model file"))


@pytest.mark.parametrize("name", FORMATS)
def test_the_flag_or_the_pragma_is_there(libraries: Path, name: str) -> None:
    """GCC leaves out layers without it, so each format states it where its build reads it."""
    files = files_of(libraries / name)
    sources = {p: d for p, d in files.items() if p.startswith("src/") and p.endswith(".c")}
    build = {
        "cmake": "CMakeLists.txt",
        "zephyr": "zephyr/CMakeLists.txt",
        "platformio": "library.json",
        "esp-idf": "CMakeLists.txt",
    }.get(name)
    assert all((PRAGMA in data) == (name in WITHOUT_FLAGS) for data in sources.values())
    assert (build is None) == (name in WITHOUT_FLAGS)
    assert build is None or FLAG in files[build].decode()
    assert FLAG in files["README.md"].decode()


def test_the_same_input_gives_the_same_bytes(libraries: Path, tmp_path: Path) -> None:
    """Also of a compiler that starts anew."""
    library = hilc.compile(DIGITS, cpu="cortex-m4")
    for name in ("cmsis-pack", "arduino"):
        hil.export(library, name, tmp_path / name, cpu="cortex-m4")
        assert files_of(tmp_path / name) == files_of(libraries / name)


def test_samples_are_those_of_the_reference(digits: ModelLibrary, libraries: Path) -> None:
    """The example's outputs are TensorFlow Lite Micro's for the first sample of `hil verify`."""
    sample = random_sample(digits.modules[0].inputs, 0, 0)
    oracle = reference_of(digits, digits.modules[0], "tflm")
    expected = oracle.values(0, sample)["Identity"]
    text = (libraries / "cmake" / "example" / "samples.h").read_text()
    written = re.search(r"digits_expected_Identity\[10\].*?\{(.*?)\}", text, re.DOTALL)
    assert written is not None
    values = [int(word) for word in written[1].replace(",", " ").split()]
    np.testing.assert_array_equal(values, expected.ravel())


# -- builds ---------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_cmake_example_runs_on_an_emulated_board(libraries: Path, tmp_path: Path) -> None:
    library = libraries / "cmake"
    toolchain = library / "example" / "toolchain-cortex-m4.cmake"
    program = hosts.build_cmake(library, tmp_path / "a build", toolchain)
    said = hosts.run_on_qemu(load_board("mps2-an386"), program)
    assert said == "digits: Identity: 0 of 10 values are wrong\ndigits: passed\n"


@pytest.mark.full
@pytest.mark.parametrize("prefix", ["arm-none-eabi-", pytest.param("", marks=_FULL)])
def test_the_sketch_and_its_library_compile(libraries: Path, tmp_path: Path, prefix: str) -> None:
    library = libraries / "arduino"
    sketch = library / "examples" / "Digits" / "Digits.ino"
    flags = load_cpu("cortex-m4").cflags if prefix else ()
    program = hosts.build_arduino(library, sketch, tmp_path / "a build", prefix, flags)
    assert program is None or hosts.run(program).endswith("digits: passed\n")


@_FULL
@pytest.mark.parametrize("name", ["cmake", "zephyr", "esp-idf", "cmsis-pack", "platformio"])
def test_examples_run_on_this_machine(libraries: Path, tmp_path: Path, name: str) -> None:
    library, build = libraries / name, tmp_path / "a build"
    if name == "cmake":
        program = hosts.build_cmake(library, build)
    elif name == "zephyr":
        program = hosts.build_zephyr(library / "samples" / "digits", build)
    elif name == "esp-idf":
        program = hosts.build_esp_idf(library, "digits", build)
    else:
        main_c = "template/main.c" if name == "cmsis-pack" else "examples/digits/src/main.c"
        program = hosts.build_files(library, library / main_c, build)
    assert hosts.run(program) == "digits: Identity: 0 of 10 values are wrong\ndigits: passed\n"


@_FULL
def test_an_installed_library_is_found(libraries: Path, tmp_path: Path) -> None:
    """`find_package` finds it with its version, and the program needs nothing else."""
    library, build = libraries / "cmake", tmp_path / "a build"
    hosts.build_cmake(library, build)
    hosts.run("cmake", "--install", build, "--prefix", tmp_path / "an installation")
    project = tmp_path / "user"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(user LANGUAGES C)\n"
        "find_package(digits 1.0 CONFIG REQUIRED)\nadd_executable(user main.c)\n"
        "target_link_libraries(user PRIVATE digits::digits)\n"
    )
    for file in ("main.c", "samples.h"):
        (project / file).write_bytes((library / "example" / file).read_bytes())
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'an installation'}"
    hosts.cmake_build(project, tmp_path / "user build", prefix)
    assert hosts.run(tmp_path / "user build" / "user").endswith("digits: passed\n")
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(user LANGUAGES C)\n"
        "find_package(digits 2.0 CONFIG REQUIRED)\n"
    )
    said = hosts.run("cmake", "-S", project, "-B", tmp_path / "other", prefix, code=1)
    assert "version: 1.0.0" in said


@pytest.mark.full
def test_a_project_that_joins_its_sources(tmp_path: Path) -> None:
    models = [hilc.compile(DIGITS, name=name) for name in ("one", "other")]
    hil.export(models, "cmake", tmp_path / "library")
    hosts.cmake_build(tmp_path / "library", tmp_path / "build", "-DCMAKE_UNITY_BUILD=ON")


@_FULL
def test_a_wrong_result_fails(libraries: Path, tmp_path: Path) -> None:
    """The example's comparison is one: with another expected value it says so, and exits with 1."""
    library, build = libraries / "cmsis-pack", tmp_path / "a build"
    template = tmp_path / "template"
    template.mkdir()
    (template / "main.c").write_bytes((library / "template" / "main.c").read_bytes())
    samples = (library / "template" / "samples.h").read_text()
    spoiled = re.sub(r"(digits_expected_Identity\[10\][^{]*\{\s*)-?\d+", r"\g<1>77", samples)
    assert spoiled != samples
    (template / "samples.h").write_text(spoiled)
    program = hosts.build_files(library, template / "main.c", build)
    said = hosts.run(program, code=1)
    assert said == "digits: Identity: 1 of 10 values are wrong\ndigits: FAILED\n"


@_FULL
@pytest.mark.parametrize("board", ["microbit", "mps3-an547", "riscv-virt"])
def test_examples_run_on_other_cores(tmp_path: Path, board: str) -> None:
    hil.export(DIGITS, "cmake", tmp_path / "a library", board=board)
    cpu = load_board(board).cpu.name
    toolchain = tmp_path / "a library" / "example" / f"toolchain-{cpu}.cmake"
    program = hosts.build_cmake(tmp_path / "a library", tmp_path / "a build", toolchain)
    assert hosts.run_on_qemu(load_board(board), program).endswith("digits: passed\n")


@_FULL
@pytest.mark.parametrize(
    "options",
    [
        {"pools": "external"},
        {"constants": "external"},
        {"pools": "external", "constants": "external"},
        {"io_in_pool": True, "keep_inputs": True},
        {"io_in_pool": True, "pools": "external"},
    ],
)
def test_examples_call_every_kind_of_interface(tmp_path: Path, options: dict[str, Any]) -> None:
    library = hilc.compile(DIGITS, **options)
    hil.export(library, "cmsis-pack", tmp_path / "one")
    program = hosts.build_files(
        tmp_path / "one", tmp_path / "one" / "template" / "main.c", tmp_path / "b"
    )
    assert hosts.run(program).endswith("digits: passed\n")


@_FULL
def test_a_model_with_state_is_reset_first(tmp_path: Path) -> None:
    model = tmp_path / "keywords.tflite"
    model.write_bytes(keyword_file())
    hil.export(model, "cmsis-pack", tmp_path / "one", about=About(name="counter"))
    main_c = tmp_path / "one" / "template" / "main.c"
    assert "_reset_state()" in main_c.read_text()
    program = hosts.build_files(tmp_path / "one", main_c, tmp_path / "b")
    assert hosts.run(program).endswith("counter: passed\n")


@_FULL
def test_a_library_for_helium_refuses_other_cores(tmp_path: Path) -> None:
    hil.export(DIGITS, "cmake", tmp_path / "one", cpu="cortex-m55")
    source = tmp_path / "one" / "src" / "digits_target.c"
    for cpu, code in (("cortex-m55", 0), ("cortex-m4", 1)):
        flags = load_cpu(cpu).cflags
        said = hosts.run("arm-none-eabi-gcc", *flags, "-fsyntax-only", source, code=code)
        assert ("this library is for Cortex-M55" in said) == bool(code)


@_FULL
def test_the_pragma_is_the_flag(tmp_path: Path) -> None:
    """GCC 12 leaves a call of this group out; with the pragma the code is that of the flag."""
    chains = random_chains(46, 14, "int16", largest=10, channels=18)
    cpu = load_cpu("cortex-m4")
    groups = []
    streams = GroupCalls(chains.graph, cpu)
    for group in chains.choice.groups:
        try:
            streams.call(group)
        except NotFusible:
            continue
        groups.append(group)
    library = hilc.compile(
        chains.graph,
        cpu=cpu.name,
        choice=KernelSelection(groups=tuple(groups)),
        io_in_pool=True,
        fold_constant_channels=False,
    )
    code = {}
    for name, flags in (("cmake", [FLAG]), ("arduino", [])):
        exported = hil.export(library, name, tmp_path / name)
        # The library holds no file of the model, so there is nothing to compare with.
        assert not exported.has_reference
        source, target = tmp_path / name / "src" / "chains_lib1.c", tmp_path / f"{name}.o"
        hosts.run("arm-none-eabi-gcc", *cpu.cflags, "-O2", *flags, "-c", source, "-o", target)
        hosts.run("arm-none-eabi-objcopy", "-O", "binary", "-j", ".text", target, f"{target}.bin")
        code[name] = Path(f"{target}.bin").read_bytes()
    assert code["cmake"] == code["arduino"]


# -- manifests --------------------------------------------------------------------------------


def test_library_properties_follow_arduinos_rules(libraries: Path) -> None:
    """docs.arduino.cc, "Library specification": the fields, their characters, the folders."""
    folder = libraries / "arduino"
    lines = (folder / "library.properties").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines)
    assert list(values) == [
        *("name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"),
        *("architectures", "includes", "license"),
    ]
    assert all(values.values())
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\- ]{0,62}", values["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", values["version"])
    assert values["category"] == "Data Processing"
    assert (folder / "src" / values["includes"]).is_file()
    sketch = folder / "examples" / "Digits"
    assert sorted(path.name for path in sketch.iterdir()) == ["Digits.ino", "samples.h"]
    for line in (folder / "keywords.txt").read_text().splitlines():
        assert re.fullmatch(r"\w+\tKEYWORD[12]", line)


def test_the_module_follows_zephyrs_rules(libraries: Path) -> None:
    """docs.zephyrproject.org, "Modules": keys of module.yml, and files that they name."""
    folder = libraries / "zephyr"
    module = yaml.safe_load((folder / "zephyr" / "module.yml").read_text())
    assert module == {
        "name": "digits",
        "build": {"cmake": "zephyr", "kconfig": "zephyr/Kconfig"},
        "samples": ["samples"],
    }
    assert (folder / "zephyr" / "CMakeLists.txt").is_file()
    option = re.findall(r"^config (\w+)$", (folder / "zephyr/Kconfig").read_text(), re.MULTILINE)
    assert option == ["HIL_DIGITS"]
    sample = folder / "samples" / "digits"
    assert (sample / "prj.conf").read_text() == "CONFIG_HIL_DIGITS=y\n"
    told = yaml.safe_load((sample / "sample.yaml").read_text())
    assert told["sample"]["name"] == "Digits"
    assert told["tests"]["sample.digits.run"]["harness_config"]["regex"] == ["digits: passed"]


def test_the_component_follows_espressifs_rules(libraries: Path) -> None:
    """docs.espressif.com, "idf_component.yml Manifest File Format Reference"."""
    folder = libraries / "esp-idf"
    manifest = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert manifest == {
        "version": "1.0.0",
        "description": "The neural network digits in C, compiled for RV32IMAC.",
        "license": "Apache-2.0",
        "maintainers": ["hil"],
        "dependencies": {"idf": ">=4.4"},
        "examples": [{"path": "./examples/digits"}],
    }
    assert "idf_component_register(" in (folder / "CMakeLists.txt").read_text()


def test_the_library_follows_platformios_rules(libraries: Path) -> None:
    """docs.platformio.org, "library.json": the fields, and files that they name."""
    folder = libraries / "platformio"
    manifest = json.loads((folder / "library.json").read_text())
    assert {"name", "version", "description", "license", "headers", "build"} <= set(manifest)
    assert manifest["build"]["flags"] == ["-O2", FLAG]
    for header in manifest["headers"]:
        assert (folder / manifest["build"]["includeDir"] / header).is_file()
    for example in manifest["examples"]:
        assert all((folder / example["base"] / file).is_file() for file in example["files"])


def test_the_pack_follows_its_schema(libraries: Path) -> None:
    """Open-CMSIS-Pack's PACK.xsd: elements, their order where it matters, and names of files."""
    folder = libraries / "cmsis-pack"
    packed = zipfile.ZipFile(folder / "hil.Digits.1.0.0.pack")
    assert packed.testzip() is None
    inside = {entry.filename: packed.read(entry) for entry in packed.infolist()}
    others = {"hil.Digits.1.0.0.pack", "hil-files.json"}
    assert inside == {p: d for p, d in files_of(folder).items() if p not in others}
    assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    root = ElementTree.fromstring(inside["hil.Digits.pdsc"])
    assert [element.tag for element in root] == [
        *("vendor", "name", "description", "url", "license", "releases", "keywords", "taxonomy"),
        *("conditions", "components"),
    ]
    assert (root.findtext("vendor"), root.findtext("name")) == ("hil", "Digits")
    assert root.find("releases/release[@version='1.0.0']") is not None
    component = root.find("components/component")
    assert component is not None
    for part in ("Cclass", "Cgroup", "Csub"):
        assert 3 <= len(component.attrib[part]) <= 32
    conditions = {condition.attrib["id"] for condition in root.iterfind("conditions/condition")}
    assert component.attrib["condition"] in conditions
    listed = [file.attrib for file in component.iterfind("files/file")]
    for file in listed:
        name = file["name"]
        assert name in inside or any(path.startswith(name) for path in inside), name
    named = {file["name"] for file in listed if file["category"] == "sourceC"}
    assert named >= {path for path in inside if path.startswith("src/") and path.endswith(".c")}
    templates = {file["name"] for file in listed if file.get("attr") == "template"}
    assert templates == {"template/main.c", "template/samples.h"}


def test_a_pack_for_helium_requires_it(tmp_path: Path) -> None:
    hil.export(DIGITS, "cmsis-pack", tmp_path / "one", cpu="cortex-m55")
    root = ElementTree.parse(tmp_path / "one" / "hil.Digits.pdsc")
    found = [e.attrib for e in root.iterfind("conditions/condition[@id='Helium']/accept")]
    assert found == [{"Dmve": "MVE"}, {"Dmve": "FP_MVE"}]


@_FULL
def test_the_ecosystems_tools_accept_the_libraries() -> None:
    """PlatformIO, Espressif's component manager, west, Kconfig's parser and pyOCD, which
    `measure.py exports` installs into an environment of their own.
    """
    said = hosts.run(sys.executable, ROOT / "tools" / "measure.py", "exports", "--tools")
    assert said.count("good ") == 5, said


# -- the command --------------------------------------------------------------------------------


def test_the_command_reports_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", f"a={DIGITS}", f"b={DIGITS}", "--build-system", "zephyr", "--json"]
    words += ["-o", f"{tmp_path}/two", "--library", "Pair", "--library-version", "2.1.0"]
    words += ["--license", "LicenseRef-Mine", "--author", "Ann Example"]
    assert main(words) == 0
    said = answers.entry(capsys.readouterr().out)
    assert (said["format"], said["library"], said["version"]) == ("zephyr", "Pair", "2.1.0")
    assert [model["model"] for model in said["models"]] == ["a", "b"]
    assert (said["cpu"], said["example_compares"]) == ("host", True)
    assert sorted(said["files"]) == sorted(set(files_of(tmp_path / "two")) - {"hil-files.json"})
    kconfig = (tmp_path / "two" / "zephyr" / "Kconfig").read_text()
    assert "config HIL_PAIR\n" in kconfig
    assert "a and b" in kconfig
    readme = (tmp_path / "two" / "README.md").read_text()
    assert "LicenseRef-Mine" in readme
    bill = json.loads((tmp_path / "two" / "bom.cdx.json").read_text())
    mine = [{"expression": "LicenseRef-Mine"}]
    assert [part["licenses"] == mine for part in bill["components"]] == [False, True, True]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--build-system", "cmak"], "unknown build system 'cmak' (did you mean cmake?)"),
        (["--build-system", "cmake", "--library", "9x"], "'9x' cannot name a library"),
        (
            ["--build-system", "cmake", "--library", "Time"],
            "build systems or C have this name already",
        ),
        (["--build-system", "cmake", "--name", "test"], "a library cannot be called 'test'"),
        (["--build-system", "cmake", "--library-version", "1.0"], "version '1.0' is not valid"),
        (["--build-system", "cmake", "--url", "digits"], "url 'digits' is not valid"),
        (["--build-system", "cmake", "--license", "my own!"], "license 'my own!' is not valid"),
        (["--build-system", "cmake", "--vendor", "A B"], "vendor 'A B' is not valid"),
        (["--build-system", "cmake", "--author", "a\nb"], "author 'a\\nb' is not valid"),
        (["--build-system", "arduino", "--library", "ArduinoNet"], "begins with Arduino"),
        (["--build-system", "esp-idf", "--cpu", "cortex-m4"], "and cortex-m4 is Arm's"),
        (["--build-system", "cmsis-pack", "--cpu", "rv32imac"], "rv32imac is none"),
        (["--build-system", "cmake", "--interface", "packed"], "calls TVM's C run time"),
        (["--build-system", "cmake", "--pools", "calls"], "calls TVM's C run time"),
        (["--build-system", "cmake", "--constants", "binary"], "are in a binary file"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["export", str(DIGITS), "-o", f"{tmp_path}/out", *words]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_others_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only an empty or absent folder, or an earlier export, is written to."""
    words = ["export", str(DIGITS), "--build-system", "cmake", "-o", str(tmp_path)]
    (tmp_path / "thesis.txt").write_text("mine")
    for more in ([], ["--force"]):
        assert main([*words, *more]) == 2
        assert "choose a folder that is empty" in capsys.readouterr().err
    assert files_of(tmp_path) == {"thesis.txt": b"mine"}


def test_code_for_any_core_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", str(DIGITS), "--build-system", "cmake", "-o", f"{tmp_path}/out"]
    assert main(words) == 0
    assert re.search(r"^digits  any ", capsys.readouterr().out, re.MULTILINE)


def test_a_second_export_keeps_edits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    words = ["export", str(DIGITS), "-o", str(folder), "--build-system"]
    assert main([*words, "cmake"]) == 0
    before = files_of(folder)
    # Another format leaves nothing of the first behind, and a file of the user stays.
    (folder / "notes.txt").write_text("mine")
    assert main([*words, "platformio"]) == 0
    assert not (folder / "CMakeLists.txt").exists()
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "library.json").write_text("{}")
    capsys.readouterr()
    assert main([*words, "cmake"]) == 2
    assert "library.json" in capsys.readouterr().err
    assert main([*words, "cmake", "--force"]) == 0
    (folder / "notes.txt").unlink()
    assert files_of(folder) == before


def test_models_of_different_cores_do_not_go_together(digits: ModelLibrary, tmp_path: Path) -> None:
    other = hilc.compile(DIGITS, cpu="cortex-m0", name="other")
    with pytest.raises(InputError, match="different cores: cortex-m0, cortex-m4"):
        hil.export([digits, other], "cmake", tmp_path / "out")
    with pytest.raises(InputError, match="'digits' was compiled for cortex-m4 and cannot be put"):
        hil.export(digits, "cmake", tmp_path / "out", cpu="cortex-m0")
    assert not (tmp_path / "out").exists()


def test_a_compiled_library_is_exported(
    digits: ModelLibrary, libraries: Path, tmp_path: Path
) -> None:
    """From an archive come the same bytes as from the model; its core is that of the library."""
    archive = digits.save(tmp_path / "digits.tar")
    hil.export(ModelLibrary.load(archive), "zephyr", tmp_path / "out")
    assert files_of(tmp_path / "out") == files_of(libraries / "zephyr")


# -- formats of others ----------------------------------------------------------------------------


@pytest.fixture
def own_format(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Register a format ``own`` that returns a given value, for one test."""
    export_registry.load_built_in()
    monkeypatch.setattr(export_registry, "_FORMATS", dict(export_registry._FORMATS))

    def register(value: object) -> None:
        def write(package: Package) -> object:
            return value(package) if callable(value) else value

        register_export(ExportFormat("own", write))  # type: ignore[arg-type]

    return register


def test_a_format_of_others_lays_out_the_code(
    digits: ModelLibrary, own_format: Callable[[object], None], tmp_path: Path
) -> None:
    own_format(lambda package: package.code("api", "impl") | package.common_files("# mine\n"))
    done = hil.export(digits, "own", tmp_path / "out")
    assert done.format == "own"
    assert "api/tvmgen_digits.h" in done.files
    library = tmp_path / "out"
    for source in sorted((library / "impl").glob("*.c")):
        hosts.run("gcc", "-fsyntax-only", *hosts.WARNINGS, source)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "returned 'NoneType', not files"),
        ({"a": "text"}, "not files"),
        ({"../a": b""}, "returned the path '../a'"),
        ({"/a": b""}, "returned the path '/a'"),
    ],
)
def test_what_a_format_returns_is_checked(
    digits: ModelLibrary,
    own_format: Callable[[object], None],
    tmp_path: Path,
    value: object,
    told: str,
) -> None:
    own_format(value)
    with pytest.raises(InputError, match=re.escape(told)):
        hil.export(digits, "own", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_is_taken_once(own_format: Callable[[object], None]) -> None:
    own_format({})
    with pytest.raises(InputError, match="export format 'own' exists already"):
        own_format({})


def test_the_help_names_the_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are registered, in their order; what the help lists is not computed."""
    commands = build_parser()._commands
    assert commands is not None
    export = commands.choices["export"]
    told = next(a.help for a in export._actions if a.dest == "build_system")
    assert told == f"{', '.join(FORMATS)}, or a plug-in's"
    assert export_registry.export_formats()[: len(FORMATS)] == FORMATS
    # Whichever of their modules was imported first.
    other_way_round = dict(reversed(export_registry._FORMATS.items()))
    monkeypatch.setattr(export_registry, "_FORMATS", other_way_round)
    assert export_registry.export_formats()[: len(FORMATS)] == FORMATS
