# Cross-compiles for Arm without an operating system, with the toolchain that is in PATH.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
# A program cannot be linked before the project's linker script is there.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_EXECUTABLE_SUFFIX_C .elf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
