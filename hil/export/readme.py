"""The README of a library: its content, its use in a project, how it is compiled."""

from __future__ import annotations

from hil.export.package import FLAGS, LICENSE, Package
from hilc.artifact.library import Module, TensorInfo

_WITHOUT_FLAG = (
    "GCC 12 at `-O2` and above has left out a layer, which it took for an access to address 0; the "
    "flag `-fno-delete-null-pointer-checks` turns that analysis off."
)


def readme(package: Package, use: str, flags: str) -> str:
    """Return the README; ``use`` says how a project of the ecosystem gets the library, ``flags``
    what the build does about the compiler's flags.
    """
    parts = [
        f"# {package.title} {package.version}\n",
        f"{package.sentence} Each model needs a C compiler and nothing else: no run time, no "
        "heap.\n",
        "## Use it\n",
        use.strip() + "\n",
        "## Models\n",
        *(_model(module) for module in package.modules),
        "The workspace of each model, the memory that its tensors lie in, is "
        + _workspace(package)
        + "\n",
        "A model is not reentrant: two calls of one model at a time would share its workspace.\n"
        if any(module.pools == "internal" for module in package.modules)
        else "",
        "## Flags\n",
        f"The kernels are chosen for {package.core_title}. They are meant to be compiled with "
        f"`{' '.join(FLAGS)}`. {_WITHOUT_FLAG} {flags.strip()}\n",
        _core(package),
        "## License\n",
        f"The code is licensed under {LICENSE}, see `LICENSE`. The weights, the arrays of "
        "constants "
        + (
            f"in {_weights(package)}, are licensed under {package.about.license}.\n"
            if package.about.license is not None
            else f"in {_weights(package)}, are of the author of the model.\n"
        ),
        f"Written by hil {package.compiler}: `hil export`.\n",
    ]
    return "\n".join(filter(None, parts))


def call_of(package: Package) -> str:
    """Return a Markdown sentence that names what a program includes and calls."""
    module = package.modules[0]
    return f"Include `{module.symbol}.h` and call `{module.symbol}_run`"


def _weights(package: Package) -> str:
    """Return the files with the constants."""
    plain = [f"`{module.name}.c`" for module in package.modules if module.style == "plain"]
    other = ["`*_lib1.c`"] * (len(plain) < len(package.modules))
    return " and ".join(plain + other)


def _workspace(package: Package) -> str:
    if package.is_plain and all(module.pools == "internal" for module in package.modules):
        return "a static array."
    if all(module.pools == "internal" for module in package.modules):
        return "a static array, in a section whose name begins with `.bss.noinit.tvm`."
    return "the caller's, who passes it with each call."


def _model(module: Module) -> str:
    rows = [
        *(_tensor(module, "input", tensor) for tensor in module.inputs),
        *(_tensor(module, "output", tensor) for tensor in module.outputs),
    ]
    states = (
        f", and {module.state_bytes:,} bytes of state: call `{module.symbol}_reset_state` before "
        "the first run"
        if module.states
        else ""
    )
    return (
        f"`{module.name}` (`{module.symbol}.h`): {module.workspace_bytes:,} bytes of workspace, "
        f"{module.constants_bytes:,} bytes of constants{states}.\n\n"
        "| | field | type | meaning |\n|---|---|---|---|\n" + "".join(rows)
    )


def _tensor(module: Module, what: str, tensor: TensorInfo) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    real = ""
    if tensor.scale is not None and tensor.zero_point is not None:
        sign = "-" if tensor.zero_point >= 0 else "+"
        real = f"real = {tensor.scale!r} * (value {sign} {abs(tensor.zero_point)})"
    return f"| {what} | `{tensor.c_name}` | {tensor.dtype} {shape} | {real} |\n"


def _core(package: Package) -> str:
    if package.needs_helium:
        return (
            f"The code needs Helium, Arm's vectors: compile it for {package.cpu.title}. For other "
            "cores, export the model again.\n"
        )
    if package.cpu.is_host:
        return (
            "For a core with kernels of its own, which are faster, export the model again with "
            "`--cpu` or `--board`.\n"
        )
    return (
        f"The kernels of {package.cpu.title} have twins in plain C, so the library compiles for "
        "other cores, too, and there it is slower than an export for these.\n"
    )
