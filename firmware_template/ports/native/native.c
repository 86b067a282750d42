/* The firmware as a Linux process. Its serial line is a pseudo-terminal whose path is the first
 * line on standard output; the process ends when standard input is closed, so it cannot outlive the
 * program that holds the other end of it. */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "hil_fault.h"
#include "hil_guard.h"
#include "hil_port.h"
#include "hil_rpc.h"
#include "hil_stack.h"

/* Hands the line over to the process that a reset starts: "master,slave". */
#define LINE_VARIABLE "HIL_NATIVE_LINE"

enum { NS_PER_S = 1000000000, WRITE_TIMEOUT_MS = 1000 };

static struct {
    int master;
    /* Kept open, so that the line stays up while no host has it open. */
    int slave;
} line = {-1, -1};

static _Noreturn void die(const char *what) {
    perror(what);
    exit(EXIT_FAILURE);
}

static void open_line(void) {
    line.master = posix_openpt(O_RDWR | O_NOCTTY);
    if (line.master < 0 || grantpt(line.master) != 0 || unlockpt(line.master) != 0) {
        die("cannot open a pseudo-terminal");
    }
    const char *path = ptsname(line.master);
    line.slave = path ? open(path, O_RDWR | O_NOCTTY) : -1;
    struct termios mode;
    if (line.slave < 0 || tcgetattr(line.slave, &mode) != 0) {
        die("cannot open the pseudo-terminal's other end");
    }
    cfmakeraw(&mode);
    if (tcsetattr(line.slave, TCSANOW, &mode) != 0 || puts(path) == EOF || fflush(stdout) != 0) {
        die("cannot hand over the pseudo-terminal");
    }
}

static void take_over_line(const char *text) {
    if (sscanf(text, "%d,%d", &line.master, &line.slave) != 2) {
        errno = EINVAL;
        die(LINE_VARIABLE);
    }
}

/* The program counter, stack pointer and link of a context; registers only where they are Arm's. */
static void read_context(struct hil_fault *fault, const ucontext_t *context) {
#if defined(__x86_64__)
    fault->pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    fault->sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    fault->pc = (uintptr_t)context->uc_mcontext.pc;
    fault->sp = (uintptr_t)context->uc_mcontext.sp;
    fault->lr = (uintptr_t)context->uc_mcontext.regs[30];
#else
    (void)fault;
    (void)context;
#endif
}

static _Noreturn void report(const struct hil_fault *fault) {
    hil_rpc_fault(fault);
    for (;;) {
        hil_rpc_poll();
        hil_uart_wait();
    }
}

static void handle_signal(int number, siginfo_t *info, void *context) {
    struct hil_fault fault = {
        .kind = HIL_FAULT_SIGNAL + (uint32_t)number,
        .bfar = (uintptr_t)info->si_addr,
    };
    read_context(&fault, context);
    report(&fault);
}

static void catch_faults(void) {
    static _Alignas(16) uint8_t stack[65536];
    const stack_t handler_stack = {.ss_sp = stack, .ss_size = sizeof(stack)};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND)};

    action.sa_sigaction = handle_signal;
    if (sigaltstack(&handler_stack, NULL) != 0) {
        die("sigaltstack");
    }
    /* A process that a reset started from the handler still has the signals blocked. */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); ++i) {
        if (sigaction(faults[i], &action, NULL) != 0) {
            die("sigaction");
        }
    }
}

void hil_port_init(void) {
    const char *inherited = getenv(LINE_VARIABLE);
    if (inherited) {
        take_over_line(inherited);
    } else {
        open_line();
    }
    if (fcntl(line.master, F_SETFL, O_NONBLOCK) != 0) {
        die("cannot use the pseudo-terminal");
    }
    catch_faults();
}

/* Waits for `events` on the line, up to `timeout_ms` (-1: for ever); ends with standard input.
 * Returns whether the time is not over. */
static bool wait_for(short events, int timeout_ms) {
    struct pollfd files[] = {{.fd = line.master, .events = events},
                             {.fd = STDIN_FILENO, .events = POLLIN}};
    const int ready = poll(files, 2, timeout_ms);
    if (ready < 0 && errno != EINTR) {
        die("poll");
    }
    if (files[1].revents != 0) {
        uint8_t ignored[64];
        if (read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0) {
            exit(EXIT_SUCCESS);
        }
    }
    return ready != 0;
}

size_t hil_uart_read(uint8_t *data, size_t max) {
    const ssize_t size = read(line.master, data, max);
    return size > 0 ? (size_t)size : 0;
}

void hil_uart_wait(void) { (void)wait_for(POLLIN, -1); }

void hil_uart_write(const uint8_t *data, size_t size) {
    while (size > 0) {
        const ssize_t written = write(line.master, data, size);
        if (written > 0) {
            data += written;
            size -= (size_t)written;
        } else if (!wait_for(POLLOUT, WRITE_TIMEOUT_MS)) {
            return; /* no reader: the frame is lost, as on an open line */
        }
    }
}

uint64_t hil_ticks(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t hil_ticks_align(void) { return hil_ticks(); }

uint32_t hil_ticks_hz(void) { return NS_PER_S; }

uint32_t hil_stack_bytes(void) { return 0; }

uint32_t hil_stack_peak_bytes(void) { return 0; }

void hil_guards_set(void) {}

uint32_t hil_guards_changed(void) { return 0; }

_Noreturn void hil_assert_failed(void) {
    const struct hil_fault fault = {
        .kind = HIL_FAULT_ASSERT,
        .pc = (uintptr_t)__builtin_return_address(0),
        .sp = (uintptr_t)__builtin_frame_address(0),
    };
    report(&fault);
}

_Noreturn void hil_port_reset(void) {
    char text[32];
    (void)snprintf(text, sizeof(text), "%d,%d", line.master, line.slave);
    if (setenv(LINE_VARIABLE, text, 1) == 0) {
        (void)execl("/proc/self/exe", "firmware", (char *)NULL);
    }
    die("cannot start again");
}
