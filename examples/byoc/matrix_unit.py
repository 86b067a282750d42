"""A code generator: int8 fully connected layers for a matrix unit.

The unit is imagined, and plain C stands in for it; everything around it is what a real one needs:
groups of layers that run in one go, weights that are linked into flash, scratch memory that the
compiler plans, a header with the driver, a context for each of several units, and the program that
must be loaded on each. ``README.md`` says how to run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hilc.external import ExternalModule, RoundRobin, connected_groups
from hilc.ir import Array, Graph, Node
from hilc.ops.int8_layers import int8_layer, is_int8_layer
from hilc.target import Cpu

# The driver. A real one would write to the unit's registers; this one computes. The arithmetic is
# the model's own (hilc.numerics.requantize): a doubling high multiply, then a shift that rounds
# half away from zero. Results must be equal, so the driver has no freedom here.
_DRIVER = """\
#ifndef MATRIX_UNIT_H
#define MATRIX_UNIT_H

#include <stddef.h>
#include <stdint.h>

/* The context of a unit, which the application hands over; NULL where it does not want to know. */
struct matrix_unit {
    uint32_t layers; /* that it has computed */
};

/* output[row][column] = clamp(requantize(bias + sum of weight * (input - input_zero_point))) */
struct matrix_unit_layer {
    int32_t rows;
    int32_t depth;
    int32_t columns;
    int32_t input_zero_point;
    int32_t output_zero_point;
    int32_t low;
    int32_t high;
    int32_t factor_step; /* 1: each column has a factor of its own, 0: all have one */
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *multipliers;
    const int8_t *shifts;
};

static inline int32_t matrix_unit_requantize(int32_t x, int32_t multiplier, int32_t shift) {
    const int left = shift > 0 ? (int)shift : 0;
    const int right = shift > 0 ? 0 : (int)-shift;
    const int64_t product = (int64_t)(int32_t)((uint32_t)x << left) * multiplier;
    const int32_t high = (int32_t)((product + (INT64_C(1) << 30)) >> 31);
    const int32_t mask = (int32_t)((INT64_C(1) << right) - 1);
    const int32_t threshold = (mask >> 1) + (high < 0 ? 1 : 0);
    return (high >> right) + ((high & mask) > threshold ? 1 : 0);
}

static inline void matrix_unit_run(struct matrix_unit *unit, const struct matrix_unit_layer *layer,
                                   const int8_t *input, int8_t *output) {
    for (int32_t row = 0; row < layer->rows; row++) {
        const int8_t *weight = layer->weights;
        for (int32_t column = 0; column < layer->columns; column++) {
            int32_t sum = layer->bias[column];
            for (int32_t i = 0; i < layer->depth; i++) {
                sum += *weight++ * (input[i] - layer->input_zero_point);
            }
            const int32_t factor = column * layer->factor_step;
            int32_t value = matrix_unit_requantize(sum, layer->multipliers[factor],
                                                   layer->shifts[factor]);
            value += layer->output_zero_point;
            value = value < layer->low ? layer->low : value;
            *output++ = (int8_t)(value > layer->high ? layer->high : value);
        }
        input += layer->depth;
    }
    if (unit != NULL) {
        unit->layers++;
    }
}

