"""The operators and the main in C: every variant compiles, computes, and fails as it says."""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import generated_c
import models
import numpy as np
import pytest
from campaigns import cases
from random_graphs import GraphBuilder, random_graph

from hilc import interpreter
from hilc.codegen.arguments import MainArgument, main_arguments
from hilc.codegen.headers import include_dirs
from hilc.codegen.names import Names
from hilc.codegen.naming import make_names
from hilc.codegen.operators import Source, write_operators
from hilc.codegen.options import Options
from hilc.compat.tvm.crt import CRT
from hilc.compat.tvm.symbols import lookup as lookup_function
from hilc.compat.tvm.system_lib import system_lib_source
from hilc.external import Device, ExternalCall, ExternalModule
from hilc.frontends import load_model
from hilc.ir import Array, Graph, Node
from hilc.memory.plan import PoolSpec, Program, plan
from hilc.ops.external import ExternalAttributes
from hilc.target import get_cpu
from hilc.transforms import run_passes

INCLUDES = tuple(f"-I{folder}" for folder in include_dirs())
CONVENTIONS = (("unpacked", "c"), ("unpacked", "packed"), ("packed", "packed"))
#: api, interface, pools, constants. Where the pools are makes no difference to these files.
VARIANTS = tuple(
    (*convention, pools, constants)
    for convention, pools, constants in itertools.product(
        CONVENTIONS, ("external", "calls"), ("internal", "external")
    )
)


def _options(variant: Sequence[str], optimize: str = "balanced") -> Options:
    api, interface, pools, constants = variant
    return Options(
        optimize=optimize, api=api, interface=interface, pools=pools, constants=constants
    )


def _generate(
    graph: Graph, options: Options, memory: Sequence[PoolSpec] = ()
) -> tuple[Program, Names, Source]:
    program = plan(graph, get_cpu("host"), memory=memory, scratch_in_pool=options.pools != "calls")
    names = make_names(program, options.interface)
    return program, names, write_operators(program, names, options)


def _tiny() -> Graph:
    """Constant operands, scratch, argument lists of any length, a tensor of no dimensions."""
    b = GraphBuilder(3)
    x = b.input(1, 3, 3, 2)
    y = b.conv(b.conv(x, 2), 2)
    left = b.split(b.reshape(b.add(y, b.constant(1, 3, 3, 2)), 1, 18), 2)
    right = f"t{int(left[1:]) + 1}"
    scalar = b.add(b.input(), b.constant())
    return b.graph(b.concat(right, left), scalar, name="tiny")


# Compiling --------------------------------------------------------------------------------------


#: The host's gcc compiles them with the same warnings below, where they run.
_CORES = ("cortex-m0", "cortex-m4", "cortex-m55")


@cases("variant", VARIANTS, ids="-".join, first=3)
def test_every_variant_compiles_without_a_warning(variant: Sequence[str], tmp_path: Path) -> None:
    for index, core in enumerate(_CORES, VARIANTS.index(tuple(variant))):
        source = _generate(_tiny(), _options(variant, ("balanced", "size")[index % 2]))[2]
        assert max(map(len, source.text.splitlines())) <= 100
        (tmp_path / "lib1.c").write_text(source.text)
        command = [*generated_c.COMPILERS[core], *generated_c.WARNINGS, "-Os", *INCLUDES]
        generated_c.run([*command, "-c", "lib1.c", "-o", "lib1.o"], tmp_path)


def test_only_code_that_calls_the_run_time_includes_it() -> None:
    planned, allocating = (
        _generate(_tiny(), _options(("unpacked", "c", pools, "internal")))[2].text
        for pools in ("internal", "calls")
    )
    assert "tvm/" not in planned
    assert '#include "tvm/runtime/c_backend_api.h"' in allocating
    assert "DLTensor" not in planned + allocating


