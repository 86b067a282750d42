CORE = --board riscv-virt
CROSS = riscv64-unknown-elf-
FLAGS = -march=rv32imac -mabi=ilp32 -mcmodel=medany -msmall-data-limit=0 --specs=picolibc.specs -nostartfiles -Wl,--no-warn-rwx-segments