#endif
"""

# What reads the arguments where the model's operators are packed functions.
_TENSOR_DATA = """\
static void *tensor_data(TVMValue value) {
    const DLTensor *const tensor = value.v_handle;
    return (uint8_t *)tensor->data + tensor->byte_offset;
}
"""

_ALIGNMENT = 16


class MatrixUnit:
    """Takes every int8 FULLY_CONNECTED; ``units`` is how many matrix units there are."""

    name = "matrix_unit"

    def __init__(self, units: str = "1") -> None:
        self._units = RoundRobin("matrix_unit", int(units))

    def claim(self, graph: Graph) -> Sequence[Sequence[int]]:
        """Layers that follow each other are one group: nothing between them leaves the unit."""
        return connected_groups(graph, _is_taken)

    def generate(self, subgraph: Graph, symbol: str, cpu: Cpu, api: str) -> ExternalModule:
        """Return a function that runs the group's layers one after the other."""
        scratch, scratch_bytes = _scratch(subgraph)
        names = {name: f"input{i}" for i, name in enumerate(subgraph.inputs)}
        names |= {name: f"output{i}" for i, name in enumerate(subgraph.outputs)}
        names |= {name: f"(int8_t *)scratch + {offset}" for name, offset in scratch.items()}
        constants: dict[str, Array] = {}
        layers, calls = [], []
        for index, node in enumerate(subgraph.nodes):
            layers.append(_layer(subgraph, node, f"{symbol}_{index}", index, constants))
            source, target = names[node.inputs[0]], names[node.outputs[0]]
            calls.append(f"    matrix_unit_run(device, &layer_{index}, {source}, {target});\n")
        # An imaginary unit's programs are imaginary, too: one for a layer, one for several.
        device = self._units.assign("chain" if len(layers) > 1 else "single")
        parameters = [f"input{i}" for i in range(len(subgraph.inputs))]
        parameters += [f"output{i}" for i in range(len(subgraph.outputs))]
        parameters += ["scratch"] if scratch_bytes else []
        body = f"{''.join(calls)}    return 0;\n"
        function = (_packed if api == "packed" else _unpacked)(symbol, parameters, body)
        return ExternalModule(
            symbol,
            source="\n".join(['#include "matrix_unit.h"\n', *layers, function]),
            headers={"matrix_unit.h": _DRIVER},
            constants=constants,
            scratch_bytes=scratch_bytes,
            device=device,
        )


def _is_taken(graph: Graph, node: Node) -> bool:
    return node.op == "FULLY_CONNECTED" and is_int8_layer(graph, node)


def _scratch(subgraph: Graph) -> tuple[Mapping[str, int], int]:
    """Where the tensors between the group's layers lie in its scratch, and how large that is."""
    offsets: dict[str, int] = {}
    end = 0
    for node in subgraph.nodes:
        (name,) = node.outputs
        if name not in subgraph.outputs:
            offsets[name] = end
            end += -(-subgraph.tensors[name].nbytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


def _layer(
    subgraph: Graph, node: Node, symbol: str, index: int, constants: dict[str, Array]
) -> str:
    """Return the struct that describes a layer to the unit; adds its arrays to ``constants``."""
    layer = int8_layer(subgraph, node)
    columns, depth = layer.weights.shape
    arrays = {
        "weights": layer.weights,
        "bias": layer.bias,
        "multipliers": layer.requant.multipliers,
        "shifts": layer.requant.shifts,
    }
    constants.update({f"{symbol}_{field}": array for field, array in arrays.items()})
    fields = {
        "rows": layer.x.size // depth,
        "depth": depth,
        "columns": columns,
        "input_zero_point": layer.input_zero_point,
        "output_zero_point": layer.requant.zero_point,
        "low": layer.requant.low,
        "high": layer.requant.high,
        "factor_step": int(layer.per_channel),
        **{field: f"{symbol}_{field}" for field in arrays},
    }
    text = "".join(f"    .{field} = {value},\n" for field, value in fields.items())
    return f"static const struct matrix_unit_layer layer_{index} = {{\n{text}}};\n"


def _unpacked(symbol: str, parameters: Sequence[str], body: str) -> str:
    declared = ", ".join(f"void *{name}" for name in (*parameters, "device"))
    return f"int32_t {symbol}({declared}) {{\n{body}}}\n"


def _packed(symbol: str, parameters: Sequence[str], body: str) -> str:
    values = "".join(
        f"    void *const {name} = tensor_data(args[{i}]);\n" for i, name in enumerate(parameters)
    )
    device = f"    void *const device = args[{len(parameters)}].v_handle;\n"
    unused = ("type_codes", "out_ret_value", "out_ret_tcode", "resource_handle")
    return (
        f"{_TENSOR_DATA}\n"
        f"int32_t {symbol}(TVMValue *args, int *type_codes, int num_args,\n"
        "    TVMValue *out_ret_value, int *out_ret_tcode, void *resource_handle) {\n"
        f"{''.join(f'    (void){name};{chr(10)}' for name in unused)}"
        f"    if (num_args != {len(parameters) + 1}) {{\n        return -1;\n    }}\n"
        f"{values}{device}{body}}}\n"
    )
