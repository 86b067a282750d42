"""Parts of documents that scripts write: what stands between ``<!-- NAME:begin -->`` and its end.

Nothing between the marks is written by hand; the rest of the document is.
"""

from __future__ import annotations

from collections.abc import Sequence


def replaced(text: str, name: str, new: str) -> str:
    """``text`` with what stands between the marks ``name`` replaced."""
    before, begin, rest = text.partition(f"<!-- {name}:begin -->\n")
    _, end, after = rest.partition(f"<!-- {name}:end -->")
    if not begin or not end:
        raise ValueError(f"the text lacks <!-- {name}:begin --> or <!-- {name}:end -->")
    # Without an empty line a list or heading behind the mark is read as part of the comment.
    return f"{before}{begin}\n{new}\n\n{end}{after}"


def section(text: str, name: str) -> str:
    """Return the text between the marks ``name``."""
    inner = text.partition(f"<!-- {name}:begin -->\n")[2].partition(f"<!-- {name}:end -->")[0]
    return inner.strip("\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str = "---") -> str:
    """Return a table in Markdown; ``align`` is that of all columns but the first."""
    lines = [header, ["---"] + [align] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
