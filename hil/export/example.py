"""The C of a library's example: the samples, and a program that runs each model on its sample.

The program is C and C++ alike, so that one text serves a sketch, too. It prints a line for each
output, and returns or prints in the end how many differ from the reference's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hil.export.package import Package
from hil.export.samples import ModelSample
from hil.firmware.glue import c_string, model_key
from hilc.artifact.library import Module, Pool, TensorInfo
from hilc.codegen.cwriter import C_TYPES, c_comment, c_float, c_values
from hilc.ir import Array

_ALIGNED = "__attribute__((aligned(16)))"

#: File with the samples, beside the program.
SAMPLES = "samples.h"


def samples_header(package: Package) -> bytes:
    """Return ``samples.h``: an input of each model, and the outputs of the reference."""
    guard = f"{package.slug.upper()}_SAMPLES_H_"
    is_random = all(sample.is_random for sample in package.samples)
    origin = "the first random sample of `hil verify`" if is_random else "a given sample"
    parts = [
        c_comment(f"An input of each model, {origin}, and the outputs of the reference.")
        + f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n"
    ]
    for sample in package.samples:
        key = model_key(sample.module)
        for tensor in sample.module.inputs:
            name = f"{key}_input_{tensor.c_name}"
            parts.append(_array(name, tensor, sample.inputs[tensor.name]))
        for tensor in sample.module.outputs if sample.outputs is not None else ():
            assert sample.outputs is not None
            name = f"{key}_expected_{tensor.c_name}"
            parts.append(_array(name, tensor, sample.outputs[tensor.name]))
    return "\n".join([*parts, f"#endif /* {guard} */\n"]).encode()


def _array(name: str, tensor: TensorInfo, values: Array) -> str:
    shape = ",".join(map(str, tensor.shape))
    text = c_values(np.ascontiguousarray(values)).rstrip("\n")
    return (
        f"/* {tensor.dtype}[{shape}] */\n"
        f"static const {C_TYPES[tensor.dtype]} {name}[{values.size}] {_ALIGNED} = {{\n{text}\n}};\n"
    )


def program(package: Package, includes: Sequence[str] = (), *, say: str, main: str) -> bytes:
    """Return the program: ``say`` is the statement that prints ``text``, a line without its end;
    ``main`` the functions that call ``run_all()``.

    ``includes`` come before its own headers; that of each model is among these.
    """
    models = "".join(f'#include "{module.symbol}.h"\n' for module in package.modules)
    own = "".join(f"#include {name}\n" for name in includes)
    has_outputs = any(sample.outputs is not None for sample in package.samples)
    parts = [
        c_comment(
            "Runs each model of the library once, on the input in samples.h"
            + (", and compares its outputs with those of the reference." if has_outputs else ".")
        )
        + f"{own}#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n\n{models}\n"
        f'#include "{SAMPLES}"\n',
        f"static void say(const char *text) {{ {say} }}\n",
        _COMPARE if has_outputs else "",
        *(_model(sample) for sample in package.samples),
        _run_all(package),
        main,
    ]
    return "\n".join(filter(None, parts)).encode()


_COMPARE = """\
/* Prints how many values of an output differ from the reference's; returns whether any does. */
static int report(const char *output, unsigned long wrong, unsigned long count) {
    char text[160];

    (void)snprintf(text, sizeof text, "%.100s: %lu of %lu values are wrong", output, wrong, count);
    say(text);
    return wrong != 0;
}
"""


def _model(sample: ModelSample) -> str:
    if sample.module.style == "plain":
        return _plain_model(sample)
    module = sample.module
    buffers: list[str] = []
    set_up: list[str] = []
    arguments: list[str] = []
    declared: list[str] = []

    if module.pools == "external" or module.constants == "external":
        declared.append(f"    struct {module.symbol}_workspace_pools pools;\n")
        set_up += _pools(module, buffers)
    pools = "&pools" if module.pools == "external" else ""
    if module.states:
        set_up.append(
            f"    if ({module.symbol}_reset_state({pools}) != 0) {{\n        return 1;\n    }}\n"
        )
    for kind, tensors in (("inputs", module.inputs), ("outputs", module.outputs)):
        if not (tensors or module.io_in_pool):
            continue
        declared.append(f"    struct {module.symbol}_{kind} {kind};\n")
        if module.io_in_pool:
            set_up.append(f"    {kind} = {module.symbol}_map_{kind}({pools});\n")
        else:
            arguments.append(f"&{kind}")
        for tensor in tensors:
            set_up.append(_tensor(module, kind, tensor, buffers))
    if declared and declared[0].endswith(" pools;\n"):
        arguments.append("&pools")
    if module.devices:
        declared.append(f"    struct {module.symbol}_devices devices;\n")
        set_up += [
            f"    devices.{device} = NULL; /* the context of your device */\n"
            for device in module.devices
        ]
        arguments.append("&devices")
    declared_text, set_up_text = "".join(declared), "".join(set_up)
    return _run_function(sample, buffers, declared_text, set_up_text, ", ".join(arguments))


def _plain_model(sample: ModelSample) -> str:
    """Return the function that runs a model of plain code on its sample."""
    module, key = sample.module, model_key(sample.module)
    pools = [(f"{key}_pool_{p.name}", p) for p in module.workspace_pools]
    pools = [(name, pool) for name, pool in pools if module.pools == "external" and pool.nbytes]
    buffers = []
    for name, pool in pools:
        region = f" /* for the region {pool.region} */" if pool.region else ""
        size = f"{module.symbol}_{pool.name}_POOL_SIZE".upper()
        buffers.append(f"static uint8_t {name}[{size}] {_ALIGNED};{region}\n")
    set_up = ""
    if module.states:
        given = ", ".join(name for name, pool in pools if pool.persistent)
        set_up = (
            f"    if ({module.symbol}_reset_state({given}) != 0) {{\n        return 1;\n    }}\n"
        )
    arguments: list[str] = []
    for tensor in module.inputs:
        sent = f"{key}_input_{tensor.c_name}"
        if module.io_in_pool:
            to = _plain_buffer(module, tensor, pools)
            set_up += f"    (void)memcpy({to}, {sent}, sizeof {sent});\n"
        else:
            arguments.append(sent)
    declared = ""
    for tensor in module.outputs:
        name, kind = f"{key}_output_{tensor.c_name}", C_TYPES[tensor.dtype]
        macro = f"{module.symbol}_{tensor.c_name}_COUNT".upper()
        if module.io_in_pool:
            declared += f"    const {kind} *{name} = {_plain_buffer(module, tensor, pools)};\n"
        else:
            buffers.append(f"static {kind} {name}[{macro}] {_ALIGNED};\n")
            arguments.append(name)
    arguments += [name for name, _ in pools]
    return _run_function(sample, buffers, declared, set_up, ", ".join(arguments))


def _plain_buffer(module: Module, tensor: TensorInfo, pools: Sequence[tuple[str, Pool]]) -> str:
    """Return the call that finds a tensor in a pool."""
    own = module.workspace_pools[tensor.pool].name
    given = ", ".join(name for name, pool in pools if pool.name == own)
    return f"{module.symbol}_{tensor.c_name}_buffer({given})"


def _run_function(
    sample: ModelSample, buffers: Sequence[str], declared: str, set_up: str, arguments: str
) -> str:
    """Return buffers, and the function that sets the inputs, runs the model and checks outputs."""
    key = model_key(sample.module)
    checks, locals_ = _checks(sample)
    call = f"{sample.module.symbol}_run({arguments})"
    return (
        "".join(buffers)
        + ("\n" if buffers else "")
        + f"/* Runs {key} once; returns whether the run failed"
        + (" or an output differs" if checks else "")
        + f". */\nstatic int run_{key}(void) {{\n"
        + declared
        + locals_
        + "\n"
        + set_up
        + f"    if ({call} != 0) {{\n"
        + f"        say({c_string(f'{key}: the run failed')});\n        return 1;\n    }}\n"
        + (checks or f"    say({c_string(f'{key}: the run succeeded')});\n    return 0;\n")
        + "}\n"
    )


def _pools(module: Module, buffers: list[str]) -> Iterable[str]:
    """Yield the statements that hand over the caller's memory, whose arrays go to ``buffers``."""
    key = model_key(module)
    if module.pools == "external":
        for pool in module.workspace_pools:
            name = f"{key}_pool_{pool.name}"
            region = f" /* for the region {pool.region} */" if pool.region else ""
            buffers.append(f"static uint8_t {name}[{max(pool.nbytes, 1)}] {_ALIGNED};{region}\n")
            yield f"    pools.{pool.name} = {name};\n"
    if module.constants == "external":
        macro = f"{module.symbol}_{module.constants_pool}_CONSTANT_POOL_DATA".upper()
        name = f"{key}_constants"
        buffers.append(f"static const uint8_t {name}[] {_ALIGNED} = {macro};\n")
        yield f"    pools.{module.constants_pool} = (void *){name};\n"


