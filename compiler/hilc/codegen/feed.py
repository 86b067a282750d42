"""The C interface of an input that comes by rows: to start, push and pull them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hilc.codegen.cwriter import c_wrapped
from hilc.codegen.names import Names
from hilc.memory.plan import Program

_START = """\
/*! \\brief Starts an inference whose input arrives by rows; discards earlier rows.
 *
 * Call it before the first row of each inference; for the first inference, nothing checks this.
 * Returns 0, or -1 if a pointer is NULL. */
"""
_PUSH = """\
/*! \\brief Accepts the next rows of the input, and runs the layers that have enough rows.
 *
 * Copies the rows that are needed later, so the caller may reuse the buffer. Returns the number of
 * missing rows; after 0 the run may follow. Returns -1 and accepts nothing if there are more rows
 * than are missing, if no inference was started since the last run, or if a pointer is NULL. */
"""
_PUSH_BYTES = """\
/*! \\brief The same for parts of rows: returns the number of missing bytes. */
"""
_FETCH = """\
/*! \\brief Writes `count` rows of the input, from number `first` on, to `rows`; returns 0, or
 * another value if there are none. */
"""
_PULL = """\
/*! \\brief Starts an inference and fetches its rows, in order, into the workspace.
 *
 * Rows that no layer reads are not fetched. Returns 0, and the run may follow. Returns -1 if
 * `fetch` does not return 0, which ends the inference, if it starts another one, or if a pointer is
 * NULL. */
"""


@dataclass(frozen=True)
class Caller:
    """C expressions by which a function of the interface reaches its data."""

    #: Parameters of each function, and their names.
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    #: Statements that return -1 where a pointer is NULL.
    test: str
    #: Arguments of the layers' function.
    passed: tuple[str, ...]
    #: C expressions of the buffer kept between two rows, and of the group's scratch.
    feed: str
    scratch: str


def declarations(program: Program, names: Names, parameters: Sequence[str]) -> Iterable[str]:
    """Return the declarations for the header."""
    tensor = program.fed_tensor
    rows, stem = tensor.shape[1], names.macro("INPUT_ROW")
    yield (
        "/*! \\brief Rows of the input, which the caller brings in order */\n"
        f"#define {stem}S {rows}\n\n"
        f"/*! \\brief A row's size (in bytes): {tensor.dtype}"
        f"[{','.join(map(str, tensor.shape[2:]))}] */\n"
        f"#define {stem}_BYTES {tensor.nbytes // rows}\n"
    )
    fetch = names.rows("fetch")
    yield (
        f"{_FETCH}typedef int32_t {fetch}(\n    void *context, void *rows, int32_t first, "
        "int32_t count);\n"
    )
    for comment, prototype in zip(
        (_START, _PUSH, _PUSH_BYTES, _PULL), _prototypes(names, parameters), strict=True
    ):
        yield f"{comment}{prototype};\n"


def definitions(program: Program, names: Names, caller: Caller) -> Iterable[str]:
    """Return the definitions of these functions."""
    tensor = program.fed_tensor
    rows = tensor.shape[1]
    values = {
        "@feed": f"    struct hil_feed *const feed =\n        (void *){caller.feed};\n",
        "@null": caller.test,
        "@scratch": caller.scratch,
        "@kept": f"{caller.feed}, 0, {program.fed_call.feed_bytes}",
        "@compute": c_wrapped(f"{names.feed}(", caller.passed, ")"),
        "@push": f"{names.push_bytes}({', '.join((*caller.names, 'rows'))}",
        "@start": f"{names.rows('start')}({', '.join(caller.names)})",
        "@total": str(tensor.nbytes),
        "@last": str(tensor.nbytes // rows - 1),
        "@row": str(tensor.nbytes // rows),
        "@count": str(rows),
    }
    bodies = (_START_BODY, _PUSH_BODY, _PUSH_BYTES_BODY, _PULL_BODY)
    prototypes = _prototypes(names, caller.parameters)
    # Each of the first three needs none that is defined behind it.
    for index in (0, 2, 1, 3):
        body = bodies[index]
        for name, value in values.items():
            body = body.replace(name, value)
        yield f"{prototypes[index]} {{\n{body}}}\n"


_START_BODY = """\
@null    memset(@kept);
    @compute;
    return 0;
"""
_PUSH_BYTES_BODY = """\
    const uint8_t *bytes = data;
@null@feed    if (nbytes < 0 || (data == NULL && nbytes > 0)) {
        return -1;
    }
    if (feed->taken < 0 || nbytes > @total - feed->taken) {
        return -1;
    }
    while (nbytes > 0) {
        const int32_t size =
            hil_feed_take(feed, @scratch, bytes, nbytes);
        bytes += size;
        nbytes -= size;
        if (feed->taken == feed->end) {
            @compute;
        }
    }
    return @total - feed->taken;
"""
_PUSH_BODY = """\
    if (count < 0 || count > @count) {
        return -1;
    }
    const int32_t missing =
        @push, count * @row);
    return missing < 0 ? -1 : (missing + @last) / @row;
"""
_PULL_BODY = """\
    if (fetch == NULL || @start != 0) {
        return -1;
    }
@feed    while (feed->begin < @total) {
        uint8_t *const rows = @scratch + feed->place;
        const int32_t first = feed->begin / @row;
        /* Until fetch returns, pushes are refused. A start in it ends this inference, and changes
         * `taken`. */
        feed->taken = HIL_FEED_FETCHING;
        const int32_t failed = fetch(context, rows, first, feed->end / @row - first);
        if (feed->taken != HIL_FEED_FETCHING) {
            return -1;
        }
        feed->taken = failed != 0 ? HIL_FEED_SPENT : feed->end;
        if (failed != 0) {
            return -1;
        }
        @compute;
    }
    feed->taken = @total;
    return 0;
"""


def _prototypes(names: Names, parameters: Sequence[str]) -> tuple[str, ...]:
    fetch = f"{names.rows('fetch')} *fetch"
    return tuple(
        c_wrapped(f"int32_t {name}(", [*parameters, *own] or ["void"], ")")
        for name, own in (
            (names.rows("start"), ()),
            (names.rows("push"), ("const void *rows", "int32_t count")),
            (names.push_bytes, ("const void *data", "int32_t nbytes")),
            (names.rows("pull"), (fetch, "void *context")),
        )
    )
