"""Glue code between a model and TVM's C runtime: packed functions, workspace calls.

A model with packed functions gets a second table (``hil_packed.h``) of its tensors as DLTensors;
calls by name use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hil.firmware.glue import ARENA, Glue, array, c_string, is_packed, shape_arrays
from hil.firmware.placement import Workspace
from hilc.artifact.library import Layer, Module
from hilc.compat.tvm.symbols import get_metadata
from hilc.ir import ELEMENT_TYPES

# DLDataType: code, bits, lanes.
_DL_DTYPES = {name: f"{{{row.dl_kind}, {row.dl_bits}, 1}}" for name, row in ELEMENT_TYPES.items()}
_PACKED_PARAMETERS = (
    "TVMValue *args, int *codes, int count, TVMValue *result, int *result_code, void *resource"
)


def most_arguments(module: Module) -> int:
    """Return the number of arguments of the model's packed function with the most arguments."""
    pools = len(module.workspace_pools) + 1
    entry = len(module.inputs) + len(module.outputs) + pools + len(module.devices)
    return max(entry, *(len(layer.arguments) for layer in module.layers), 0)


def metadata_function(module: Module) -> str | None:
    """Return the packed function that returns TVM's metadata, or None."""
    name = get_metadata(module.symbol)
    return name if name in module.functions else None


