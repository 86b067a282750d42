"""Builds of exported libraries, by the ecosystem's own rules, where its tools are not at hand.

CMake's library is built as it is. Zephyr, ESP-IDF and Arduino are replaced by as much of them as a
library sees: their functions of CMake, the rules by which Arduino finds sources and headers.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hil.board import Board
from hil.board.machine import machine_words

#: Warnings are errors: a library must not add any to its user's build.
WARNINGS = ("-Wall", "-Wextra", "-Werror")
PASSED = ": passed"

_LIMIT_S = 600.0

_ZEPHYR = """\
# As much of Zephyr as a module sees.
macro(zephyr_include_directories)
  foreach(folder ${ARGN})
    get_filename_component(folder ${folder} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
    target_include_directories(zephyr_interface INTERFACE ${folder})
  endforeach()
endmacro()
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC "")
  target_link_libraries(${name} PUBLIC zephyr_interface)
  set_property(GLOBAL APPEND PROPERTY ZEPHYR_LIBS ${name})
endmacro()
macro(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()

project(zephyr LANGUAGES C ASM)
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/prj.conf settings)
foreach(setting ${settings})
  if(setting MATCHES "^(CONFIG_[A-Z0-9_]+)=(.*)$")
    set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endif()
endforeach()
add_library(zephyr_interface INTERFACE)
add_executable(app "")
foreach(module ${ZEPHYR_EXTRA_MODULES})
  file(STRINGS ${module}/zephyr/module.yml folder REGEX "^  cmake: ")
  string(REPLACE "  cmake: " "" folder "${folder}")
  get_filename_component(name ${module} NAME)
  add_subdirectory(${module}/${folder} modules/library)
endforeach()
get_property(libraries GLOBAL PROPERTY ZEPHYR_LIBS)
target_link_libraries(app PRIVATE ${libraries} zephyr_interface m)
"""

_IDF = """\
# As much of ESP-IDF as a component sees.
function(idf_component_register)
  cmake_parse_arguments(given "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  set(COMPONENT_LIB component${number})
  set(COMPONENT_LIB ${COMPONENT_LIB} PARENT_SCOPE)
  add_library(${COMPONENT_LIB} STATIC ${given_SRCS})
  target_include_directories(${COMPONENT_LIB} PUBLIC ${given_INCLUDE_DIRS})
endfunction()
macro(project name)
  _project(${name} LANGUAGES C)
  set(number 0)
  foreach(folder ${EXTRA_COMPONENT_DIRS})
    math(EXPR number "${number} + 1")
    add_subdirectory(${folder} component${number})
    list(APPEND components component${number})
  endforeach()
  set(number main)
  add_subdirectory(main)
  target_link_libraries(componentmain PUBLIC ${components})
  file(WRITE ${CMAKE_BINARY_DIR}/start.c
       "extern void app_main(void);\\nint main(void) { app_main(); return 0; }\\n")
  add_executable(app ${CMAKE_BINARY_DIR}/start.c)
  target_link_libraries(app PRIVATE componentmain m)
endmacro()
"""

_ARDUINO = """\
/* As much of Arduino's core as a sketch sees, on this machine. */
#include <stdio.h>
struct Stream {
    void begin(unsigned long) {}
    void print(const char *text) { fputs(text, stdout); }
    void println(const char *text) { puts(text); }
    explicit operator bool() const { return true; }
};
static Stream Serial;
static inline unsigned long millis() { return 0; }
/* What an interrupt does while the sketch waits. */
__attribute__((unused)) static void (*in_delay)();
static inline void delay(unsigned long) {
    if (in_delay) {
        in_delay();
    }
}
"""
_SKETCH = """\
#include <Arduino.h>
#include "{sketch}"
int main() {{
    setup();
    do {{
        loop();
    }} while ({again});
    return 0;
}}
"""

#: As much of Arduino's library PDM as a sketch sees: a microphone that hears the WAV file
#: that the environment's variable RECORDING names, and ends the program after it.
PDM = """\
#include <stdio.h>
#include <stdlib.h>
struct Pdm {
    FILE *file;
    void onReceive(void (*receive)()) { in_delay = receive; }
    int begin(int channels, int rate) {
        file = fopen(getenv("RECORDING"), "rb");
        /* Behind a WAV file's header. */
        return file && fseek(file, 44, SEEK_SET) == 0 && channels == 1 && rate == 16000;
    }
    int available() { return 512; }
    int read(void *samples, size_t size) {
        size = fread(samples, 1, size, file);
        if (size == 0) {
            exit(0);
        }
        return (int)size;
    }
};
static Pdm PDM;
"""


def run(
    *command: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    code: int = 0,
) -> str:
    """Return what a command prints; its exit code must be ``code``."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT_S,
    )
    assert done.returncode == code, f"{shlex.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def cmake_build(source: Path, build: Path, *options: str, **environment: str) -> None:
    """Configure and build a project with all warnings as errors; neither step may warn."""
    said = run("cmake", "-S", source, "-B", build, "-G", "Ninja", *options, environment=environment)
    said += run("cmake", "--build", build, environment=environment)
    assert "warning" not in said.lower(), said


