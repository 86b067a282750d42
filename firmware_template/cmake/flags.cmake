# Every compiler and linker flag that does not depend on the board. Those of its core and of the
# toolchain are in generated/firmware.cmake.

set(HIL_C_FLAGS
    -std=c11
    -g
    -ffunction-sections
    -fdata-sections
    -fno-common
    -fno-asynchronous-unwind-tables
    # The same image wherever the project lies.
    -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)

set(HIL_WARNING_FLAGS
    -Wall
    -Wextra
    -Wconversion
    -Wshadow
    -Wstrict-prototypes
    -Wdouble-promotion)

# Start-up, drivers, RPC: small. Models: fast; on the MLPerf Tiny models -O3 takes 1 to 6 % more flash
# and saves no more than 0.1 % of the instructions (vww: it costs 2 %), -Os takes 2 to 10 % more of
# them.
set(HIL_CORE_FLAGS -Os)
# GCC 12.2 takes the address of an array that a loop walks from another array for an access to
# address 0, behind which nothing runs, and leaves out calls of functions with such a loop.
set(HIL_MODEL_FLAGS -O2 -fno-delete-null-pointer-checks)

set(HIL_LINK_FLAGS -Wl,--gc-sections -Wl,-Map=firmware.map)

if(CMAKE_CROSSCOMPILING)
  # Stack use of each function beside its object.
  list(APPEND HIL_C_FLAGS -fstack-usage ${HIL_TOOLCHAIN_C_FLAGS})
  list(APPEND HIL_MODEL_FLAGS ${HIL_TOOLCHAIN_MODEL_FLAGS})
  list(APPEND HIL_LINK_FLAGS
       -nostartfiles
       ${HIL_TOOLCHAIN_LINK_FLAGS}
       -Wl,--print-memory-usage
       -Wl,--fatal-warnings
       # Not through -Wl, which takes a comma in the path for the end of it.
       -T${CMAKE_SOURCE_DIR}/generated/firmware.ld)
endif()
