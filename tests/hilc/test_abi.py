"""The binary interface that firmware written for microTVM relies on.

Sizes and offsets, values and signatures of the run time's headers; the symbols and macros of a
generated library; the bytes of its function registry. All numbers here are microTVM's own, measured
with arm-none-eabi-gcc for a Cortex-M4 and with gcc for x86-64.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import generated_c
import pytest
from campaigns import cases, sampled
from random_graphs import GraphBuilder, small_net

import hilc
from hilc.compat.tvm.system_lib import registry_names_blob, system_lib_source
from hilc.errors import InputError
from hilc.ir import Graph

ARM = generated_c.COMPILERS["cortex-m4"]
ARM_CXX = ("arm-none-eabi-g++", *ARM[1:])
_CXX_WARNINGS = ("-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Wundef", "-Werror")
#: Compiler and the column of the tables below; C on Arm has short enums, C++ has them typed.
TARGETS = {
    "arm": (ARM, generated_c.WARNINGS, 0),
    "arm-c++": (ARM_CXX, _CXX_WARNINGS, 0),
    "x64": (("gcc",), generated_c.WARNINGS, 1),
    "x64-c++": (("g++",), _CXX_WARNINGS, 1),
    "x64-clang": (("clang",), generated_c.WARNINGS, 1),
}

_HEADERS = (
    "dlpack/dlpack.h",
    "tvm/runtime/c_runtime_api.h",
    "tvm/runtime/c_backend_api.h",
    "tvm/runtime/metadata_types.h",
    "tvm/runtime/crt/error_codes.h",
    "tvm/runtime/crt/func_registry.h",
    "tvm/runtime/crt/module.h",
    "tvm/runtime/crt/packed_func.h",
    "tvm/runtime/crt/platform.h",
    "tvm/runtime/crt/stack_allocator.h",
    "tvm/runtime/crt/page_allocator.h",
)

# Layouts ----------------------------------------------------------------------------------------

#: Type, size on (arm, x64), and the offset of each of its fields, in order.
LAYOUTS: Mapping[str, tuple[tuple[int, int], Mapping[str, tuple[int, int]]]] = {
    "DLDevice": ((8, 8), {"device_type": (0, 0), "device_id": (4, 4)}),
    "DLDataType": ((4, 4), {"code": (0, 0), "bits": (1, 1), "lanes": (2, 2)}),
    "DLTensor": (
        (40, 48),
        {
            "data": (0, 0),
            "device": (4, 8),
            "ndim": (12, 16),
            "dtype": (16, 20),
            "shape": (20, 24),
            "strides": (24, 32),
            "byte_offset": (32, 40),
        },
    ),
    "DLManagedTensor": (
        (48, 64),
        {"dl_tensor": (0, 0), "manager_ctx": (40, 48), "deleter": (44, 56)},
    ),
    "TVMValue": (
        (8, 8),
        {
            "v_int64": (0, 0),
            "v_float64": (0, 0),
            "v_handle": (0, 0),
            "v_str": (0, 0),
            "v_type": (0, 0),
            "v_device": (0, 0),
        },
    ),
    "TVMByteArray": ((8, 16), {"data": (0, 0), "size": (4, 8)}),
    "TVMParallelGroupEnv": ((8, 16), {"sync_handle": (0, 0), "num_task": (4, 8)}),
    "TVMFuncRegistry": ((8, 16), {"names": (0, 0), "funcs": (4, 8)}),
    "TVMMutableFuncRegistry": ((12, 24), {"registry": (0, 0), "max_functions": (8, 16)}),
    "TVMModule": ((4, 8), {"registry": (0, 0)}),
    "TVMArgs": ((128, 128), {"values": (0, 0), "tcodes": (80, 80), "values_count": (120, 120)}),
    "TVMPackedFunc": (
        (472, 480),
        {
            "name": (0, 0),
            "fexec": (200, 200),
            "args": (208, 208),
            "ret_value": (336, 336),
            "Call": (464, 464),
            "SetArgs": (468, 472),
        },
    ),
    "tvm_workspace_t": (
        (12, 24),
        {"next_alloc": (0, 0), "workspace": (4, 8), "workspace_size": (8, 16)},
    ),
    "struct TVMMetadata": (
        (80, 80),
        {
            "version": (0, 0),
            "inputs": (8, 8),
            "num_inputs": (16, 16),
            "outputs": (24, 24),
            "num_outputs": (32, 32),
            "workspace_pools": (40, 40),
            "num_workspace_pools": (48, 48),
            "constant_pools": (56, 56),
            "num_constant_pools": (64, 64),
            "mod_name": (72, 72),
        },
    ),
    "struct TVMTensorInfo": (
        (24, 32),
        {"name": (0, 0), "shape": (4, 8), "num_shape": (8, 16), "dtype": (16, 24)},
    ),
    "struct TVMConstantInfo": (
        (32, 32),
        {"name_hint": (0, 0), "byte_offset": (8, 8), "data_len": (16, 16), "data_bytes": (24, 24)},
    ),
}

#: Size on arm in C (short enums), on arm in C++, on x64 in both.
ENUM_SIZES = {
    "DLDeviceType": (1, 4, 4),
    "TVMDeviceExtType": (1, 4, 4),
    "DLDataTypeCode": (1, 1, 4),
    "TVMArgTypeCode": (1, 1, 4),
    "tvm_crt_error_t": (4, 4, 4),
}
INTEGER_SIZES = {
    "tvm_index_t": 8,
    "tvm_function_index_t": 2,
    "tvm_module_index_t": 2,
}

VALUES: Mapping[str, int] = {
    # DLDeviceType
    "kDLCPU": 1, "kDLCUDA": 2, "kDLCUDAHost": 3, "kDLOpenCL": 4, "kDLVulkan": 7, "kDLMetal": 8,
    "kDLVPI": 9, "kDLROCM": 10, "kDLROCMHost": 11, "kDLExtDev": 12, "kDLCUDAManaged": 13,
    "kDLOneAPI": 14, "kDLWebGPU": 15, "kDLHexagon": 16,
    # TVMDeviceExtType
    "kDLAOCL": 32, "kDLSDAccel": 33, "kOpenGL": 34, "kDLMicroDev": 35,
    # DLDataTypeCode
    "kDLInt": 0, "kDLUInt": 1, "kDLFloat": 2, "kDLOpaqueHandle": 3, "kDLBfloat": 4,
    "kDLComplex": 5,
    # TVMArgTypeCode
    "kTVMArgInt": 0, "kTVMArgFloat": 2, "kTVMOpaqueHandle": 3, "kTVMNullptr": 4,
    "kTVMDataType": 5, "kDLDevice": 6, "kTVMDLTensorHandle": 7, "kTVMObjectHandle": 8,
    "kTVMModuleHandle": 9, "kTVMPackedFuncHandle": 10, "kTVMStr": 11, "kTVMBytes": 12,
    "kTVMNDArrayHandle": 13, "kTVMObjectRValueRefArg": 14, "kTVMArgBool": 15, "kTVMExtBegin": 16,
    "kTVMNNVMFirst": 16, "kTVMNNVMLast": 20, "kTVMExtReserveEnd": 64, "kTVMExtEnd": 128,
    # Limits of crt_config.h
    "TVM_CRT_MAX_NDIM": 6, "TVM_CRT_MAX_ARGS": 10, "TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES": 512,
    "TVM_CRT_MAX_REGISTERED_MODULES": 2, "TVM_CRT_MAX_PACKET_SIZE_BYTES": 2048,
    "TVM_CRT_MAX_STRLEN_FUNCTION_NAME": 120,
    "TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES": 16,
    # tvm_crt_error_t: the category in the second byte
    "kTvmErrorNoError": 0,
    "kTvmErrorFunctionNameNotFound": 0x100, "kTvmErrorFunctionIndexInvalid": 0x101,
    "kTvmErrorFunctionRegistryFull": 0x102, "kTvmErrorFunctionAlreadyDefined": 0x103,
    "kTvmErrorBufferTooSmall": 0x104,
    "kTvmErrorFramingInvalidState": 0x200, "kTvmErrorFramingShortPacket": 0x201,
    "kTvmErrorFramingInvalidEscape": 0x202, "kTvmErrorFramingPayloadOverflow": 0x203,
    "kTvmErrorFramingPayloadIncomplete": 0x204,
    "kTvmErrorWriteStreamShortWrite": 0x300, "kTvmErrorWriteStreamLongWrite": 0x301,
    "kTvmErrorSessionInvalidState": 0x400, "kTvmErrorSessionReceiveBufferBusy": 0x401,
    "kTvmErrorSessionReceiveBufferShortWrite": 0x402,
    "kTvmErrorPlatformCheckFailure": 0x500, "kTvmErrorPlatformMemoryManagerInitialized": 0x501,
    "kTvmErrorPlatformShutdown": 0x502, "kTvmErrorPlatformNoMemory": 0x503,
    "kTvmErrorPlatformTimerBadState": 0x504, "kTvmErrorPlatformStackAllocBadFree": 0x505,
    "kTvmErrorGeneratedInvalidStorageId": 0x600,
    "kTvmErrorExecutorModuleAlreadyCreated": 0x700, "kTvmErrorExecutorModuleBadContext": 0x701,
    "kTvmErrorExecutorModuleNoSuchInput": 0x702,
    "kTvmErrorFunctionCallNumArguments": 0x800, "kTvmErrorFunctionCallWrongArgType": 0x801,
    "kTvmErrorFunctionCallNotImplemented": 0x802, "kTvmErrorFunctionCallInvalidArg": 0x803,
    "kTvmErrorTimeEvaluatorBadHandle": 0x900,
    # What allocators mark and the registry reckons with
    "STACK_ALLOCATOR_TAG": 0xABCD1234, "STACK_ALLOCATOR_TAG_SIZE_BYTES": 4,
    "TVM_AVERAGE_FUNCTION_NAME_SIZE_BYTES": 10,
}  # fmt: skip

_PACKED_FUNCTION = "int (*{})(TVMValue *, int *, int, TVMValue *, int *, void *)"
#: Functions, as pointers that may point to them.
SIGNATURES = (
    ("TVMAPISetLastError", "void (*{})(const char *)"),
    ("TVMGetLastError", "const char *(*{})(void)"),
    ("TVMModGetFunction", "int (*{})(TVMModuleHandle, const char *, int, TVMFunctionHandle *)"),
    ("TVMModFree", "int (*{})(TVMModuleHandle)"),
    ("TVMModImport", "int (*{})(TVMModuleHandle, TVMModuleHandle)"),
    ("TVMFuncFree", "int (*{})(TVMFunctionHandle)"),
    ("TVMFuncCall", "int (*{})(TVMFunctionHandle, TVMValue *, int *, int, TVMValue *, int *)"),
    ("TVMCFuncSetReturn", "int (*{})(TVMRetValueHandle, TVMValue *, int *, int)"),
    ("TVMFuncRegisterGlobal", "int (*{})(const char *, TVMFunctionHandle, int)"),
    ("TVMFuncGetGlobal", "int (*{})(const char *, TVMFunctionHandle *)"),
    (
        "TVMArrayAlloc",
        "int (*{})(const tvm_index_t *, int, int, int, int, int, int, TVMArrayHandle *)",
    ),
    ("TVMArrayFree", "int (*{})(TVMArrayHandle)"),
    ("TVMDeviceAllocDataSpace", "int (*{})(DLDevice, size_t, size_t, DLDataType, void **)"),
    ("TVMDeviceFreeDataSpace", "int (*{})(DLDevice, void *)"),
    ("TVMDeviceCopyDataFromTo", "int (*{})(DLTensor *, DLTensor *, TVMStreamHandle)"),
    ("TVMSynchronize", "int (*{})(int, int, TVMStreamHandle)"),
    ("TVMByteArrayFree", "int (*{})(TVMByteArray *)"),
    ("TVMBackendAllocWorkspace", "void *(*{})(int, int, uint64_t, int, int)"),
    ("TVMBackendFreeWorkspace", "int (*{})(int, int, void *)"),
    ("TVMBackendGetFuncFromEnv", "int (*{})(void *, const char *, TVMFunctionHandle *)"),
    ("TVMBackendRegisterSystemLibSymbol", "int (*{})(const char *, void *)"),
    ("TVMBackendRegisterEnvCAPI", "int (*{})(const char *, void *)"),
    ("TVMBackendParallelLaunch", "int (*{})(FTVMParallelLambda, void *, int)"),
    ("TVMBackendParallelBarrier", "int (*{})(int, TVMParallelGroupEnv *)"),
    ("TVMBackendRunOnce", "int (*{})(void **, int (*)(void *), void *, int)"),
    ("TVMSystemLibEntryPoint", "const TVMModule *(*{})(void)"),
    ("TVMModCreateFromCModule", "int (*{})(const TVMModule *, TVMModuleHandle *)"),
    ("TVMFuncRegistry_GetNumFuncs", "uint16_t (*{})(const TVMFuncRegistry *)"),
    ("TVMFuncRegistry_SetNumFuncs", "int (*{})(const TVMFuncRegistry *, uint16_t)"),
    ("TVMFuncRegistry_Get0thFunctionName", "const char *(*{})(const TVMFuncRegistry *)"),
    (
        "TVMFuncRegistry_Lookup",
        "tvm_crt_error_t (*{})(const TVMFuncRegistry *, const char *, tvm_function_index_t *)",
    ),
    (
        "TVMMutableFuncRegistry_Create",
        "tvm_crt_error_t (*{})(TVMMutableFuncRegistry *, uint8_t *, size_t)",
    ),
    (
        "StackMemoryManager_Init",
        "tvm_crt_error_t (*{})(tvm_workspace_t *, uint8_t *, size_t)",
    ),
    (
        "StackMemoryManager_Allocate",
        "tvm_crt_error_t (*{})(tvm_workspace_t *, int32_t, void **)",
    ),
    ("StackMemoryManager_Free", "tvm_crt_error_t (*{})(tvm_workspace_t *, void *)"),
    (
        "PageMemoryManagerCreate",
        "tvm_crt_error_t (*{})(MemoryManagerInterface **, uint8_t *, size_t, size_t)",
    ),
    ("TVMPlatformAbort", "void (*{})(tvm_crt_error_t)"),
    ("TVMPlatformFormatMessage", "size_t (*{})(char *, size_t, const char *, va_list)"),
    ("TVMPlatformMemoryAllocate", "tvm_crt_error_t (*{})(size_t, DLDevice, void **)"),
    ("TVMPlatformMemoryFree", "tvm_crt_error_t (*{})(void *, DLDevice)"),
    ("TVMPlatformTimerStart", "tvm_crt_error_t (*{})(void)"),
    ("TVMPlatformTimerStop", "tvm_crt_error_t (*{})(double *)"),
    ("TVMPlatformGenerateRandom", "tvm_crt_error_t (*{})(uint8_t *, size_t)"),
)


def _asserts(target: str) -> Iterable[str]:
    _, _, column = TARGETS[target]
    for name, (sizes, fields) in LAYOUTS.items():
        yield f"sizeof({name}) == {sizes[column]}"
        for field, offsets in fields.items():
            yield f"offsetof({name}, {field}) == {offsets[column]}"
    enum_column = 2 if column else int(target.endswith("c++"))
    for name, enum_sizes in ENUM_SIZES.items():
        yield f"sizeof({name}) == {enum_sizes[enum_column]}"
    for name, size in INTEGER_SIZES.items():
        yield f"sizeof({name}) == {size}"
    for name, value in VALUES.items():
        yield f"{name} == {value}"
    for handle in ("Module", "Function", "RetValue", "Stream", "Object"):
        yield f"sizeof(TVM{handle}Handle) == sizeof(void *)"


@pytest.mark.parametrize("target", TARGETS)
def test_layouts_values_and_signatures(target: str, tmp_path: Path) -> None:
    compiler, warnings, _ = TARGETS[target]
    keyword = "static_assert" if target.endswith("c++") else "_Static_assert"
    lines = [f'#include "{header}"' for header in _HEADERS]
    lines += [f'{keyword}({text}, "{text}");' for text in _asserts(target)]
    lines += [f"{pointer.format(f'p_{name}')} = {name};" for name, pointer in SIGNATURES]
    lines.append(f"TVMBackendPackedCFunc packed; {_PACKED_FUNCTION.format('*same')} = &packed;")
    source = "abi.cpp" if target.endswith("c++") else "abi.c"
    (tmp_path / source).write_text("\n".join(lines) + "\n")
    flags = [*warnings, f"-I{generated_c.RUNTIME}", "-c", source, "-o", "abi.o"]
    generated_c.run([*compiler, *flags], tmp_path)


def test_every_header_stands_on_its_own(tmp_path: Path) -> None:
    root = generated_c.RUNTIME
    headers = [*sorted((root / "tvm").rglob("*.h")), *sorted((root / "dlpack").rglob("*.h"))]
    assert len(headers) >= len(_HEADERS)
    for header in headers:
        (tmp_path / "one.c").write_text(f'#include "{header.relative_to(root)}"\nint one;\n')
        flags = [f"-I{root}", "-fsyntax-only"]
        generated_c.run([*ARM, *generated_c.WARNINGS, *flags, "one.c"], tmp_path)
        generated_c.run(["g++", *_CXX_WARNINGS, *flags, "-x", "c++", "one.c"], tmp_path)


_WRITER = """\
#include "hil/packed_call.h"
void describe(DLTensor *tensor, TVMValue *value, int *code, void *data);
void describe(DLTensor *tensor, TVMValue *value, int *code, void *data) {
    static const int64_t shape[2] = {2, 3};
    hil_pass_tensor(value, code, tensor, data, kDLUInt, 16, 2, shape);
}
_Static_assert(sizeof(DLDeviceType) == 1, "short enums");
"""
_READER = """\
#include <cassert>
#include <cstring>
#include "tvm/runtime/c_runtime_api.h"
extern "C" void describe(DLTensor *tensor, TVMValue *value, int *code, void *data);
static_assert(sizeof(DLDeviceType) == 4, "the type that C++ gives the enum");
int main() {
    char data[12];
    DLTensor tensor;
    std::memset(&tensor, 0xff, sizeof tensor);  // what was on the stack
    TVMValue value;
    int code;
    describe(&tensor, &value, &code, data);
    const DLTensor *const passed = static_cast<const DLTensor *>(value.v_handle);
    assert(code == kTVMDLTensorHandle && passed == &tensor && passed->data == data);
    assert(passed->device.device_type == kDLCPU && passed->device.device_id == 0);
    assert(passed->ndim == 2 && passed->shape[0] == 2 && passed->shape[1] == 3);
    assert(passed->strides == nullptr && passed->byte_offset == 0);
    assert(passed->dtype.code == kDLUInt && passed->dtype.bits == 16 && passed->dtype.lanes == 1);
    return 0;
}
"""


def test_short_enums_call_code_without(tmp_path: Path) -> None:
    """A C file for bare-metal Arm writes one byte of the device, of which C++ reads four."""
    (tmp_path / "writer.c").write_text(_WRITER)
    (tmp_path / "reader.cpp").write_text(_READER)
    include = f"-I{generated_c.RUNTIME}"
    generated_c.run(["gcc", "-std=c11", "-fshort-enums", include, "-c", "writer.c"], tmp_path)
    reader = ["g++", "-std=c++11", include, "reader.cpp", "writer.o", "-o", "reader"]
    generated_c.run(reader, tmp_path)
    generated_c.run(["./reader"], tmp_path)


# Symbols ----------------------------------------------------------------------------------------

_OPERATORS = ("add", "add", "concatenation", "conv_2d", "conv_2d", "split")
_PACKED = {"interface": "packed", "api": "packed"}
_ENTRIES = {"_run": "T", "___tvm_main__": "T"}
_MAPS = {"_map_inputs": "T", "_map_outputs": "T"}
_LOOKED_UP = {"_get_c_metadata": "T", "__lookup_linked_param": "T"}
_POOL = {"_global_workspace": "B"}
_UNMANGLED = {"get_c_metadata": "W", "_lookup_linked_param": "W", "TVMSystemLibEntryPoint": "W"}
_BACKEND = {"TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace"}

#: Options, symbols after ``tvmgen_net``, others that are global, and what has to be linked.
SYMBOLS: Mapping[str, tuple[dict[str, Any], dict[str, str], dict[str, str], set[str]]] = {
    "c": ({}, {**_ENTRIES, **_POOL}, {}, set()),
    "c-external": ({"pools": "external"}, _ENTRIES, {}, set()),
    "c-calls": ({"pools": "calls"}, _ENTRIES, {}, _BACKEND),
    "c-in-pool": ({"io_in_pool": True}, {**_ENTRIES, **_POOL, **_MAPS}, {}, set()),
    "unpacked": ({"interface": "packed"}, {**_ENTRIES, **_LOOKED_UP, **_POOL}, _UNMANGLED, set()),
    "packed": (_PACKED, {**_ENTRIES, **_LOOKED_UP, **_POOL}, _UNMANGLED, set()),
    "packed-calls": (
        {**_PACKED, "pools": "calls", "constants": "external"},
        {**_ENTRIES, **_LOOKED_UP},
        _UNMANGLED,
        _BACKEND,
    ),
    "no-registry": (
        {"interface": "packed", "system_lib": False, "pools": "external"},
        {**_ENTRIES, **_LOOKED_UP},
        {name: kind for name, kind in _UNMANGLED.items() if not name.startswith("TVM")},
        set(),
    ),
}


def _symbols(objects: Sequence[str], folder: Path, nm: str) -> tuple[dict[str, str], set[str]]:
    """The global symbols that the objects define, with nm's letters, and those that they miss."""
    output = generated_c.run([nm, *objects], folder)
    defined: dict[str, str] = {}
    missing: set[str] = set()
    for line in output.splitlines():
        words = line.split()
        if len(words) < 2 or not (words[-2].isupper() or words[-2] == "w"):
            continue
        kind, name = words[-2:]
        if kind == "U":
            missing.add(name)
        else:
            assert name not in defined, f"{name} is defined twice"
            defined[name] = kind
    return defined, missing - set(defined)


