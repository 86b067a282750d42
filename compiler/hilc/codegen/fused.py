"""C of a fused group, which runs several layers a few rows at a time (:mod:`hilc.fusion`).

Each stage is a function around its kernel. The group's function executes the schedule, one byte per
call: the index of a table row with the numbers of the call; its first element selects the stage.
Numbers that all calls of a stage share are part of the code.

Where the caller brings the rows of the input, the schedule stops at each call of the stage that
takes them in, and goes on behind it: ``struct <prefix>_feed`` keeps where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hilc.codegen.cwriter import (
    BYTES,
    C_TYPES,
    c_array,
    c_comment,
    c_int,
    c_pointer,
    c_static_assert,
    c_struct_initialiser,
    c_wrapped,
)
from hilc.fusion.call import Entry, FusedCall, Location, Stage, numbers
from hilc.ir import Array, Node

#: Name of the function that moves rows within a buffer.
ROWS = "hil/rows.h"
#: Functions of an input that comes by rows.
FEED = "hil/feed.h"

_INT16_MAX = (1 << 15) - 1


@dataclass(frozen=True)
class GroupText:
    """C of a group: definitions before its function, and the function's statements."""

    definitions: str
    body: str
    #: Type of the struct that a fed group keeps between two calls; "" for a group that is not fed.
    feed: str = ""


@dataclass
class _Column:
    """A number of a stage's calls: constant, or an element of the table's rows."""

    values: list[int]
    index: int | None = None

    @property
    def text(self) -> str:
        return c_int(self.values[0]) if self.index is None else f"call[{self.index}]"


@dataclass
class _StageText:
    stage: Stage
    entries: list[Entry]
    columns: list[_Column] = field(default_factory=list)

    def column(self, values: Sequence[int]) -> _Column:
        """Return a column for ``values``, one for each of the stage's calls."""
        column = _Column(list(values))
        if len(set(values)) > 1:
            # The table's first element is the stage.
            column.index = 1 + len(self.columns)
            self.columns.append(column)
        return column


def write_group(
    call: FusedCall,
    prefix: str,
    constant: Callable[[Array], str],
    pool: str,
    describe: Callable[[Node], tuple[str, ...]],
    operands: Mapping[str, str],
) -> GroupText:
    """Return the C of ``call``; the names that it defines begin with ``prefix``.

    ``constant`` gives the C expression of an array; ``pool`` is the declaration of the variable
    that those expressions need, "" for none. ``describe`` returns paragraphs that describe a node's
    computation. ``operands`` has the C element types of the group's tensors by parameter; without
    them all pointers are ``void *``.
    """
    return _Group(call, prefix, constant, pool, describe, operands).write()


