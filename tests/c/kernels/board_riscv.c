/* RISC-V cores of 32 bits: their protection unit, start and traps.
 *
 * The program stays in machine mode, to which entries of the unit do not apply unless they are
 * locked for good; while a kernel runs, its loads and stores count as those of user mode (MPRV). A
 * trap is taken from machine mode, so what it loads and stores counts as that. */
#include "board.h"

/* The names of control registers. */
__asm(".option arch, +zicsr");

_Noreturn void reset(void);
_Noreturn void trap(void);

uint32_t semihost(uint32_t operation, const void *argument) {
    register uint32_t a0 __asm("a0") = operation;
    register const void *a1 __asm("a1") = argument;
    __asm volatile(".option push\n\t.option norvc\n\t.balign 16\n\t"
                   "slli x0, x0, 0x1f\n\tebreak\n\tsrai x0, x0, 7\n\t.option pop"
                   : "+r"(a0)
                   : "r"(a1)
                   : "memory");
    return a0;
}

/* Memory protection ------------------------------------------------------------------------- */

#define READ(csr)                                                                                  \
    __extension__({                                                                                \
        uint32_t value_;                                                                           \
        __asm volatile("csrr %0, " #csr : "=r"(value_));                                           \
        value_;                                                                                    \
    })
#define WRITE(csr, value) __asm volatile("csrw " #csr ", %0" ::"r"((uint32_t)(value)) : "memory")

enum { PMP_READ = 1, PMP_WRITE = 2, PMP_TOR = 1 << 3, PMP_NAPOT = 3 << 3 };
/* Code and data, each a pair of ends: neither is a power of two at a multiple of it. */
enum { ENTRIES_FOR_US = 4, ENTRIES = 16 };

static uint8_t entries[ENTRIES];

static void set_address(uint32_t entry, uint32_t address) {
    switch (entry) {
#define CASE(n)                                                                                    \
    case n:                                                                                        \
        WRITE(pmpaddr##n, address);                                                                \
        break
        CASE(0);
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
        CASE(7);
        CASE(8);
        CASE(9);
        CASE(10);
        CASE(11);
        CASE(12);
        CASE(13);
        CASE(14);
        CASE(15);
#undef CASE
    default:
        break;
    }
}

static void set_entry(uint32_t entry, uint32_t access, uint32_t address) {
    entries[entry] = (uint8_t)access;
    set_address(entry, address);
    const uint8_t *four = &entries[entry / 4 * 4];
    const uint32_t word = four[0] | four[1] << 8 | four[2] << 16 | (uint32_t)four[3] << 24;
    switch (entry / 4) {
    case 0:
        WRITE(pmpcfg0, word);
        break;
    case 1:
        WRITE(pmpcfg1, word);
        break;
    case 2:
        WRITE(pmpcfg2, word);
        break;
    default:
        WRITE(pmpcfg3, word);
        break;
    }
}

void allow(uint32_t region, uintptr_t start, uint32_t bytes) {
    const uint32_t address = (uint32_t)(start >> 2) | ((bytes >> 3) - 1);
    set_entry(ENTRIES_FOR_US + region, PMP_READ | PMP_WRITE | PMP_NAPOT, address);
}

void forbid(uint32_t region) { set_entry(ENTRIES_FOR_US + region, 0, 0); }

void protect(void) {
    set_entry(0, 0, CODE_ORIGIN >> 2);
    set_entry(1, PMP_READ | PMP_TOR, (CODE_ORIGIN + CODE_BYTES) >> 2);
    set_entry(2, 0, DATA_ORIGIN >> 2);
    set_entry(3, PMP_READ | PMP_WRITE | PMP_TOR, (DATA_ORIGIN + DATA_BYTES) >> 2);
}

#define MSTATUS_MPP (3U << 11)
#define MSTATUS_MPRV (1U << 17)

void enter(void) {
    __asm volatile("csrc mstatus, %0" ::"r"(MSTATUS_MPP) : "memory");
    __asm volatile("csrs mstatus, %0" ::"r"(MSTATUS_MPRV) : "memory");
}

void leave(void) { __asm volatile("csrc mstatus, %0" ::"r"(MSTATUS_MPRV) : "memory"); }

/* Start and traps --------------------------------------------------------------------------- */

enum { LOAD_FAULT = 5, STORE_FAULT = 7 };

__attribute__((used)) static _Noreturn void take_trap(void) {
    leave();
    const uint32_t cause = READ(mcause);
    tell_fault(cause, READ(mepc), cause == LOAD_FAULT || cause == STORE_FAULT, READ(mtval));
}

__attribute__((naked, aligned(4))) _Noreturn void trap(void) {
    __asm volatile("la sp, stack_top\n\ttail take_trap");
}

/* The machine begins with the first instruction of its memory. */
__attribute__((naked, section(".vectors"), used)) _Noreturn void reset(void) {
    __asm volatile("la sp, stack_top\n\tla t0, trap\n\tcsrw mtvec, t0\n\t"
                   /* Vectors on; 0 without. */
                   "li t0, 0x6600\n\tcsrs mstatus, t0\n\ttail run_program");
}