@pytest.mark.parametrize(
    ("variant", "codegen", "cpu"),
    sampled(
        [
            *((variant, "c", "cortex-m4") for variant in SYMBOLS),
            *((variant, "c", "host") for variant in ("c", "packed")),
            *((variant, "llvm", "cortex-m4") for variant in ("c", "packed-calls")),
            ("packed", "llvm", "host"),
        ],
        keep=[*((variant, "c", "cortex-m4") for variant in SYMBOLS), ("packed", "llvm", "host")],
    ),
)
def test_symbols(variant: str, codegen: str, cpu: str, tmp_path: Path) -> None:
    options, own, others, needed = SYMBOLS[variant]
    library = hilc.compile(small_net(), cpu=cpu, codegen=codegen, **options)
    library.save(tmp_path)
    compiler = ARM if cpu != "host" else ("gcc",)
    objects = sorted(name for name in library.files if name.endswith(".o"))
    for index, source in enumerate(generated_c.sources(library)):
        include = ["-Icodegen/host/include", f"-I{generated_c.RUNTIME}"]
        objects.append(f"{index}.o")
        flags = [*generated_c.WARNINGS, "-O1", *include, "-c", source, "-o", objects[-1]]
        generated_c.run([*compiler, *flags], tmp_path)
    nm = "arm-none-eabi-nm" if cpu != "host" else "nm"
    defined, missing = _symbols(objects, tmp_path, nm)
    layers = [layer.function for layer in library.modules[0].layers]
    assert sorted(re.sub(r"_\d+$", "", name) for name in layers) == [
        f"tvmgen_net_fused_{operator}" for operator in _OPERATORS
    ]
    expected = {f"tvmgen_net{name}": kind for name, kind in own.items()}
    assert defined == {**expected, **others, **dict.fromkeys(layers, "T")}
    assert needed <= missing
    # Nothing else but the C library, in Arm's own names for it, too.
    rest = {name.removeprefix("__aeabi_") for name in missing - needed}
    assert rest <= {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"}


def test_data_is_in_sections_of_linker_scripts(tmp_path: Path) -> None:
    library = hilc.compile(small_net(), cpu="cortex-m4", api="packed", interface="packed")
    library.save(tmp_path)
    sections: dict[str, int] = {}
    flags: dict[str, str] = {}
    for source in generated_c.sources(library):
        include = ["-Icodegen/host/include", f"-I{generated_c.RUNTIME}"]
        generated_c.run([*ARM, "-O2", *include, "-c", source, "-o", "one.o"], tmp_path)
        for line in generated_c.run(["arm-none-eabi-size", "-A", "one.o"], tmp_path).splitlines():
            words = line.split()
            if len(words) == 3 and words[1].isdigit():
                sections[words[0]] = sections.get(words[0], 0) + int(words[1])
        listed = generated_c.run(["arm-none-eabi-readelf", "-SW", "one.o"], tmp_path)
        for name, kind, flag in re.findall(r"\] (\.\S+tvm)\s+(\w+)(?:\s+\w+){4}\s+(\w+)", listed):
            flags[name] = f"{kind} {flag}"
    module = library.modules[0]
    assert sections[".rodata.tvm"] == module.constants_bytes
    assert sections[".bss.noinit.tvm"] == module.workspace_bytes
    # Flash is not written, and the workspace takes no bytes of the image.
    assert flags == {".rodata.tvm": "PROGBITS A", ".bss.noinit.tvm": "NOBITS WA"}
    # Nothing else is in RAM.
    assert sections[".data"] == sections[".bss"] == 0


# Headers ----------------------------------------------------------------------------------------

_GUARD = {"TVMGEN_NET_H_": ""}
_IO_MACROS = {
    "TVMGEN_NET_T0_SIZE": "18",
    "TVMGEN_NET_T1_SIZE": "18",
    "TVMGEN_NET_T13_SIZE": "18",
    "TVMGEN_NET_T10_SIZE": "9",
}
_POOL_MACRO = "TVMGEN_NET_GLOBAL_WORKSPACE_WORKSPACE_POOL_SIZE"
_CONSTANT_MACRO = "TVMGEN_NET_GLOBAL_CONST_WORKSPACE_CONSTANT_POOL"


def _macros(library: hilc.ModelLibrary, folder: Path) -> dict[str, str]:
    library.save(folder)
    header = "codegen/host/include/tvmgen_net.h"
    output = generated_c.run(["gcc", "-E", "-dM", f"-I{generated_c.RUNTIME}", header], folder)
    pairs = (line.split(" ", 2)[1:] for line in output.splitlines() if " TVMGEN_" in line)
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


@pytest.mark.parametrize("interface", ["c", "packed"])
@pytest.mark.parametrize("pools", ["internal", "external", "calls"])
@pytest.mark.parametrize("constants", ["internal", "external"])
def test_macros(interface: str, pools: str, constants: str, tmp_path: Path) -> None:
    library = hilc.compile(small_net(), interface=interface, pools=pools, constants=constants)
    module = library.modules[0]
    expected = {**_GUARD, **_IO_MACROS, "TVMGEN_NET_WORKSPACE_SIZE": str(module.workspace_bytes)}
    if pools == "external":
        expected[_POOL_MACRO] = str(module.workspace_bytes)
    if constants == "external":
        expected[f"{_CONSTANT_MACRO}_SIZE"] = str(module.constants_bytes)
    macros = _macros(library, tmp_path)
    data = macros.pop(f"{_CONSTANT_MACRO}_DATA", None)
    assert macros == expected
    assert (data is not None) == (constants == "external")
    if data is not None:
        values = re.findall(r"\d+", data)
        assert len(values) == module.constants_bytes
        assert all(int(value) < 256 for value in values)


_STRUCTS = """\
#include <stddef.h>
#include "tvmgen_net.h"
#define FIELD(s, f, i) _Static_assert(offsetof(struct s, f) == (i) * sizeof(void *), #f)
FIELD(tvmgen_net_inputs, t0, 0);
FIELD(tvmgen_net_inputs, t1, 1);
FIELD(tvmgen_net_outputs, t13, 0);
FIELD(tvmgen_net_outputs, t10, 1);
_Static_assert(sizeof(struct tvmgen_net_inputs) == 2 * sizeof(void *), "two inputs");
_Static_assert(sizeof(struct tvmgen_net_outputs) == 2 * sizeof(void *), "two outputs");
"""
_POOL_STRUCT = "FIELD(tvmgen_net_workspace_pools, {}, {});\n"
_RUNS = {
    (): "int32_t (*run)(struct tvmgen_net_inputs *, struct tvmgen_net_outputs *)",
    ("pools",): "int32_t (*run)(struct tvmgen_net_inputs *, struct tvmgen_net_outputs *, "
    "struct tvmgen_net_workspace_pools *)",
    ("io",): "int32_t (*run)(void)",
    ("pools", "io"): "int32_t (*run)(struct tvmgen_net_workspace_pools *)",
}


@pytest.mark.parametrize("io_in_pool", [False, True])
@cases(
    ("pools", "constants", "fields"),
    [
        ("internal", "internal", []),
        ("external", "internal", ["global_workspace"]),
        ("internal", "external", ["global_const_workspace"]),
        ("external", "external", ["global_const_workspace", "global_workspace"]),
    ],
    first=1,
)
def test_structs(
    pools: str, constants: str, fields: list[str], io_in_pool: bool, tmp_path: Path
) -> None:
    library = hilc.compile(small_net(), pools=pools, constants=constants, io_in_pool=io_in_pool)
    library.save(tmp_path)
    key = tuple(["pools"] * bool(fields) + ["io"] * io_in_pool)
    text = _STRUCTS + "".join(_POOL_STRUCT.format(f, i) for i, f in enumerate(fields))
    text += f"{_RUNS[key]} = tvmgen_net_run;\n"
    if io_in_pool:
        given = "struct tvmgen_net_workspace_pools *" if pools == "external" else "void"
        for kind in ("inputs", "outputs"):
            text += f"struct tvmgen_net_{kind} (*m_{kind})({given}) = tvmgen_net_map_{kind};\n"
    (tmp_path / "structs.c").write_text(text)
    for compiler in (ARM, ("gcc",)):
        flags = [*generated_c.WARNINGS, "-Icodegen/host/include", "-fsyntax-only", "structs.c"]
        generated_c.run([*compiler, *flags], tmp_path)


@cases("constants", ["internal", "external"], first=1)
@cases("pools", ["internal", "external", "calls"], first=1)
def test_what_a_user_includes_is_cxx_too(pools: str, constants: str, tmp_path: Path) -> None:
    for interface in ("c", "packed"):
        library = hilc.compile(small_net(), interface=interface, pools=pools, constants=constants)
        library.save(tmp_path / interface)
        include = ["-Icodegen/host/include", f"-I{generated_c.RUNTIME}"]
        header = "codegen/host/include/tvmgen_net.h"
        flags = [*_CXX_WARNINGS, "-Wno-pragma-once-outside-header", *include, "-fsyntax-only"]
        generated_c.run(["clang++", *flags, "-x", "c++", header], tmp_path / interface)
    source = "codegen/host/src/net_lib2.c"
    for compiler in ("g++", "clang++"):
        command = [compiler, *_CXX_WARNINGS, *include, "-x", "c++", "-c", source, "-o", "o.o"]
        generated_c.run(command, tmp_path / "packed")
    defined, _ = _symbols(["o.o"], tmp_path / "packed", "nm")
    assert defined == {"tvmgen_net_get_c_metadata": "T", "get_c_metadata": "W"}


# The registry -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "blob"),
    [
        ([], b"\0\0\0"),
        (["a"], b"\1\0a\0\0"),
        (["a", "b"], b"\2\0a\0b\0\0"),
        ([f"f{i}" for i in range(300)], None),
    ],
)
def test_registry_names(names: list[str], blob: bytes | None) -> None:
    if blob is None:
        blob = (300).to_bytes(2, "little") + b"".join(n.encode() + b"\0" for n in names) + b"\0"
    assert registry_names_blob(names) == blob


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "'a' would be registered twice"),
        (["a b"], "'a b' is not a C identifier"),
        (["a\0b"], "is not a C identifier"),
        ([f"f{i}" for i in range(0x8000)], "32768 packed functions are too many .* 32767"),
    ],
)
def test_registries_that_cannot_be(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry_names_blob(names)


_WALK = """\
#include <stdio.h>
#include <string.h>
#include "tvm/runtime/crt/module.h"

/* Finds a function as microTVM's run time does: one name after the other. */
static TVMBackendPackedCFunc look_up(const TVMFuncRegistry *registry, const char *name) {
    const unsigned char *const head = (const unsigned char *)registry->names;
    const unsigned count = head[0] | (unsigned)head[1] << 8;
    const char *at = registry->names + 2;
    for (unsigned i = 0; i < count && *at != 0; i++) {
        if (strcmp(at, name) == 0) {
            return registry->funcs[i];
        }
        at += strlen(at) + 1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    const TVMFuncRegistry *const registry = TVMSystemLibEntryPoint()->registry;
    for (int i = 1; i < argc; i++) {
        const TVMBackendPackedCFunc function = look_up(registry, argv[i]);
        TVMValue result = {0};
        int code = kTVMNullptr;
        if (function == NULL) {
            printf("none\\n");
        } else {
            const int status = function(NULL, NULL, i, &result, &code, NULL);
            printf("%d %ld\\n", status, (long)result.v_int64);
        }
    }
    return 0;
}
"""


@cases("count", [0, 1, 300], first=1)
def test_the_table_is_found_name_by_name(count: int, tmp_path: Path) -> None:
    """Names that begin like others, digits behind the count's escape, names that are not there."""
    names = [f"{'x' * (i % 3)}_{i}" for i in range(count)]
    functions = "".join(
        f"int32_t {name}(TVMValue *a, int *b, int n, TVMValue *r, int *c, void *h) {{\n"
        f"    (void)a, (void)b, (void)h;\n    r->v_int64 = {i};\n    *c = 0;\n    return n;\n}}\n"
        for i, name in enumerate(names)
    )
    (tmp_path / "functions.c").write_text(
        f'#include "tvm/runtime/c_backend_api.h"\n{functions}int unused;\n'
    )
    (tmp_path / "table.c").write_text(system_lib_source(names, weak=False))
    # Of an image's registries the strong one is linked.
    (tmp_path / "weak.c").write_text(system_lib_source(names[:1], weak=True))
    (tmp_path / "walk.c").write_text(_WALK)
    files = ["walk.c", "weak.c", "table.c", "functions.c"]
    for compiler in (("gcc",), ("clang",)):
        command = [*compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
        generated_c.run([*command, f"-I{generated_c.RUNTIME}", *files, "-o", "walk"], tmp_path)
        asked = [*names[::37], "_", "x", *names[-1:], "missing", ""]
        expected = [
            f"{i} {names.index(name)}" if name in names else "none"
            for i, name in enumerate(asked, 1)
        ]
        assert generated_c.run(["./walk", *asked], tmp_path).splitlines() == expected
    for name in ("table.c", "weak.c"):
        flags = [*generated_c.WARNINGS, f"-I{generated_c.RUNTIME}", "-c", name, "-o", "o.o"]
        generated_c.run([*ARM, *flags], tmp_path)


def test_functions_are_in_the_order_of_microtvm() -> None:
    """The entry point, the operators by name, the main, the metadata, the look-up."""

    def functions(**options: object) -> list[str]:
        library = hilc.compile(_two_layers(), **options)  # type: ignore[call-overload]
        names = library.modules[0].functions
        return [name.removeprefix("tvmgen_two_") for name in names]

    packed = ["fused_add_1", "fused_conv_2d_0", "__tvm_main__"]
    asked = ["get_c_metadata", "_lookup_linked_param"]
    assert functions() == []
    assert functions(interface="packed") == ["run", *asked]
    assert functions(interface="packed", api="packed") == ["run", *packed, *asked]


def _two_layers() -> Graph:
    b = GraphBuilder()
    x = b.input(1, 2, 2, 1)
    return b.graph(b.add(b.conv(x, 1), x), name="two")


# Headers ----------------------------------------------------------------------------------------

#: What TVM's own C headers declare beyond the tables above, as far as generated C may use it. What
#: TVM has for C++ alone (TVM_METADATA_VERSION) is not in them.
_ALSO_DECLARED = {"TVMBackendPackedCFunc", "TVMFunctionHandle"}


@cases("variant", SYMBOLS, first=2)
def test_generated_code_uses_only_tvms_headers(variant: str, tmp_path: Path) -> None:
    """A user's firmware may have TVM's headers instead of ours; ours have more than those."""
    library = hilc.compile(small_net(), **SYMBOLS[variant][0])
    code = "codegen/host/"
    text = "".join(d.decode() for p, d in library.files.items() if p.startswith(code))
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    used = set(re.findall(r"\b(?:k?TVM|kTvm(?!gen)|kDL|DL|tvm_(?!tensor\b))\w+", text))
    declared = {*LAYOUTS, *(name.removeprefix("struct ") for name in LAYOUTS), *ENUM_SIZES}
    declared |= {*INTEGER_SIZES, *VALUES, *(name for name, _ in SIGNATURES), *_ALSO_DECLARED}
    used = {name for name in used if not name.startswith("TVMGEN_")}
    assert used <= declared, used - declared
    assert variant.startswith("c") or "TVMValue" in used

    # And nothing else but TVM's headers is needed beside the archive's own.
    library.save(tmp_path / "archive")
    for part in ("tvm", "dlpack"):
        shutil.copytree(generated_c.RUNTIME / part, tmp_path / "theirs" / part)
    flags = ["-Iarchive/codegen/host/include", "-Itheirs", "-fsyntax-only"]
    for source in generated_c.sources(library):
        generated_c.run(["gcc", *generated_c.WARNINGS, *flags, f"archive/{source}"], tmp_path)