class _Group:
    def __init__(
        self,
        call: FusedCall,
        prefix: str,
        constant: Callable[[Array], str],
        pool: str,
        describe: Callable[[Node], tuple[str, ...]],
        operands: Mapping[str, str],
    ) -> None:
        self._call = call
        self._prefix = prefix
        self._constant = constant
        self._constants = call.constants
        self._pool = pool
        self._describe = describe
        self._operands = operands
        self._stages = [
            _StageText(stage, [entry for entry in call.entries if entry.stage == index])
            for index, stage in enumerate(call.stages)
        ]
        #: Offsets into tensors outside of the group, which advance with the calls of a stage: where
        #: they start.
        self._cursors: dict[str, int] = {}
        self._moves = [move for entry in call.entries for move in entry.moves]

    def write(self) -> GroupText:
        fed = self._call.fed
        functions = [self._function(i) for i in range(len(self._stages)) if i != fed]
        cases = [
            self._wait(index) if index == fed else self._case(index)
            for index in range(len(self._stages))
        ]
        cases += [self._move()] if self._moves else []
        tables, row_type = self._tables()
        if any(text.columns for text in self._stages):
            functions = [
                function.replace("int16_t *call", f"{row_type} *call") for function in functions
            ]
        cursors = "".join(f"    int32_t {name} = {at};\n" for name, at in self._cursors.items())
        one_row = len(cases) == 1 and not self._stages[0].columns
        order, calls = f"{self._prefix}_order", f"{self._prefix}_calls"
        row = "" if one_row else f"        const {row_type} *const call = {calls}[{order}[i]];\n"
        count = str(len(self._call.entries)) if one_row else f"(sizeof {order} / sizeof {order}[0])"
        first = "0" if fed is None else "(size_t)feed->feed.entry"
        loop = (
            f"    for (size_t i = {first}; i < {count}; i++) {{\n{row}{self._switch(cases)}    }}\n"
        )
        if "rows[" in loop:
            loop = f"    uint8_t *const rows = scratch;\n{loop}"
        definitions = "\n".join([*functions, *([] if one_row else [tables])])
        if fed is None:
            return GroupText(definitions, f"{cursors}{loop}")
        return self._fed(definitions, loop, count)

    def _fed(self, definitions: str, loop: str, count: str) -> GroupText:
        """Return the text of a group that is fed, whose loop ends where rows are missing."""
        feed = f"{self._prefix}_feed"
        cursors = "".join(f"    int32_t {name};\n" for name in self._cursors)
        where = "    /* Bytes in the tensors outside of the group. */\n" if cursors else ""
        struct = (
            "/* Position in the schedule between two calls. */\n"
            f"struct {feed} {{\n    struct hil_feed feed;\n{where}{cursors}}};\n"
        )
        size = c_static_assert(
            f"sizeof(struct {feed}) <= {self._call.feed_bytes}", "the memory plan is of another one"
        )
        end = (
            "    /* No layer reads the rows after the last one that was read. */\n"
            f"    feed->feed.entry = (int32_t)({count});\n"
            f"    feed->feed.begin = feed->feed.end = {self._call.fed_bytes};\n"
        )
        return GroupText(f"{struct}{size}\n{definitions}", loop + end, feed)

    def _wait(self, index: int) -> str:
        """Return the statements that end the loop where rows are missing."""
        text = self._stages[index]
        ends = [0, *map(_end, text.entries)]
        begins = [entry.reads[0].offset for entry in text.entries]
        skipped = text.column([begin - end for begin, end in zip(begins, ends, strict=False)])
        sizes = text.column([entry.output.nbytes for entry in text.entries])
        place = text.column([entry.write.offset for entry in text.entries])
        numbers = ["&feed->feed", skipped.text, sizes.text, place.text]
        return (
            c_wrapped("hil_feed_wait(", numbers, ");\n")
            + "feed->feed.entry = (int32_t)i + 1;\nreturn;\n"
        )

    def _switch(self, cases: Sequence[str]) -> str:
        if len(cases) == 1:
            return _indented(cases[0], 2)
        text = "        switch (call[0]) {\n"
        for index, case in enumerate(cases):
            # The last stage needs no condition.
            label = f"case {index}:" if index < len(cases) - 1 else "default:"
            text += f"        {label}\n{_indented(case, 3)}            break;\n"
        return f"{text}        }}\n"

    # Stages --------------------------------------------------------------------------------------

    def _function(self, index: int) -> str:
        """Return the function of a stage: its kernel with the parameters of the call."""
        text = self._stages[index]
        stage, call = text.stage, text.stage.call
        columns = {
            name: text.column([int(numbers(e.call.fields)[name]) for e in text.entries])
            for name in stage.varying
        }
        names = {
            name: self._constant(value)
            for name, value in call.fields.items()
            if isinstance(value, np.ndarray)
        }
        tables = ""
        for name, arrays in stage.tables.items():
            tables += self._table(name, arrays)
            keys = [array.tobytes() for array in arrays]
            indices = [keys.index(_bytes(entry.call.fields[name])) for entry in text.entries]
            names[name] = f"{name}[{text.column(indices).text}]"
        for name, value in call.fields.items():
            if isinstance(value, tuple):
                elements = [
                    columns[f"{name}[{i}]"].text if f"{name}[{i}]" in columns else c_int(int(n))
                    for i, n in enumerate(value)
                ]
                names[name] = f"{{{', '.join(elements)}}}"
            elif name in columns:
                names[name] = columns[name].text
        parameters = ["const int16_t *call"] if text.columns else []
        operands = []
        for position, name in enumerate(stage.inputs):
            if name in self._constants:
                operands.append(self._constant(self._constants[name]))
            else:
                parameters.append(f"const {self._type(text, position)} *in{position}")
                operands.append(f"in{position}")
        parameters.append(f"{self._type(text)} *out")
        if call.kernel.inputs[0].endswith("[]"):
            element = call.kernel.inputs[0].removesuffix("[]")
            operands = [f"(const {element} *const[]){{{', '.join(operands)}}}"]
        passed = ["&p", *operands, "out"]
        if call.kernel.scratch != "0":
            if stage.scratch_bytes:
                parameters.append(f"{'uint8_t' if self._operands else 'void'} *scratch")
            passed.append("scratch" if stage.scratch_bytes else "NULL")
        struct = c_struct_initialiser(call.fields, names).replace("\n", "\n    ")
        body = f"{tables}    const struct {call.kernel.name} p = {struct};\n"
        if self._needs_pool(stage):
            parameters.append(self._pool)
        head = f"static void {self._prefix}_stage_{index}("
        return (
            f"{c_comment(*self._description(stage), _rows_text(text))}"
            # On its own it has all registers; in the loop it would share them with the schedule.
            "__attribute__((noinline))\n"
            f"{c_wrapped(head, parameters, ') {')}\n{body}"
            f"{c_wrapped(f'    {call.kernel.name}(', passed, ');')}\n}}\n"
        )

    def _description(self, stage: Stage) -> Sequence[str]:
        """Return paragraphs that describe a stage's computation."""
        layer = self._call.nodes[stage.layer]
        if stage.node is layer:
            return self._describe(layer)
        return [*self._describe(layer), f"as {', '.join(stage.inputs)} -> {stage.node.name}"]

    def _table(self, name: str, arrays: Sequence[Array]) -> str:
        """Return the variable that holds the addresses of the arrays that differ between calls."""
        c_type = C_TYPES[arrays[0].dtype.name]
        storage = "" if self._pool else "static "
        head = f"    {storage}const {c_type} *const {name}[] = {{"
        return c_wrapped(head, [self._constant(array) for array in arrays], "};\n")

    def _needs_pool(self, stage: Stage) -> bool:
        arrays = any(isinstance(value, np.ndarray) for value in stage.call.fields.values())
        return bool(self._pool) and (arrays or any(n in self._constants for n in stage.inputs))

    def _case(self, index: int) -> str:
        """Return the statements that call a stage and advance its pointers."""
        text = self._stages[index]
        stage, entries = text.stage, text.entries
        operands, cursors = [], []
        for position, name in enumerate(stage.inputs):
            if name in self._constants:
                continue
            locations = [entry.reads[position] for entry in entries]
            want = self._type(text, position)
            cursor_name = f"read_{index}_{position}"
            operand, cursor = self._place(text, locations, cursor_name, want, "const ")
            operands.append(operand)
            cursors += cursor
        writes = [entry.write for entry in entries]
        output, cursor = self._place(text, writes, f"write_{index}", self._type(text), "")
        cursors += cursor
        passed = ["call"] if stage.varying or stage.tables else []
        passed += [*operands, output]
        passed += [f"&rows[{stage.scratch}]"] if stage.scratch_bytes else []
        passed += ["pool"] if self._needs_pool(stage) else []
        call = c_wrapped(f"{self._prefix}_stage_{index}(", passed, ");\n")
        return call + "".join(cursors)

    def _type(self, text: _StageText, position: int | None = None) -> str:
        """Return the C element type of a stage's input, or of its output."""
        if not self._operands:
            return "void"
        kernel, entry = text.stage.call.kernel, text.entries[0]
        if position is None:
            types, tensor = kernel.outputs, entry.output
        else:
            types, tensor = kernel.inputs, entry.inputs[position]
        # A list of tensors is last.
        c_type = types[min(position or 0, len(types) - 1)].removesuffix("[]")
        return C_TYPES[tensor.dtype] if c_type == "void" else c_type

    def _move(self) -> str:
        """Return the statement that moves rows: target, source, number of bytes."""
        alignment = "4" if self._call.moves_words else "1"
        return f"hil_move_rows(&rows[call[1]], &rows[call[2]], call[3], {alignment});\n"

    def _place(
        self, text: _StageText, locations: Sequence[Location], name: str, want: str, const: str
    ) -> tuple[str, list[str]]:
        """Return the C expression of a stage's argument, and the statements that advance it."""
        location = locations[0]
        offsets = [w.offset for w in locations]
        if location.kind == "scratch":
            return c_pointer(f"&rows[{text.column(offsets).text}]", "uint8_t", want), []
        tensor = (
            f"output{location.index}" if location.kind == "output" else f"input{location.index}"
        )
        if len(set(offsets)) == 1:
            return self._operand(tensor, str(offsets[0]), want, const), []
        steps = [after - before for before, after in zip(offsets, offsets[1:], strict=False)]
        # The position after the last call does not matter.
        column = text.column([*steps, steps[-1]])
        self._cursors[name] = offsets[0]
        if self._call.fed is not None:
            # Zero at the start, as all that is kept.
            name = f"feed->{name}"
        place = f"{offsets[0]} + {name}" if self._call.fed is not None and offsets[0] else name
        return self._operand(tensor, place, want, const), [f"{name} += {column.text};\n"]

    def _operand(self, tensor: str, place: str, want: str, const: str) -> str:
        """Return the C expression of a tensor outside of the group, from the byte ``place`` on."""
        if not self._operands:
            return tensor if place == "0" else f"({const}uint8_t *){tensor} + {place}"
        have = self._operands[tensor]
        if place == "0":
            return c_pointer(tensor, have, want, const)
        if have not in BYTES:
            tensor, have = f"(({const}uint8_t *){tensor})", "uint8_t"
        return c_pointer(f"&{tensor}[{place}]", have, want, const)

    # Tables --------------------------------------------------------------------------------------

    def _tables(self) -> tuple[str, str]:
        """Return the definitions of the schedule and of the calls, and the type of the latter."""
        width = 1 + max(len(text.columns) for text in self._stages)
        width = max(width, 4 if self._moves else 0)
        rows: dict[tuple[int, ...], int] = {}
        order: list[int] = []
        taken = [0] * len(self._stages)

        def add(*numbers: int) -> None:
            row = (*numbers, *[0] * (width - len(numbers)))
            order.append(rows.setdefault(row, len(rows)))

        for entry in self._call.entries:
            for move in entry.moves:
                add(len(self._stages), move.target, move.source, move.nbytes)
            text = self._stages[entry.stage]
            now = taken[entry.stage]
            taken[entry.stage] += 1
            add(entry.stage, *(column.values[now] for column in text.columns))
        largest = max(max(map(abs, row)) for row in rows)
        row_type = "int16_t" if largest <= _INT16_MAX else "int32_t"
        lines = "".join(f"    {{{', '.join(map(str, row))}}},\n" for row in rows)
        index = np.array(order, np.uint8 if len(rows) <= 256 else np.int16)
        return (
            "/* What differs between calls: the stage, then its own numbers. */\n"
            f"static const {row_type} {self._prefix}_calls[][{width}] = {{\n{lines}}};\n\n"
            "/* The calls in order. */\n" + c_array(f"{self._prefix}_order", index, "static const"),
            row_type,
        )


def _end(entry: Entry) -> int:
    """Return the offset behind the rows of the input that an entry takes in."""
    return entry.reads[0].offset + entry.output.nbytes


def _bytes(value: object) -> bytes:
    assert isinstance(value, np.ndarray)
    return value.tobytes()


def _rows_text(text: _StageText) -> str:
    counts = sorted({entry.count for entry in text.entries})
    rows = " or ".join(map(str, counts))
    plural = "row" if counts == [1] else "rows"
    return f"{rows} {plural} a call, {len(text.entries)} calls"


def _indented(text: str, levels: int) -> str:
    return "".join(f"{'    ' * levels}{line}\n" for line in text.splitlines())
