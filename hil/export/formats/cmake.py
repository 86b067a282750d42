"""``cmake``: a project for ``add_subdirectory``, ``FetchContent`` and ``find_package``."""

from __future__ import annotations

from hil.board.machine import machine_words
from hil.export.example import SAMPLES, c_program, samples_header
from hil.export.package import FLAGS, Package
from hil.export.readme import call_of, readme
from hil.export.registry import ExportFormat, register_export
from hilc.target import Cpu


def _files(package: Package) -> dict[str, bytes]:
    name = package.slug
    files = package.code() | package.common_files(readme(package, _use(package), _FLAGS_ARE_SET))
    files["CMakeLists.txt"] = _lists(package).encode()
    files[f"cmake/{name}Config.cmake.in"] = _config(package).encode()
    files["example/main.c"] = c_program(package)
    files[f"example/{SAMPLES}"] = samples_header(package)
    files["example/CMakeLists.txt"] = _example(package).encode()
    if not package.cpu.is_host:
        files[f"example/toolchain-{package.cpu.name}.cmake"] = _toolchain(package.cpu).encode()
    if package.cpu.isa == "arm":
        files["example/bare_metal/startup.c"] = _STARTUP.encode()
        files["example/bare_metal/link.ld"] = _linker_script(package).encode()
    return files


_FLAGS_ARE_SET = "`CMakeLists.txt` sets both for the library's own sources."


def _use(package: Package) -> str:
    name = package.slug
    module = package.modules[0].symbol
    run = (
        "cmake -S example -B build\ncmake --build build\n./build/example\n"
        if package.cpu.is_host
        else "cmake -S example -B build "
        f"-DCMAKE_TOOLCHAIN_FILE=toolchain-{package.cpu.name}.cmake\ncmake --build build\n"
    )
    emulated = ""
    if package.board is not None and package.board.qemu is not None:
        words = [*machine_words(package.board), "-nographic", "-semihosting"]
        emulated = " ".join([*words, "-kernel", "build/example.elf"]) + "\n"
    native = (
        "Without the toolchain file the same example is built for this machine.\n"
        if not (package.cpu.is_host or package.needs_helium)
        else ""
    )
    return f"""\
```cmake
add_subdirectory({name})      # or FetchContent, or find_package({name}) after cmake --install
target_link_libraries(firmware PRIVATE {name}::{name})
```

{call_of(package)}; `example/main.c` does, and compares the outputs with the reference's:

```sh
{run}{emulated}```

{native}The example prints through semihosting where it runs without an operating system.
`{module}.h` has the interface.
"""


def _lists(package: Package) -> str:
    name = package.slug
    sources = "\n  ".join(package.source_paths())
    flags = " ".join(FLAGS)
    return f"""\
# {package.sentence}
cmake_minimum_required(VERSION 3.15)
project({name} VERSION {package.version} LANGUAGES C)

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library({name} STATIC
  {sources})
add_library({name}::{name} ALIAS {name})
target_include_directories({name} PUBLIC $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}/include>
                                       $<INSTALL_INTERFACE:${{CMAKE_INSTALL_INCLUDEDIR}}>)
target_compile_features({name} PRIVATE c_std_11)
# Each source is a unit of its own: their static names are the same in every model.
set_target_properties({name} PROPERTIES
  VERSION ${{PROJECT_VERSION}} C_EXTENSIONS ON UNITY_BUILD OFF)
# The models' speed, whatever the build type. GCC 12 without the second flag leaves out layers that
# it takes for accesses to address 0.
target_compile_options({name} PRIVATE $<$<C_COMPILER_ID:GNU,Clang,AppleClang,ARMClang>:{flags}>)
if(NOT WIN32)
  target_link_libraries({name} PUBLIC m)
endif()

install(TARGETS {name} EXPORT {name}Targets
        ARCHIVE DESTINATION ${{CMAKE_INSTALL_LIBDIR}})
install(DIRECTORY include/ DESTINATION ${{CMAKE_INSTALL_INCLUDEDIR}})
install(EXPORT {name}Targets NAMESPACE {name}::
        DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{name})
configure_package_config_file(cmake/{name}Config.cmake.in {name}Config.cmake
  INSTALL_DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{name})
write_basic_package_version_file({name}ConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${{CMAKE_CURRENT_BINARY_DIR}}/{name}Config.cmake
              ${{CMAKE_CURRENT_BINARY_DIR}}/{name}ConfigVersion.cmake
        DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{name})
"""


def _config(package: Package) -> str:
    name = package.slug
    return f"""\
@PACKAGE_INIT@

include("${{CMAKE_CURRENT_LIST_DIR}}/{name}Targets.cmake")
check_required_components({name})
"""