#: CMake's own checks of a compiler do not pass with all warnings as errors.
def _strict(build: str) -> str:
    return f"-DCMAKE_C_FLAGS_{build.upper()}=-O2 {' '.join(WARNINGS)}"


def build_cmake(library: Path, build: Path, toolchain: Path | None = None) -> Path:
    """Return the program of the example, built for this machine or with a toolchain file."""
    options = [_strict("Release")]
    if toolchain is not None:
        options.append(f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
    cmake_build(library / "example", build, *options)
    return build / ("example" if toolchain is None else "example.elf")


def build_zephyr(project: Path, build: Path, *options: str) -> Path:
    """Return the program of a project, in a stand-in of Zephyr on this machine."""
    stub = build.with_name(f"{build.name} zephyr")
    stub.mkdir()
    (stub / "ZephyrConfig.cmake").write_text(_ZEPHYR)
    cmake_build(
        project,
        build,
        f"-DZephyr_DIR={stub}",
        "-DCMAKE_BUILD_TYPE=Release",
        _strict("Release"),
        *options,
    )
    return build / "app"


def build_esp_idf(library: Path, example: str, build: Path) -> Path:
    """Return the program of an example, in a stand-in of ESP-IDF on this machine."""
    tools = build.with_name(f"{build.name} idf") / "tools" / "cmake"
    tools.mkdir(parents=True)
    (tools / "project.cmake").write_text(_IDF)
    cmake_build(
        library / "examples" / example,
        build,
        "-DCMAKE_BUILD_TYPE=Release",
        _strict("Release"),
        IDF_PATH=str(tools.parents[1]),
    )
    return build / "app"


def build_arduino(
    library: Path,
    sketch: Path,
    build: Path,
    prefix: str = "",
    flags: Sequence[str] = (),
    *,
    libraries: Mapping[str, str] | None = None,
    loops_forever: bool = False,
) -> Path | None:
    """Compile every source below ``src`` and the sketch, as Arduino does: with ``src`` and the
    core on the include path, at ``-Os``. Return the program; None for a compiler of another core.

    ``libraries`` are headers of other libraries, with their contents. The program calls ``loop``
    once, or until it ends itself.
    """
    build.mkdir()
    for name, text in {"Arduino.h": _ARDUINO, **(libraries or {})}.items():
        (build / name).write_text(text)
    start = build / "sketch.cpp"
    start.write_text(_SKETCH.format(sketch=sketch, again=int(loops_forever)))
    common = ["-Os", "-ffunction-sections", *WARNINGS, *flags, "-c"]
    paths = [f"-I{build}", f"-I{library / 'src'}"]
    objects = []
    sources = [*sorted((library / "src").rglob("*.c")), *sorted(sketch.parent.glob("*.c"))]
    for source in (*sources, start):
        is_sketch = source == start
        compiler = [f"{prefix}g++", "-std=gnu++11"] if is_sketch else [f"{prefix}gcc", "-std=gnu11"]
        target = build / f"{source.stem}.o"
        run(*compiler, *common, *paths, source, "-o", target)
        objects.append(target)
    if prefix:
        return None
    run("g++", *objects, "-lm", "-o", build / "program")
    return build / "program"


def build_files(library: Path, program: Path, build: Path) -> Path:
    """Compile ``src`` and a program of a library for this machine, with one include path."""
    build.mkdir()
    target = build / "program"
    sources = sorted((library / "src").rglob("*.c"))
    flags = ["-std=c11", "-O2", *WARNINGS, f"-I{library / 'include'}"]
    run("gcc", *flags, *sources, program, "-lm", "-o", target)
    return target


def run_on_qemu(board: Board, program: Path) -> str:
    """Return what a program prints through semihosting on the machine of a board."""
    assert board.qemu is not None
    words = [*machine_words(board), "-nographic", "-semihosting"]
    return run(*words, "-kernel", program).replace("\r\n", "\n")
