"""The code uses the words of docs/glossary.md, docstrings in the imperative, and short names of
tests.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for folder in ("compiler/hilc", "hil", "ci", "tools")
    for path in (ROOT / folder).rglob("*.py")
)
TEXTS = [
    *SOURCES,
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
]

#: Words of identifiers that the glossary has replaced, and the word to use.
REPLACED = {
    "tenant": "arena slot",
    "mantissa": "multiplier",
    "streamable": "fusible",
    "quantise": "quantize",
    "quantised": "quantized",
    "requantise": "requantize",
}

#: Letters of the longest name of a test.
LONGEST_NAME = 50

#: Verbs in the third person that begin no docstring of a function, beyond those that ruff knows.
THIRD_PERSON = re.compile(
    "Refuses|Lets|Measures|Rewrites|Switches|Restarts|Kills|Tells|Acquires|Compiles|Draws|Brings|"
    "Erases|Says|Leaves|Asks|Programs|Finds|Goes|Collects|What|Whoever"
)


def _words(identifier: str) -> Iterator[str]:
    for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier):
        yield part.lower().removesuffix("s")


def test_identifiers_use_the_words_of_the_glossary() -> None:
    found: dict[str, str] = {}
    for path in SOURCES:
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.NAME:
                where = f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}"
                for word in REPLACED.keys() & set(_words(token.string)):
                    found[where] = REPLACED[word]
    assert not found


def test_docstrings_begin_with_the_imperative() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text.splitlines()[0]}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (text := ast.get_docstring(node)) and THIRD_PERSON.fullmatch(text.split()[0])
    ]
    assert not found


def test_quantization_is_spelled_in_one_way() -> None:
    found = {
        str(path.relative_to(ROOT)): words
        for path in TEXTS
        if (words := re.findall(r"\w*quantis\w*", path.read_text(), re.IGNORECASE))
    }
    assert not found


def test_names_of_tests_are_short() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for folder in ("tests", "examples")
        for path in sorted((ROOT / folder).rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and len(node.name) > LONGEST_NAME
    ]
    assert not found, "a test's name is its case, not a sentence"
