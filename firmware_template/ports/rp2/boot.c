/* What the boot ROMs look for at the start of flash. */
#include <stdint.h>

#include "hil_config.h"

#if HIL_SOC_CHIP == 2040
/* RP2040 (its data sheet, chapter 2.8.1): the ROM copies the first 256 bytes of flash to RAM and
 * runs them where the last word is the CRC-32 of the others; else it waits for USB, so a wrong
 * image leaves the board as it was when new. The code's task is to let the core execute from flash.
 * It asks for the plainest way, command 03h with one data line, which every serial flash has, and
 * then enters the image through its vectors, which stand behind it.
 *
 * Registers of the SSI (chapter 4.10.13) from r3 on: SSIENR 0x08, BAUDR 0x14, CTRLR0 0x00, CTRLR1
 * 0x04, SPI_CTRLR0 0xF4. The flash gets a quarter of the core's clock; 03h allows 50 MHz.
 *
 * The checksum is of CRC-32/MPEG-2. It must be changed with the code:
 * tests/hil/test_boards_other.py compares it with that of a linked image and says which it should
 * be. */
__asm(".syntax unified\n"
      ".section .boot2, \"ax\"\n"
      ".balign 4\n"
      ".thumb\n"
      ".global hil_boot2\n"
      ".type hil_boot2, %function\n"
      ".thumb_func\n"
      "hil_boot2:\n"
      "    ldr r3, 2f\n"  /* SSI */
      "    movs r1, #0\n" /* off while it is set up */
      "    str r1, [r3, #0x08]\n"
      "    str r1, [r3, #0x04]\n" /* one word a read */
      "    movs r0, #4\n"
      "    str r0, [r3, #0x14]\n"
      "    ldr r0, 3f\n"
      "    str r0, [r3, #0x00]\n"
      "    ldr r0, 4f\n"
      "    movs r2, #0xF4\n"
      "    str r0, [r3, r2]\n"
      "    movs r0, #1\n"
      "    str r0, [r3, #0x08]\n"
      "    ldr r0, 5f\n"
      "    ldr r1, 6f\n"
      "    str r0, [r1]\n" /* the core's vector table */
      "    ldm r0!, {r1, r2}\n"
      "    msr msp, r1\n"
      "    bx r2\n"
      ".balign 4\n"
      "2:  .word 0x18000000\n"
      "3:  .word 0x001F0300\n" /* 32 bits a word, one line, command and address before data */
      "4:  .word 0x03000218\n" /* command 03h of 8 bits, 24 bits of address, all on one line */
      "5:  .word 0x10000100\n" /* the vectors */
      "6:  .word 0xE000ED08\n" /* VTOR */
      ".org hil_boot2 + 252, 0\n"
      "    .word 0x3099D5A3\n"
      ".size hil_boot2, 256\n"
      ".text\n");
#elif !defined(__riscv)
/* RP2350 (its data sheet, chapter 5.9.5.1): the smallest block that makes an image bootable: begin,
 * item (an executable for the Arm cores in the secure state), last item, link to itself, end. It
 * carries no signature and asks for no key, and no image here writes one-time memory. */
__attribute__((section(".image_def"), used)) static const uint32_t image_def[5] = {
    0xFFFFDED3, 0x10210142, 0x000001FF, 0x00000000, 0xAB123579,
};
#else
/* The same for the RISC-V cores, to which the boot ROM then switches, with one item more: where to
 * enter, and the stack. */
_Noreturn void hil_reset_handler(void);
extern uint32_t hil_handler_stack_top[];

__attribute__((section(".image_def"), used)) static const uintptr_t image_def[8] = {
    0xFFFFDED3,
    0x11010142,
    0x00000344,
    (uintptr_t)hil_reset_handler,
    (uintptr_t)hil_handler_stack_top,
    0x000004FF,
    0x00000000,
    0xAB123579,
};
#endif
