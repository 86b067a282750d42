"""How much of a clean line's rate is a tensor's."""

from __future__ import annotations

from noise_campaign import Rate, bulk_rate, case

from torture.campaign import Budget, Figures, Finding

TITLE = "The rate of a clean line"
ABOUT = """Writes a tensor to the board and reads it back over an error-free line with ten bits per
byte in each direction. The percentage is the tensor's share of the line's bytes; the remainder is
headers, checksums, answers and pauses. The buffers are those of the board descriptions: the longest
frame, and the bytes that the board can receive while it is busy. If the receive buffer holds at
least two frames of 512 bytes or more, less than 90% at 115,200 baud or less than 85% at 1,000,000
baud is a finding."""

#: Longest frame and receive buffer.
_SIZES = ((256, 320), (512, 640), (1024, 1280), (1024, 2048), (2048, 4096), (4096, 8192))
_LEAST = {115_200: 0.90, 1_000_000: 0.85}
_BYTES = {115_200: 8_000, 1_000_000: 27_648}


def run(budget: Budget) -> Figures:
    """Measure each pair of buffers, the best of some: a busy machine is no property of the line."""
    vww = case("vww")
    tries = budget.count(minutes=3, hours=5)
    rows = []
    findings = []
    for frame_max, rx_max in _SIZES:
        row = [f"{frame_max:,}", f"{rx_max:,}"]
        for baud, least in _LEAST.items():
            rates: list[Rate] = []
            while len(rates) < tries and not (rates and _worst(rates) >= least):
                rates.append(
                    bulk_rate(vww, baud, frame_max=frame_max, rx_max=rx_max, nbytes=_BYTES[baud])
                )
            row += [f"{max(r.written for r in rates):.1%}", f"{max(r.read for r in rates):.1%}"]
            if rx_max >= 1024 and _worst(rates) < least:
                how = f"frames of {frame_max}, a buffer of {rx_max}, {baud} baud"
                findings.append(Finding(f"{_worst(rates):.1%} of the line's rate", how))
        rows.append(row)
    return Figures(
        [
            "frame, B",
            "buffer, B",
            *(f"{w}, {b:,} baud" for b in _LEAST for w in ("written", "read")),
        ],
        rows,
        findings,
        ["Host, line and board shared the machine's cores with whatever else it ran."],
    )


def _worst(rates: list[Rate]) -> float:
    """Return the lower of the best rates of both directions."""
    return min(max(rate.written for rate in rates), max(rate.read for rate in rates))
