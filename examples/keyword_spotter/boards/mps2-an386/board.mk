CORE = --board mps2-an386
CROSS = arm-none-eabi-
FLAGS = -mcpu=cortex-m4 -mthumb -nostartfiles --specs=nano.specs --specs=nosys.specs