# Running ----------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    """DLTensor on 64 bits."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Built:
    """The operators and the main of a graph, loaded into this process.

    Inputs, outputs, constants and pools are the caller's; the memory of workspace calls has exactly
    the bytes that the program states.
    """

    def __init__(
        self, graph: Graph, options: Options, folder: Path, more: str = "", lacking: str = ""
    ) -> None:
        self.program, self.names, self.source = _generate(graph, options)
        self.packed = options.api == "packed"
        self.arguments = main_arguments(self.program, options)
        calls = [step.call for step in self.program.steps]
        functions = [operator.function for operator in self.source.operators]
        functions += [call.module.symbol for call in calls if isinstance(call, ExternalCall)]
        registered = [name for name in functions if self.packed and name != lacking]
        texts = {
            "lib1.c": self.source.text,
            "registry.c": system_lib_source(registered, weak=False),
            "more.c": more or "typedef int nothing;\n",
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
        command = ["gcc", *generated_c.WARNINGS, "-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic"]
        command += [*INCLUDES, *texts, *_runtime(), "-lm", "-o", "code.so"]
        generated_c.run(command, folder)
        self.code = ctypes.CDLL(str(folder / "code.so"))
        self._given = [_aligned(_nbytes(argument)) for argument in self.arguments]
        for argument, memory in zip(self.arguments, self._given, strict=True):
            memory[:] = 0xA5
            if argument.kind == "constants":
                memory[:] = np.frombuffer(self.source.constants.data, np.uint8)
        self.start(self.program.workspace_bytes)

    def start(self, workspace_bytes: int) -> None:
        """Give the run time so much memory."""
        self._stack = _aligned(workspace_bytes)
        address = ctypes.c_void_p(self._stack.ctypes.data)
        assert self.code.hilc_host_start(address, ctypes.c_size_t(workspace_bytes)) == 0

    def memory(self, kind: str) -> list[Array]:
        pairs = zip(self.arguments, self._given, strict=True)
        return [memory for argument, memory in pairs if argument.kind == kind]

    def move_constants(self) -> None:
        """Hand the constants over in another place, and spoil the first."""
        for index, argument in enumerate(self.arguments):
            if argument.kind == "constants":
                old = self._given[index]
                self._given[index] = _aligned(old.size)
                self._given[index][:] = old
                old[:] = 0x5A

    def run(self, inputs: Mapping[str, Array]) -> int:
        """The status of a call of the main."""
        for value, memory in zip(inputs.values(), self.memory("input"), strict=True):
            memory[:] = value.reshape(-1).view(np.uint8)
        for memory in self.memory("output") + self.memory("pool"):
            memory[:] = 0xA5
        main = self.code[self.names.main]
        main.restype = ctypes.c_int32
        addresses = [memory.ctypes.data for memory in self._given]
        if not self.packed:
            return int(main(*map(ctypes.c_void_p, addresses)))
        return _call_packed(
            main,
            [
                address
                if argument.kind == "device"
                # Not at the start of what the tensor describes: whoever ignores the offset is lost.
                else _Tensor(data=address - 48, byte_offset=48)
                for argument, address in zip(self.arguments, addresses, strict=True)
            ],
        )

    def outputs(self) -> list[Array]:
        tensors = [self.program.graph.tensors[name] for name in self.program.graph.outputs]
        return [
            memory.view(tensor.dtype).reshape(tensor.shape)
            for memory, tensor in zip(self.memory("output"), tensors, strict=True)
        ]

    def left(self) -> int:
        """Bytes of workspace that were allocated and not freed."""
        self.code.hilc_host_workspace_left.restype = ctypes.c_size_t
        return int(self.code.hilc_host_workspace_left())


def _call_packed(function: Any, arguments: Sequence[int | _Tensor]) -> int:
    """The status of a packed function; an integer is passed as an opaque handle."""
    values = (ctypes.c_uint64 * max(len(arguments), 1))()
    codes = (ctypes.c_int * max(len(arguments), 1))()
    for index, argument in enumerate(arguments):
        values[index] = argument if isinstance(argument, int) else ctypes.addressof(argument)
        codes[index] = 3 if isinstance(argument, int) else 7
    result, code = ctypes.c_uint64(0), ctypes.c_int(4)
    function.restype = ctypes.c_int32
    count = ctypes.c_int(len(arguments))
    return int(function(values, codes, count, ctypes.byref(result), ctypes.byref(code), None))


def _aligned(nbytes: int) -> Array:
    memory = np.zeros(nbytes + 16, np.uint8)
    start = -memory.ctypes.data % 16
    return memory[start : start + nbytes]


def _nbytes(argument: MainArgument) -> int:
    if argument.kind == "device":
        return 64
    return math.prod(argument.shape) * np.dtype(argument.dtype).itemsize


@functools.cache
def _runtime() -> tuple[str, ...]:
    """Objects of the C run time, whose memory is a stack."""
    folder = Path(tempfile.mkdtemp(prefix="hilc-test-crt-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    sources = sorted(CRT.rglob("*.c"))
    command = ["gcc", "-std=gnu11", "-O1", "-fPIC", *INCLUDES, "-c", *map(str, sources)]
    generated_c.run(command, folder)
    return tuple(str(path) for path in sorted(folder.glob("*.o")))


def _inputs(graph: Graph, seed: int = 1) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8)
        for name in graph.inputs
    }


def _require_right(built: _Built, graph: Graph) -> None:
    for seed in (1, 2):
        inputs = _inputs(graph, seed)
        expected = interpreter.run(graph, inputs)
        assert built.run(inputs) == 0
        for name, got in zip(graph.outputs, built.outputs(), strict=True):
            np.testing.assert_array_equal(got, expected[name], err_msg=name)
        assert built.left() == 0


@cases("variant", VARIANTS, ids="-".join, first=3)
def test_every_variant_equals_the_interpreter(variant: Sequence[str], tmp_path: Path) -> None:
    index = VARIANTS.index(tuple(variant))
    random = random_graph(40 + index, ordinary_outputs=True)
    # Either graph with either place of the constants.
    graph, optimize = ((_tiny(), "size"), (random, "balanced"))[(index + index // 2) % 2]
    _require_right(_Built(graph, _options(variant, optimize), tmp_path), graph)


@pytest.mark.parametrize("api", ["unpacked", "packed"])
def test_external_constants_at_any_address(api: str, tmp_path: Path) -> None:
    graph = _tiny()
    built = _Built(graph, _options((api, "packed", "external", "external"), "size"), tmp_path)
    assert built.source.constants_bytes == len(built.source.constants.data)
    _require_right(built, graph)
    built.move_constants()
    _require_right(built, graph)


# Workspace calls --------------------------------------------------------------------------------

_WORKSPACES = [("tiny", 0), *(("random", seed) for seed in (21, 62, 179)), ("kws", 0)]


@cases("api", ["unpacked", "packed"], first=1)
@cases(("model", "seed"), _WORKSPACES, first=1)
def test_the_workspace_is_what_an_allocator_needs(
    model: str, seed: int, api: str, tmp_path: Path
) -> None:
    if model == "kws":
        graph = run_passes(load_model(models.model_path("kws")))
    else:
        graph = random_graph(seed, ordinary_outputs=True) if model == "random" else _tiny()
    options = _options((api, "packed", "calls", "internal"))
    built = _Built(graph, options, tmp_path)
    needed = built.program.workspace_bytes
    assert needed > built.program.pools[0].nbytes > 0
    inputs = _inputs(graph)
    step = max(16, needed // 16 // 40 * 16)
    # Less memory than that is an error for the caller, in whichever allocation it shows.
    for nbytes in (needed - 16, *range(16, needed, step)):
        built.start(nbytes)
        assert built.run(inputs) == -1, nbytes
        assert built.left() == 0
    built.start(needed)
    _require_right(built, graph)


def test_a_model_without_activations_allocates_nothing(tmp_path: Path) -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.input(1, 40)))
    built = _Built(graph, _options(("unpacked", "c", "calls", "internal")), tmp_path)
    assert built.program.workspace_bytes == 0
    assert "TVMBackend" not in built.source.text
    _require_right(built, graph)


# Packed functions -------------------------------------------------------------------------------


@pytest.mark.parametrize("constants", ["internal", "external"])
def test_packed_functions_count_their_arguments(constants: str, tmp_path: Path) -> None:
    built = _Built(_tiny(), _options(("packed", "packed", "external", constants)), tmp_path)
    functions = {operator.function: len(operator.arguments) for operator in built.source.operators}
    functions[built.names.main] = len(built.arguments)
    for function, count in functions.items():
        for wrong in {0, count - 1, count + 1}:
            # Whoever reads one of them before counting does not live to say so.
            assert _call_packed(built.code[function], [8] * wrong) == -1


@pytest.mark.parametrize("constants", ["internal", "external"])
def test_linked_constants_have_a_storage_id(constants: str, tmp_path: Path) -> None:
    built = _Built(_tiny(), _options(("unpacked", "packed", "calls", constants)), tmp_path)
    members = built.source.constants.members
    assert len(members) > 5
    for function in (lookup_function(built.names.symbol), "_lookup_linked_param"):
        lookup = built.code[function]
        lookup.restype = ctypes.c_int32
        for storage_id in (-1, *range(len(members) + 1), 1 << 40):
            args, codes = (ctypes.c_int64 * 1)(storage_id), (ctypes.c_int * 1)(0)
            found, code = ctypes.c_uint64(7), ctypes.c_int(7)
            results = (ctypes.byref(found), ctypes.byref(code), None)
            assert lookup(args, codes, 1, *results) == 0
            if constants == "external" or not 0 <= storage_id < len(members):
                assert (found.value, code.value) == (0, 4)
                continue
            array = members[storage_id].array
            assert code.value == 3
            assert found.value % 16 == 0
            assert ctypes.string_at(found.value, array.nbytes) == array.tobytes()
            assert lookup(args, codes, 0, *results) == lookup(args, codes, 2, *results) == -1
            codes[0] = 3
            assert lookup(args, codes, 1, *results) == -1


# External functions -----------------------------------------------------------------------------

_EXTERNAL = """\
#include <stdint.h>
#include <string.h>

#include <tvm/runtime/c_backend_api.h>

/* What happened, and which of it shall fail. */
char events[200];
char failing;
DLTensor seen[3];
int64_t shapes[3][4];

static int32_t event(char what) {
    events[strlen(events)] = what;
    return what == failing ? 9 : 0;
}

static int32_t use(void *context, char what) {
    memcpy(context, "used", 5);
    return event(what);
}

int32_t TVMDeviceMyNpuActivate(void *context);
int32_t TVMDeviceMyNpuActivate(void *context) { return use(context, 'a'); }
int32_t TVMDeviceMyNpuDeactivate(void *context);
int32_t TVMDeviceMyNpuDeactivate(void *context) { return use(context, 'd'); }
int32_t TVMDeviceMyNpuOpen(void *context);
int32_t TVMDeviceMyNpuOpen(void *context) { return use(context, 'o'); }
int32_t TVMDeviceMyNpuClose(void *context);
int32_t TVMDeviceMyNpuClose(void *context) { return use(context, 'c'); }

int32_t ext_relu(void *input, void *output, void *scratch, void *device);
int32_t ext_relu(void *input, void *output, void *scratch, void *device) {
    const int8_t *const in = memcpy(scratch, input, 18);
    for (int i = 0; i < 18; i++) {
        ((int8_t *)output)[i] = in[i] > 3 ? in[i] : 3;
    }
    return device == NULL ? 9 : event('x');
}

int packed_relu(TVMValue *args, int *type_codes, int num_args, TVMValue *result, int *result_code,
                void *resource_handle);
int packed_relu(TVMValue *args, int *type_codes, int num_args, TVMValue *result, int *result_code,
                void *resource_handle) {
    (void)result;
    (void)result_code;
    if (num_args != 4 || resource_handle == NULL || type_codes[3] != kTVMOpaqueHandle) {
        return 8;
    }
    void *data[3];
    for (int i = 0; i < 3; i++) {
        const DLTensor *const tensor = args[i].v_handle;
        if (type_codes[i] != kTVMDLTensorHandle) {
            return 8;
        }
        seen[i] = *tensor;
        memcpy(shapes[i], tensor->shape, (size_t)tensor->ndim * sizeof(int64_t));
        data[i] = (char *)tensor->data + tensor->byte_offset;
    }
    return ext_relu(data[0], data[1], data[2], args[3].v_handle);
}
"""


def _with_external(api: str, managed: bool = True) -> Graph:
    """A convolution, a RELU that another generator took over, a convolution."""
    b = GraphBuilder(5)
    x = b.conv(b.input(1, 3, 3, 2), 2)
    y = b.relu(x)
    graph = b.graph(b.conv(y, 2), name="mixed")
    inner = Graph("inner", {n: b.tensors[n] for n in (x, y)}, (b.nodes[1],), (x,), (y,))
    module = ExternalModule(
        "packed_relu" if api == "packed" else "ext_relu",
        source="int nothing;",
        scratch_bytes=20,
        device=Device("my_npu", index=1, use_device_api=managed),
    )
    attrs = ExternalAttributes(module=module, graph=inner, generator="test", api=api)
    node = Node("EXTERNAL", (x,), (y,), attrs, index=1)
    return graph.with_(nodes=(b.nodes[0], node, b.nodes[2]))


@pytest.fixture(scope="module", params=VARIANTS, ids="-".join)
def built_external(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[_Built, Graph]:
    graph = _with_external(request.param[0])
    folder = tmp_path_factory.mktemp("external")
    return _Built(graph, _options(request.param), folder, _EXTERNAL), graph


def _events(built: _Built) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * 200).in_dll(built.code, "events")


@pytest.fixture
def external(built_external: tuple[_Built, Graph]) -> tuple[_Built, Graph]:
    """The library of external functions, of which none has been called and none fails."""
    built, _ = built_external
    ctypes.memset(_events(built), 0, 200)
    ctypes.c_char.in_dll(built.code, "failing").value = b"\0"
    return built_external


def test_external_functions_are_called_with_everything(external: tuple[_Built, Graph]) -> None:
    built, graph = external
    _require_right(built, graph)
    assert bytes(built.memory("device")[0][:5]) == b"used\0"
    # Two runs.
    assert _events(built).value == b"aoxcd" * 2
    if built.packed:
        seen = (_Tensor * 3).in_dll(built.code, "seen")
        shapes = ((ctypes.c_int64 * 4) * 3).in_dll(built.code, "shapes")
        expected = [((1, 3, 3, 2), (0, 8, 1)), ((1, 3, 3, 2), (0, 8, 1)), ((20,), (1, 8, 1))]
        for tensor, sides, (shape, dtype) in zip(seen, shapes, expected, strict=True):
            assert tuple(sides[: tensor.ndim]) == shape
            assert (tensor.code, tensor.bits, tensor.lanes) == dtype
            assert (tensor.device_type, tensor.device_id) == (1, 0)
            assert (tensor.strides, tensor.byte_offset) == (None, 0)


#: What fails, and what has been called by then.
_FAILURES = {"a": b"a", "o": b"aod", "x": b"aoxcd", "c": b"aoxcd", "d": b"aoxcd"}


def test_resources_are_closed_after_a_failure(external: tuple[_Built, Graph]) -> None:
    built, graph = external
    failing = ctypes.c_char.in_dll(built.code, "failing")
    for event, expected in _FAILURES.items():
        ctypes.memset(_events(built), 0, 200)
        failing.value = event.encode()
        assert built.run(_inputs(graph)) == -1
        assert _events(built).value == expected
        assert built.left() == 0


def test_a_device_may_do_without_a_driver(tmp_path: Path) -> None:
    graph = _with_external("unpacked", managed=False)
    built = _Built(graph, _options(VARIANTS[0]), tmp_path, _EXTERNAL)
    _require_right(built, graph)
    assert "TVMDevice" not in built.source.text


def test_a_function_that_the_image_lacks_is_an_error(tmp_path: Path) -> None:
    graph = _with_external("packed")
    options = _options(("packed", "packed", "calls", "internal"))
    built = _Built(graph, options, tmp_path, _EXTERNAL, lacking="packed_relu")
    assert built.run(_inputs(graph)) == -1
    # Nothing of it has begun.
    assert _events(built).value == b"ad"
    assert built.left() == 0