def _example(package: Package) -> str:
    name = package.slug
    bare = ""
    if package.cpu.isa == "arm":
        bare = """
# Without an operating system: start-up code, memory, and output through semihosting.
if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
  target_sources(example PRIVATE bare_metal/startup.c)
  set_target_properties(example PROPERTIES SUFFIX .elf
                        LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/bare_metal/link.ld)
  target_link_options(example PRIVATE -nostartfiles --specs=nano.specs --specs=rdimon.specs
                      -T${CMAKE_CURRENT_SOURCE_DIR}/bare_metal/link.ld -Wl,--gc-sections)
endif()
"""
    elif package.cpu.isa == "riscv":
        code, data = _memory(package)
        settings = (
            f"__flash={code[0]:#x},--defsym=__flash_size={code[1]:#x},--defsym=__ram={data[0]:#x},"
            f"--defsym=__ram_size={data[1]:#x},--defsym=__stack_size=0x2000"
        )
        bare = f"""
# Without an operating system: picolibc's start-up code and linker script, with output through
# semihosting. The memory is that of the board.
if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
  set_target_properties(example PROPERTIES SUFFIX .elf)
  target_link_options(example PRIVATE --oslib=semihost --crt0=hosted -Tpicolibc.ld
                      -Wl,--defsym={settings})
endif()
"""
    return f"""\
# Builds the example: on this machine, or with the toolchain file beside for the core.
cmake_minimum_required(VERSION 3.15)
project({name}_example LANGUAGES C)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
add_subdirectory(.. {name})

add_executable(example main.c)
target_link_libraries(example PRIVATE {name}::{name})
{bare}"""


def _toolchain(cpu: Cpu) -> str:
    flags = " ".join((*cpu.cflags, *cpu.toolchain.c_flags))
    return f"""\
# Compiles for {cpu.title} with {cpu.toolchain.gcc}, which is in PATH.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR {cpu.name})
set(CMAKE_C_COMPILER {cpu.toolchain.gcc})
set(CMAKE_C_FLAGS_INIT "{flags} -ffunction-sections -fdata-sections")
# A program cannot be linked before it has its start-up code.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
"""


#: Where memory lies without a board: code and data as every Cortex-M has them, 4 MiB each.
_DEFAULT_MEMORY = ((0, 4 << 20), (0x2000_0000, 4 << 20))


def _memory(package: Package) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return origin and size of the memory for code, and of that for data."""
    board = package.board
    if board is None or not board.regions("flash") or not board.regions("ram"):
        return _DEFAULT_MEMORY
    code, data = board.regions("flash")[0], max(board.regions("ram"), key=lambda r: r.size)
    return (code.origin, code.size), (data.origin, data.size)


def _linker_script(package: Package) -> str:
    code, data = _memory(package)
    of = f"the board {package.board.name}" if package.board is not None else "an emulated board"
    return f"""\
/* The memory of {of}: change the four numbers for another one. */
MEMORY {{
    CODE (rx) : ORIGIN = {code[0]:#010x}, LENGTH = {code[1]:#x}
    DATA (rwx) : ORIGIN = {data[0]:#010x}, LENGTH = {data[1]:#x}
}}

ENTRY(reset_handler)

SECTIONS {{
    .text : {{
        KEEP(*(.vectors))
        *(.text .text.*)
        *(.rodata .rodata.*)
    }} > CODE
    .ARM.exidx : {{
        *(.ARM.exidx .ARM.exidx.*)
    }} > CODE
    .data : ALIGN(16) {{
        data_start = .;
        *(.data .data.*)
        . = ALIGN(4);
        data_end = .;
    }} > DATA AT > CODE
    data_load = LOADADDR(.data);
    .bss (NOLOAD) : ALIGN(16) {{
        bss_start = .;
        *(.bss .bss.*)
        *(COMMON)
        . = ALIGN(16);
        bss_end = .;
    }} > DATA
    end = .;
    stack_top = ORIGIN(DATA) + LENGTH(DATA);
}}
"""


_STARTUP = """\
/* Start-up code of a Cortex-M, for the example alone: a project of your own has its own. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern uint8_t data_start[], data_end[], data_load[], bss_start[], bss_end[], stack_top[];
extern void initialise_monitor_handles(void);
extern int main(void);

void reset_handler(void);

/* Ends the program where the library or the core is not what it should be. */
static void fault_handler(void) { _Exit(2); }

__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {
    (void (*)(void))stack_top, reset_handler,
    fault_handler,             fault_handler,
    fault_handler,             fault_handler,
    fault_handler,             fault_handler,
};

__attribute__((noreturn)) void reset_handler(void) {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    /* Access to the floating-point unit, which Helium shares. */
    *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20;
    __asm volatile("dsb\\n\\tisb" ::: "memory");
#endif
    (void)memcpy(data_start, data_load, (size_t)(data_end - data_start));
    (void)memset(bss_start, 0, (size_t)(bss_end - bss_start));
    initialise_monitor_handles();
    exit(main());
}
"""

register_export(ExportFormat("cmake", _files))
