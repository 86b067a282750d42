"""Garbage on the serial lines of emulated boards."""

from __future__ import annotations

from uart_noise import ANSWER_S, attack

from torture.campaign import Budget, Counts, Figures, Finding

TITLE = "The serial lines of boards"
ABOUT = f"""Firmware in QEMU, on one machine for each type of UART that QEMU emulates for it. Bursts
arrive over the line: random bytes, text, requests of any kind, and frames damaged by a bad line.
After each burst, the firmware must answer a HELLO within {ANSWER_S:g} s; after the last one, it
must also run an inference. A missing answer, a wrong result or a machine that ends is a finding."""

BOARDS = ("mps2-an386", "lm3s6965evb", "microbit", "netduinoplus2", "riscv-virt")


def run(budget: Budget) -> Counts:
    """Shout at each board."""
    bursts = budget.count(60, 1000)
    counts = Counts([])
    with budget.until_stopped():
        for board in BOARDS:
            heard = attack(board, bursts, budget.seed)
            how = f"uart_noise.attack({board!r}, {bursts}, {budget.seed}): {heard.why}"
            counts += Counts(
                [
                    {
                        "board": board,
                        "bursts": heard.bursts,
                        "bytes": heard.bytes,
                        "most_s": round(heard.slowest_s, 2),
                    }
                ],
                [Finding(f"{board} does not come back", how)] if heard.why else [],
            )
    return counts


def figures(counts: Counts) -> Figures:
    """Return what each board has heard, and how long it took to answer at most."""
    rows = [
        [
            row["board"],
            f"{row['bursts']:,}",
            f"{row['bytes'] / 1000:,.0f} kB",
            f"{row['most_s']:.2f} s",
        ]
        for row in counts.rows
    ]
    heads = ["board", "bursts", "garbage", "slowest answer"]
    return Figures(heads, rows, counts.findings)
