# Cross-compiles for a core without an operating system. CMakePresets.json names the compiler, which is
# in PATH.
set(CMAKE_SYSTEM_NAME Generic)
# A program cannot be linked before the project's linker script is there.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_EXECUTABLE_SUFFIX_C .elf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
