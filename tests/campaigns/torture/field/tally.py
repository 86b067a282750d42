"""What a kind of attack came to: a row of the table."""

from __future__ import annotations

from dataclasses import dataclass, field

from torture.campaign import Finding, Row


@dataclass
class Tally:
    """Attacks of one kind on one thing."""

    attack: str
    on: str
    #: The command was done, and what it made was right.
    went_on: int = 0
    #: It ended with a message and an exit code, or an error, and the next run was right.
    told: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, *, is_done: bool, wrong: str, how: str) -> None:
        """Count one attack; ``wrong`` is empty where all that must hold holds."""
        if wrong:
            self.findings.append(Finding(f"{self.attack}, {self.on}: {wrong}", how))
        elif is_done:
            self.went_on += 1
        else:
            self.told += 1

    def row(self) -> Row:
        """Return what the campaign counts."""
        return {
            "attack": self.attack,
            "on": self.on,
            "went on": self.went_on,
            "told": self.told,
            "findings": len(self.findings),
        }
