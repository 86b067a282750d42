"""A compiled model written by hand: its C is the test's, the rest is what the harness needs."""

from __future__ import annotations

from typing import Literal

from hilc.artifact.library import (
    Argument,
    Layer,
    ModelLibrary,
    Module,
    Pool,
    TensorInfo,
    module_path,
)

_WORDS = 4


def tiny_library(
    body: str,
    *,
    name: str = "tiny",
    cpu: str = "host",
    pools: Literal["internal", "external"] = "external",
    io_in_pool: bool = True,
    workspace_bytes: int = 32 * _WORDS,
    constants_bytes: int = 0,
    globals_: str = "",
) -> ModelLibrary:
    """A model with an int32[4] input ``x`` and output ``y`` whose one layer is ``body``.

    Input and output lie at 0 and 16 of the pool where they are in it; ``globals_`` stands before
    the function.
    """
    symbol = f"tvmgen_{name}"
    places = (0, 4 * _WORDS) if io_in_pool else (None, None)
    tensors = [
        TensorInfo(label, label, (_WORDS,), "int32", None, None, 4 * _WORDS, offset)
        for label, offset in zip(("x", "y"), places, strict=True)
    ]
    arguments = (
        (Argument("pool", 0, (_WORDS,), "int32"), Argument("pool", 4 * _WORDS, (_WORDS,), "int32"))
        if io_in_pool
        else (Argument("input", 0, (_WORDS,), "int32"), Argument("output", 0, (_WORDS,), "int32"))
    )
    layer = Layer(
        name='the only "layer"',
        op="ADD",
        function=f"{symbol}_fused_add_0",
        arguments=arguments,
        outputs=(tensors[1],),
        macs=0,
        input_count=1,
    )
    module = Module(
        name=name,
        symbol=symbol,
        cpu=cpu,
        inputs=(tensors[0],),
        outputs=(tensors[1],),
        layers=(layer,),
        workspace_bytes=workspace_bytes,
        io_bytes=8 * _WORDS,
        constants_bytes=constants_bytes,
        pools=pools,
        workspace_pools=(Pool("global_workspace", workspace_bytes, None),),
        io_in_pool=io_in_pool,
    )
    source = _source(symbol, body, globals_, pools, io_in_pool, workspace_bytes)
    files = {
        module_path(name): module.to_json(),
        f"codegen/host/src/{name}_lib1.c": source.encode(),
        f"codegen/host/include/{symbol}.h": _header(symbol, pools, io_in_pool).encode(),
    }
    return ModelLibrary((module,), files)


def _run_parameters(symbol: str, pools: str, io_in_pool: bool) -> str:
    structs = [] if io_in_pool else ["inputs", "outputs"]
    if pools == "external":
        structs.append("workspace_pools")
    return ", ".join(f"struct {symbol}_{struct} *{struct}" for struct in structs) or "void"


def _header(symbol: str, pools: str, io_in_pool: bool) -> str:
    return f"""#ifndef TINY_H
#define TINY_H
#include <stdint.h>
struct {symbol}_inputs {{ void *x; }};
struct {symbol}_outputs {{ void *y; }};
struct {symbol}_workspace_pools {{ void *global_workspace; }};
int32_t {symbol}_run({_run_parameters(symbol, pools, io_in_pool)});
#endif
"""


def _source(
    symbol: str, body: str, globals_: str, pools: str, io_in_pool: bool, workspace_bytes: int
) -> str:
    # Like the compiler's: main takes inputs, outputs and pool, or the pool alone.
    parameters = "uint8_t *pool" if io_in_pool else "void *x, void *y, uint8_t *pool"
    operands = f"pool, pool + {4 * _WORDS}" if io_in_pool else "x, y"
    own = f"{symbol}_global_workspace"
    pool = own if pools == "internal" else "workspace_pools->global_workspace"
    arguments = pool if io_in_pool else f"inputs->x, outputs->y, {pool}"
    own_pool = (
        f'__attribute__((section(".bss.noinit.tvm"), aligned(16))) '
        f"uint8_t {own}[{workspace_bytes}];\n"
        if pools == "internal"
        else ""
    )
    return f"""#include "{symbol}.h"
{own_pool}
{globals_}
int32_t {symbol}_fused_add_0(void *x_, void *y_);
int32_t {symbol}_fused_add_0(void *x_, void *y_) {{
    const int32_t *x = x_;
    int32_t *y = y_;
    {body}
    return 0;
}}
int32_t {symbol}___tvm_main__({parameters});
int32_t {symbol}___tvm_main__({parameters}) {{
    {"(void)pool" if io_in_pool else "*(volatile uint8_t *)pool = 0"};
    return {symbol}_fused_add_0({operands});
}}
int32_t {symbol}_run({_run_parameters(symbol, pools, io_in_pool)}) {{
    return {symbol}___tvm_main__({arguments});
}}
"""
