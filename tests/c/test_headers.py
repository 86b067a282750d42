"""Every public header compiles by itself, in C and in C++, and none reads what it stored as another
type; slots that code jumps to have the size that the jump assumes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns import sampled

from hil.compat.tvm.runtime import CRT as FIRMWARE_CRT
from hilc.codegen.headers import find_header, include_dirs
from hilc.support.resources import data_dir

RUNTIME = include_dirs()
TEMPLATE = data_dir("firmware_template")
#: What a board's configuration must say for the headers of the firmware.
CONFIG = "#define HIL_RX_MAX 256\n#define HIL_FRAME_MAX 128\n"

_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only")
HELIUM = ("-mcpu=cortex-m55", "-mfloat-abi=hard")
_C, _CPP = ("-std=c11", "-xc"), ("-xc++",)
#: Compilers that know every header; the others leave out those for Helium.
ARM: dict[str, tuple[str, ...]] = {
    "c11": ("arm-none-eabi-gcc", *_C, *HELIUM),
    "c++": ("arm-none-eabi-g++", *_CPP, *HELIUM),
}
OTHERS: dict[str, tuple[str, ...]] = {
    "host-c11": ("gcc", *_C),
    "host-c++11": ("g++", *_CPP, "-std=c++11"),
    "host-c++17": ("g++", *_CPP, "-std=c++17"),
    "host-c++20": ("g++", *_CPP, "-std=c++20"),
    "m0-c++": ("arm-none-eabi-g++", *_CPP, "-mcpu=cortex-m0"),
    "m3-c++": ("arm-none-eabi-g++", *_CPP, "-mcpu=cortex-m3", "-O2"),
    "m4-c++": ("arm-none-eabi-g++", *_CPP, "-mcpu=cortex-m4", "-O2"),
    "m4-c11": ("arm-none-eabi-gcc", *_C, "-mcpu=cortex-m4", "-O2"),
    "m55-c++": ("arm-none-eabi-g++", *_CPP, *HELIUM, "-O2"),
}


def headers() -> Iterator[str]:
    for folder in (*RUNTIME, TEMPLATE / "include"):
        yield from sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.h"))
    yield "hil_crt.h"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("headers")
    (path / "hil_config.h").write_text(CONFIG, encoding="ascii")
    return path


def check(compiler: tuple[str, ...], folder: Path, *sources: str) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is missing")
    includes = [folder, *RUNTIME, TEMPLATE / "include", FIRMWARE_CRT]
    command = [*compiler, *_WARNINGS, *(f"-I{path}" for path in includes), *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.full
@pytest.mark.parametrize("compiler", ARM)
def test_each_header_compiles_alone(compiler: str, folder: Path) -> None:
    names = []
    for at, header in enumerate(headers()):
        names.append(f"{compiler}-{at}.x")
        (folder / names[-1]).write_text(f'#include "{header}"\n', encoding="ascii")
    assert len(names) > 80
    check(ARM[compiler], folder, *names)


#: Of those that `make test` asks.
USUAL = ["host-c11", "host-c++11", "m55-c++"]


@pytest.mark.parametrize("compiler", sampled(OTHERS, keep=USUAL))
def test_all_headers_compile_together(compiler: str, folder: Path) -> None:
    has_helium = "-mcpu=cortex-m55" in OTHERS[compiler]
    text = "".join(f'#include "{h}"\n' for h in headers() if has_helium or "/mve/" not in h)
    (folder / f"{compiler}.x").write_text(text, encoding="ascii")
    check(OTHERS[compiler], folder, f"{compiler}.x")


# -- types -----------------------------------------------------------------------------------------


def test_no_kernel_takes_memory_for_another_type() -> None:
    """Compilers assume that an int16_t and a uint32_t are never the same memory."""
    cast = re.compile(r"\((?:const )?(?:u?int(?:16|32|64)_t|float) \*\)\s*\(*([\w>.-]+)")
    found = set()
    for path in (p for folder in RUNTIME for p in (folder / "hil").rglob("*.h")):
        text = path.read_text(encoding="utf-8")
        # Memory behind a void pointer has the type that is stored first; an integer's cast back
        # to a pointer only drops a const.
        untyped = {"uintptr_t", *re.findall(r"\bvoid \*(?:const )?(\w+)", text)}
        found |= {
            f"{path}: {match[0]}"
            for match in cast.finditer(text)
            # A member by its own name.
            if re.split(r"->|\.", match[1])[-1] not in untyped
        }
    assert found == set()


# -- computed jumps --------------------------------------------------------------------------------

BLOCKS, WIDE = "hil/kernels/mve/blocks_s8.h", "hil/kernels/mve/wide_s8.h"
#: How many slots of which size a header has.
SLOTS = [
    (BLOCKS, 8, "HIL_MVE_ROWS_SLOT_BYTES"),
    (BLOCKS, 8, "HIL_MVE_VECTOR_SLOT_BYTES"),
    (WIDE, 3, "HIL_MVE_WIDE_SLOT_BYTES"),
    (WIDE, 8, "HIL_MVE_WIDE_FAR_SLOT_BYTES"),
]
ASSEMBLERS: dict[str, tuple[str, ...]] = {
    "gcc": ("arm-none-eabi-gcc", *HELIUM, "-mthumb"),
    "clang": ("clang", "--target=thumbv8.1m.main-none-eabi", *HELIUM, "-Wno-unknown-attributes"),
}
#: All of its functions, so that they are assembled.
ALL_BLOCKS = f"""\
#include "{WIDE}"
void *const blocks[] = {{
    hil_mve_rows_s8, hil_mve_rows_s8_linear, hil_mve_vector_s8, hil_mve_vector_s8_linear,
    hil_mve_vector_s8_uniform, hil_mve_vector_s8_uniform_linear, hil_mve_wide_s8,
    hil_mve_wide_s8_added, hil_mve_wide_s8_raised, hil_mve_wide_s8_raised_added,
    hil_mve_rows_s8_matrix,
}};
"""


def assemble(name: str, path: str, header: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ASSEMBLERS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is missing")
    changed = folder / path
    changed.parent.mkdir(parents=True)
    changed.write_text(header, encoding="utf-8")
    (folder / "blocks.c").write_text(ALL_BLOCKS, encoding="ascii")
    includes = (f"-I{folder}", *(f"-I{path}" for path in RUNTIME), "-ffreestanding")
    return subprocess.run(
        [*command, "-O2", "-g", *includes, "-c", "blocks.c", "-o", "blocks.o"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("path", [BLOCKS, WIDE])
@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_slots_have_the_size_that_jumps_assume(assembler: str, path: str, tmp_path: Path) -> None:
    header = find_header(path).read_text(encoding="utf-8")
    done = assemble(assembler, path, header, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", [-4, 4])
@pytest.mark.parametrize(("path", "count", "slot"), SLOTS)
@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_a_slot_of_another_size_is_not_assembled(
    assembler: str, path: str, count: int, slot: str, change: int, tmp_path: Path
) -> None:
    header = find_header(path).read_text(encoding="utf-8")
    size = int(re.findall(rf"#define {slot} (\d+)\n", header)[0])
    header = header.replace(f"{slot} {size}\n", f"{slot} {size + change}\n")
    done = assemble(assembler, path, header, tmp_path)
    assert done.returncode != 0
    expected = (
        f"{count} * {size + change} bytes" if assembler == "gcc" else "invalid number of bytes"
    )
    assert expected in done.stderr