def _tensor(module: Module, kind: str, tensor: TensorInfo, buffers: list[str]) -> str:
    key, field = model_key(module), tensor.c_name
    if kind == "inputs":
        sample = f"{key}_input_{field}"
        if module.io_in_pool:
            return f"    (void)memcpy(inputs.{field}, {sample}, sizeof {sample});\n"
        return f"    inputs.{field} = (void *){sample}; /* a run only reads it */\n"
    if module.io_in_pool:
        return ""
    macro = f"{module.symbol}_{field}_SIZE".upper()
    buffers.append(f"static uint8_t {key}_output_{field}[{macro}] {_ALIGNED};\n")
    return f"    outputs.{field} = {key}_output_{field};\n"


def _checks(sample: ModelSample) -> tuple[str, str]:
    """Return the statements that compare the outputs, and the declarations that they need."""
    if sample.outputs is None or not sample.module.outputs:
        return "", ""
    key, lines = model_key(sample.module), []
    for tensor in sample.module.outputs:
        expected, values = f"{key}_expected_{tensor.c_name}", sample.outputs[tensor.name]
        kind = C_TYPES[tensor.dtype]
        plain = sample.module.style == "plain"
        output = f"{key}_output_{tensor.c_name}" if plain else f"outputs.{tensor.c_name}"
        test = f"found != {expected}[i]"
        if kind in ("float", "double"):
            limit = c_float(float(np.float32(sample.tolerance(tensor.name))))
            # Not equal (an infinity is), not close, and not both no number.
            test = (
                f"found != {expected}[i] && !(found - {expected}[i] <= {limit} &&\n"
                f"                                    {expected}[i] - found <= {limit}) &&\n"
                f"            (found == found || {expected}[i] == {expected}[i])"
            )
        title = c_string(f"{key}: {tensor.name}")
        lines += [
            "    wrong = 0;\n",
            f"    for (i = 0; i < {values.size}; ++i) {{\n",
            f"        {kind} found;\n\n",
            f"        (void)memcpy(&found, (const uint8_t *){output}",
            " + i * sizeof found, sizeof found);\n",
            f"        if ({test}) {{\n            ++wrong;\n        }}\n    }}\n",
            f"    failed |= report({title}, wrong, {values.size});\n",
        ]
    return "".join(lines) + "    return failed;\n", (
        "    unsigned long i, wrong;\n    int failed = 0;\n"
    )


def _run_all(package: Package) -> str:
    calls = "".join(f"    failed |= run_{model_key(m)}();\n" for m in package.modules)
    return (
        "/* Runs every model; returns whether anything is wrong. */\n"
        f"static int run_all(void) {{\n    int failed = 0;\n\n{calls}"
        f"    say(failed ? {c_string(f'{package.name}: FAILED')} : "
        f"{c_string(f'{package.name}: passed')});\n    return failed;\n}}\n"
    )


def c_program(package: Package) -> bytes:
    """Return the program with an ordinary ``main``."""
    return program(
        package,
        say="(void)puts(text);",
        main="int main(void) { return run_all(); }\n",
    )
