"""Garbage on the serial lines of emulated boards."""

from __future__ import annotations

from uart_noise import ANSWER_S, attack

from torture.campaign import Budget, Figures, Finding

TITLE = "The serial lines of boards"
ABOUT = f"""Firmware on machines in QEMU, one for each of the UARTs that it has. Bursts come over
the line: random bytes, text, requests of any kind, frames that a bad line has damaged. Each is
followed by a HELLO that must be answered within {ANSWER_S:g} s, and the last by an inference. A
silence, a wrong result or a machine that ends is a finding."""

BOARDS = ("mps2-an386", "lm3s6965evb", "microbit", "netduinoplus2", "riscv-virt")


def run(budget: Budget) -> Figures:
    """Shout at each board."""
    bursts = budget.count(60, 1000)
    rows, findings = [], []
    for board in BOARDS:
        heard = attack(board, bursts, budget.seed)
        kilobytes = f"{heard.bytes / 1000:,.0f} kB"
        rows.append([board, f"{heard.bursts:,}", kilobytes, f"{heard.slowest_s:.2f} s"])
        if heard.why:
            how = f"uart_noise.attack({board!r}, {bursts}, {budget.seed}): {heard.why}"
            findings.append(Finding(f"{board} does not come back", how))
    return Figures(["board", "bursts", "garbage", "slowest answer"], rows, findings)