class RuntimeGlue(Glue):
    """C of a model for TVM's C run time: DLTensors and packed functions."""

    def __init__(self, module: Module, workspace: Workspace, *, has_header: bool) -> None:
        super().__init__(module, workspace, has_header=has_header)
        self._is_packed = is_packed(module)
        self._dl_shapes: dict[tuple[int, ...], str] = {}

    def _headers(self) -> Iterable[str]:
        if self._is_packed:
            yield "hil_packed.h"
        if self._module.pools == "calls":
            yield from ("tvm/runtime/c_backend_api.h", "tvm/runtime/crt/platform.h", "hil_crt.h")

    def _border_tables(self) -> str:
        return self._dl_border()

    def _shape_tables(self) -> Iterable[str]:
        return shape_arrays("int64_t", self._dl_shapes)

    def _calls(self) -> Iterable[str]:
        yield from self._workspace_calls()
        yield self._packed_call()

    def _descriptions(self) -> Iterable[str]:
        yield self._packed_model()

    def _layer_call(self, index: int, layer: Layer) -> tuple[str, str, str]:
        declaration, tables, call = super()._layer_call(index, layer)
        if self._module.api == "packed":
            tensors = [argument for argument in layer.arguments if argument.kind != "device"]
            devices = [a.value for a in layer.arguments if a.kind == "device"]
            name = f"layer_{index}_arguments"
            declaration = f"int32_t {layer.function}({_PACKED_PARAMETERS});\n"
            dl_tensors = [self._dl_tensor(self._place(a), a.shape, a.dtype) for a in tensors]
            tables = array("DLTensor", name, dl_tensors)
            call = self._call(layer.function, name, len(tensors), devices)
        if self._module.pools == "calls":
            call = f"enter() == 0 ? leave({call}) : -1"
        return declaration, tables, call

    def _run(self) -> str:
        return self._run_packed() if self._module.interface == "packed" else self._run_c()

    def _run_function(self, declarations: str, call: str) -> str:
        if self._module.pools != "calls" or self._module.layers:
            return super()._run_function(declarations, call)
        # TVM's code returns if an allocation fails, without freeing earlier allocations.
        return (
            f"static int32_t run(void) {{\n{declarations}    const int32_t result = {call};\n"
            "    if (result != 0) {\n        (void)TVMPlatformInitialize();\n    }\n"
            "    return result;\n}\n\n"
        )

    def _dl_tensor(self, place: str, shape: tuple[int, ...], dtype: str) -> str:
        # Static, so that padding is zero: C++ code reads the device type as four bytes.
        name = self._dl_shapes.setdefault(shape, f"dl_shape_{len(self._dl_shapes)}")
        return (
            f"{{.data = {place}, .device = {{kDLCPU, 0}}, .ndim = {len(shape)}, "
            f".dtype = {_DL_DTYPES[dtype]}, .shape = {f'(int64_t *){name}' if shape else 0}, "
            ".strides = 0, .byte_offset = 0}"
        )

    def _dl_border(self) -> str:
        """Return the arguments of the packed entry: inputs, outputs, and pools of the caller."""
        if not self._is_packed:
            return ""
        module = self._module
        entries = [
            self._dl_tensor(self._border(kind, index, tensor), tensor.shape, tensor.dtype)
            for kind, tensors in (("input", module.inputs), ("output", module.outputs))
            for index, tensor in enumerate(tensors)
        ]
        if module.constants == "external":
            entries.append(self._dl_tensor("(void *)constants", (module.constants_bytes,), "uint8"))
        entries += [
            self._dl_tensor(place, (pool.nbytes,), "uint8")
            for place, pool in zip(self._pools, self._brought_pools, strict=False)
        ]
        return array("DLTensor", "tensors", entries)

    def _workspace_calls(self) -> Iterable[str]:
        """Yield functions that allocate and free the block of operators outside of a full run.

        A run allocates the block first. The arena is empty between runs, so both start there.
        """
        module = self._module
        if module.pools == "calls" and module.layers:
            yield (
                "static int32_t enter(void) {\n"
                f"    void *block = TVMBackendAllocWorkspace(kDLCPU, 0, "
                f"{module.workspace_pools[0].nbytes}, kDLInt, 8);\n"
                f"    if (block == {ARENA}) {{\n        return 0;\n    }}\n"
                "    if (block != 0) {\n"
                "        (void)TVMBackendFreeWorkspace(kDLCPU, 0, block);\n    }\n"
                "    return -1;\n}\n\n"
                "static int32_t leave(int32_t result) {\n"
                f"    const int freed = TVMBackendFreeWorkspace(kDLCPU, 0, {ARENA});\n"
                "    return result != 0 ? result : freed;\n}\n\n"
            )

    def _packed_call(self) -> str:
        """Return the function that calls a packed function with DLTensors and device contexts."""
        module = self._module
        if "packed" not in (module.api, module.interface):
            return ""
        most = most_arguments(module)
        names = ", ".join(c_string(name) for name in module.devices)
        devices = (
            "    static const char *const names[] = {" + names + "};\n"
            "    for (int i = 0; i < device_count; ++i) {\n"
            "        values[count + i].v_handle = hil_device_context(names[first_device + i]);\n"
            "        codes[count + i] = kTVMOpaqueHandle;\n    }\n"
            if module.devices
            else ""
        )
        parameters = ", int first_device, int device_count" if module.devices else ""
        total = "count + device_count" if module.devices else "count"
        return (
            "static int32_t call(hil_packed_function function, const DLTensor *arguments, "
            f"int count{parameters}) {{\n"
            f"    TVMValue values[{most}];\n    int codes[{most}];\n"
            "    TVMValue result = {.v_int64 = 0};\n    int result_code = kTVMNullptr;\n"
            "    for (int i = 0; i < count; ++i) {\n"
            "        values[i].v_handle = (void *)&arguments[i];\n"
            "        codes[i] = kTVMDLTensorHandle;\n    }\n"
            f"{devices}"
            f"    return function(values, codes, {total}, &result, &result_code, 0);\n}}\n\n"
        )

    def _call(self, function: str, arguments: str, count: int, devices: Sequence[int]) -> str:
        """Return a call of ``call``; ``devices`` must be consecutive."""
        tail = f", {devices[0] if devices else 0}, {len(devices)}" if self._module.devices else ""
        return f"call({function}, {arguments}, {count}{tail})"

    def _run_packed(self) -> str:
        module = self._module
        function = f"{self._symbol}_run"
        count = len(module.inputs) + len(module.outputs) + self._pool_count
        call = self._call(function, "tensors", count, range(len(module.devices)))
        return f"int32_t {function}({_PACKED_PARAMETERS});\n{self._run_function('', call)}"

    def _reset(self) -> str:
        if self._module.interface != "packed":
            return super()._reset()
        function = f"{self._symbol}_reset_state"
        pools, constants = self._brought_pools, self._module.constants == "external"
        first = len(self._module.inputs) + len(self._module.outputs) + constants
        index = next((i for i, pool in enumerate(pools) if pool.persistent), None)
        count, place = (0, first) if index is None else (1, first + index)
        call = self._call(function, f"tensors + {place}" if count else "tensors", count, ())
        declaration = f"int32_t {function}({_PACKED_PARAMETERS});\n"
        return f"{declaration}{self._reset_function('', call)}"

    def _packed_model(self) -> str:
        if not self._is_packed:
            return ""
        module = self._module
        metadata = metadata_function(module)
        borders = len(module.inputs) + len(module.outputs)
        layers = ""
        if module.api == "packed" and module.layers:
            layers = array(
                "struct hil_packed_layer",
                "packed_layers",
                [
                    f"{{layer_{index}_arguments, "
                    f"{sum(argument.kind != 'device' for argument in layer.arguments)}}}"
                    for index, layer in enumerate(module.layers)
                ],
            )
        return (
            "\n"
            + (f"int32_t {metadata}({_PACKED_PARAMETERS});\n" if metadata else "")
            + layers
            + f"extern const struct hil_packed_model hil_packed_model_{self._key};\n"
            f"const struct hil_packed_model hil_packed_model_{self._key} = {{\n"
            f"    .inputs = tensors,\n"
            f"    .outputs = tensors + {len(module.inputs)},\n"
            f"    .pools = tensors + {borders},\n"
            f"    .layers = {'packed_layers' if layers else 0},\n"
            f"    .metadata = {metadata or 0},\n"
            f"    .pool_count = {self._pool_count},\n"
            "};\n"
        )
