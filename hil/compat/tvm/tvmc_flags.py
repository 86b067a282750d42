"""tvmc's flags for microcontrollers, and their meaning for this compiler.

A flag has a meaning, or is accepted with a note because it cannot change the result, or is rejected
with the alternatives. No flag is ignored silently.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hilc.errors import InputError
from hilc.memory.allocate import ALIGNMENT
from hilc.memory.plan import PoolSpec
from hilc.support.suggest import listed, nearest
from hilc.target import Cpu, cpu_names, get_cpu

# -- executors and run times -------------------------------------------------------------------

#: TVM's names for the types of options, used in its messages.
_BOOL, _INT, _STRING = "runtime.BoxBool", "runtime.BoxInt", "runtime.String"
_TRUTH = {"0": False, "1": True, "false": False, "true": True}


@dataclass(frozen=True)
class Registry:
    """The executors or the runtimes, each with the types of its options."""

    #: The name in messages, such as ``Executor``.
    title: str
    options: Mapping[str, Mapping[str, str]]

    @property
    def flag(self) -> str:
        """Name of its option on the command line, without dashes."""
        return self.title.lower()

    def check_name(self, name: str) -> None:
        """Raise :class:`InputError` unless ``name`` is one of the registry."""
        if name not in self.options:
            raise InputError(
                f'{self.title} "{name}" is not defined', f"choose {listed(self.options, 'or')}"
            )

    def value(self, name: str, option: str, text: str) -> bool | int | str:
        """Return the value of an option in its type."""
        self.check_name(name)
        known = self.options[name]
        if option not in known:
            raise InputError(
                f'Attribute "{option}" is not available on this {self.title}',
                f"{name} has {listed(known, 'or')}",
            )
        wanted = known[option]
        if wanted == _STRING:
            return text
        if wanted == _BOOL and text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
        if wanted == _INT and text.isdecimal():
            return int(text)
        found = _INT if text.isdecimal() else _STRING
        raise InputError(
            f'Attribute "{option}" should have type "{wanted}" but instead found "{found}"',
            f"{text!r} is not {'0, 1, true or false' if wanted == _BOOL else 'a whole number'}",
        )

    def explain_flag(self, flag: str) -> InputError | None:
        """Return the error for an unknown flag such as ``--executor-aot-...``, else None."""
        match = re.match(rf"--{self.flag}-([a-z]+)-([^=]+)", flag)
        if match is None:
            return None
        try:
            self.value(match[1], match[2], "")
        except InputError as error:
            return error
        return None


EXECUTORS = Registry(
    "Executor",
    {
        "aot": {
            "link-params": _BOOL,
            "unpacked-api": _BOOL,
            "interface-api": _STRING,
            "workspace-byte-alignment": _INT,
            "constant-byte-alignment": _INT,
        },
        "graph": {"link-params": _BOOL},
    },
)
RUNTIMES = Registry("Runtime", {"crt": {"system-lib": _BOOL}, "cpp": {"system-lib": _BOOL}})


def explain_flag(flag: str) -> InputError | None:
    """Return tvmc's error for the unknown flag ``flag``, if tvmc has one."""
    if flag in _MISSING_FLAGS:
        return InputError(*_MISSING_FLAGS[flag])
    for kind in _OTHER_TARGETS:
        if flag.startswith(f"--target-{kind}-"):
            return _no_target(kind)
    return EXECUTORS.explain_flag(flag) or RUNTIMES.explain_flag(flag)


#: Rejected flags of tvmc: fact and remedy.
_MISSING_FLAGS = {
    "--config": ("--config is not offered: it is a file of flags", "give its flags directly"),
    "--experimental-tvm-extension": (
        "--experimental-tvm-extension is not offered: this program does not use TVM",
        "use your own code generator for parts of the model: --external FILE.py",
    ),
    "--instruments": (
        "--instruments is not offered: this compiler does not have TVM's passes",
        "-v prints times",
    ),
    "--target-host": (
        "--target-host is not offered: the target is its own host",
        "drop it, as with TVM 0.8 and later",
    ),
}


def _no_target(kind: str) -> InputError:
    """Return the error for a target that is not offered, named or given an attribute."""
    return InputError(
        f"the target {kind!r} is not offered{nearest(kind, TARGETS)}",
        "the last target is c or llvm, after an optional cmsis-nn; for other targets, write a "
        "code generator (--external FILE.py)",
    )


# -- targets -----------------------------------------------------------------------------------

#: tvmc's targets for other processors, accelerators or libraries.
_OTHER_TARGETS = (
    "aocl", "aocl_sw_emu", "bnns", "ccompiler", "composite", "cuda", "ethos-u",
    "example_target_hook", "ext_dev", "hexagon", "hybrid", "metal", "mrvl", "nvptx", "opencl",
    "rocm", "sdaccel", "stackvm", "tensorrt", "vitis-ai", "vulkan", "webgpu",
)  # fmt: skip
#: Attributes by target; those with a text have no effect, for this reason.
_UNUSED_ATTRIBUTES = {
    "keys": "the core determines the kernels",
    "device": "the core determines the kernels",
    "model": "the core determines the kernels",
    "tag": "it only names the target",
    "libs": "no other library is called",
    "host": "the target is its own host",
    "num-cores": "a microcontroller has one core",
    "opt-level": "objects are optimised as the firmware is",
    "mattr": "the core determines the features",
    "debug_last_error": "it is for CMSIS-NN's own messages",
}
_USED_ATTRIBUTES = ("mcpu", "march")
#: Attributes that TVM moved to executor and runtime options; older scripts use these.
_MOVED_ATTRIBUTES = {
    "executor": ("executor", None),
    "runtime": ("runtime", None),
    "interface-api": ("executor", "interface-api"),
    "unpacked-api": ("executor", "unpacked-api"),
    "link-params": ("executor", "link-params"),
    "workspace-byte-alignment": ("executor", "workspace-byte-alignment"),
    "constants-byte-alignment": ("executor", "constant-byte-alignment"),
    "system-lib": ("runtime", "system-lib"),
}
TARGETS: Mapping[str, tuple[str, ...]] = {
    "c": (*_USED_ATTRIBUTES, *_MOVED_ATTRIBUTES, *_UNUSED_ATTRIBUTES),
    "llvm": (
        *_USED_ATTRIBUTES, "mtriple", "mfloat-abi", *_MOVED_ATTRIBUTES, *_UNUSED_ATTRIBUTES,
    ),
    "cmsis-nn": ("mcpu", "mattr", "debug_last_error"),
}  # fmt: skip
_CODEGEN = {"c": "c", "llvm": "llvm"}

# -- pass configurations -----------------------------------------------------------------------

_ALGORITHMS = ("greedy_by_size", "greedy_by_conflicts", "hill_climb")
_USED_CONFIGS = (
    "tir.usmp.enable",
    "tir.usmp.algorithm",
    "tir.usmp.use_workspace_io",
    "tir.usmp.custom_algorithm",
)
# Configurations of TVM's passes that this compiler does not have.
_UNUSED_CONFIG_NAMES = """
    relay.FuseOps.link_params relay.FuseOps.max_depth relay.backend.disable_memory_plan
    relay.backend.tir_converter relay.backend.use_auto_scheduler relay.backend.use_meta_schedule
    relay.backend.use_meta_schedule_dispatch relay.ext.cmsisnn.options relay.fallback_device_type
    relay.frontend.fill_span relay.remove_standalone_reshapes.enable tir.HoistIfThenElse
    tir.LoopPartition tir.Simplify tir.UnrollLoop tir.add_lower_pass tir.debug_keep_trivial_loop
    tir.detect_global_barrier tir.disable_assert tir.disable_cse_tir tir.disable_storage_rewrite
    tir.disable_vectorize tir.enable_debug tir.enable_equiv_terms_in_cse_tir
    tir.instrument_bound_checkers tir.noalias tir.vtcm_capacity
"""
_UNUSED_CONFIGS = tuple(_UNUSED_CONFIG_NAMES.split())

# -- the other flags ---------------------------------------------------------------------------

#: Flags without effect: name, argparse's settings, reason.
_UNUSED_FLAGS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("--tuning-records", {"metavar": "PATH"}, "kernels are not tuned by TVM"),
    ("--desired-layout", {"nargs": "+"}, "layers keep the model's layout"),
    ("--desired-layout-ops", {"nargs": "+"}, "layers keep the model's layout"),
    ("--disabled-pass", {"metavar": "NAMES"}, "this compiler does not have TVM's passes"),
    ("--print-pass-times", {"action": "store_true"}, "this compiler does not have TVM's passes"),
    ("--print-ir-before", {"metavar": "NAMES"}, "this compiler has no Relay or TIR"),
    ("--print-ir-after", {"metavar": "NAMES"}, "this compiler has no Relay or TIR"),
    ("--dump-offloads", {"metavar": "PATH"}, "`--json` lists the offloaded parts"),
    ("--dump-prim-func-names", {"action": "store_true"}, "the C names every layer"),
    ("--cross-compiler-options", {"metavar": "OPTIONS"}, "no cross compiler is called"),
    *(
        (f"--workspace-pools-{name}", {"metavar": "POOL:VALUE"}, "the planner uses sizes only")
        for name in (
            "targets",
            "target-access",
            "clock-frequency-hz",
            "read-bandwidth-bytes-per-cycle",
            "write-bandwidth-bytes-per-cycle",
            "read-latency-cycles",
            "write-latency-cycles",
            "target-burst-bytes",
        )
    ),
)
#: Rejected flags: name, argparse's settings, reason, remedy.
_REFUSED_FLAGS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    (
        "--use-vm",
        {"action": "store_true"},
        "this program has no virtual machine: it compiles ahead of time",
        "use --executor aot",
    ),
    (
        "--mixed-precision",
        {"action": "store_true"},
        "it would change the model's numbers",
        "convert the model before compiling it",
    ),
)
MODEL_FORMATS = ("tflite",)
OUTPUT_FORMATS = ("so", "tar", "mlf")


def add_compile_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``tvmc compile``, which :func:`translate` reads."""
    parser.add_argument("FILE", help="a .tflite file")
    parser.add_argument("-o", "--output", default="module.tar", help="default: module.tar")
    parser.add_argument(
        "-f", "--output-format", default="so", metavar="FORMAT",
        help="mlf: Model Library Format; so: a shared library for this machine (default)",
    )  # fmt: skip
    parser.add_argument("--model-format", metavar="FORMAT", help="tflite")
    parser.add_argument("--module-name", default="default", help="default: default")
    parser.add_argument(
        "--target", default="llvm", metavar="TARGET",
        help='c or llvm with attributes, "c -mcpu=cortex-m4"; text, JSON or a JSON file',
    )  # fmt: skip
    for kind, attributes in TARGETS.items():
        group = parser.add_argument_group(f"target {kind}")
        for attribute in attributes:
            group.add_argument(f"--target-{kind}-{attribute}", metavar="VALUE")
    for registry, default in ((EXECUTORS, "aot"), (RUNTIMES, "cpp")):
        parser.add_argument(f"--{registry.flag}", metavar="NAME", help=f"default: {default}")
        for name, options in registry.options.items():
            for option in options:
                parser.add_argument(f"--{registry.flag}-{name}-{option}", metavar="VALUE")
    parser.add_argument("--pass-config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--workspace-pools", metavar="NAME,...", help="pools that the caller provides"
    )
    parser.add_argument("--workspace-pools-size-hint-bytes", metavar="NAME:BYTES,...")
    parser.add_argument(
        "--input-shapes",
        metavar='"NAME:[1,2] ..."',
        help="shapes of inputs that the file leaves open; others must be the model's own",
    )
    parser.add_argument("--cross-compiler", default="", metavar="PROGRAM")
    parser.add_argument("--dump-code", default="", metavar="FORMAT,...", help="c")
    parser.add_argument("-O", "--opt-level", metavar="[0-3]")
    for flag, settings, _ in _UNUSED_FLAGS:
        parser.add_argument(flag, **settings)
    for flag, settings, _, _ in _REFUSED_FLAGS:
        parser.add_argument(flag, **settings)


@dataclass(frozen=True)
class Compilation:
    """The compiler options of a tvmc command line."""

    #: Keyword arguments of :func:`hilc.compile`.
    options: Mapping[str, Any]
    output_format: str
    #: Notes about flags without effect, and differences from tvmc.
    notes: tuple[str, ...]
    #: Whether ``cmsis-nn`` is among the targets.
    wants_cmsis_nn: bool = False


def translate(args: argparse.Namespace) -> Compilation:
    """Return the compiler options of the parsed flags; raise InputError for unsupported ones."""
    notes = _Notes()
    _check_plain_flags(args, notes)
    targets = _with_flags(parse_target(args.target), args)
    kind, cpu = _core(targets, notes)
    moved = _moved(targets[-1])
    executor, executor_options = _entity(EXECUTORS, args, moved)
    runtime, runtime_options = _entity(RUNTIMES, args, moved)
    if executor is None:
        notes.add("without --executor tvmc uses the graph executor; this program always uses aot")
    elif executor == "graph":
        raise InputError(
            "the graph executor is not offered: no interpreter runs on the device",
            "use --executor aot; its results are the same",
        )
    runtime = runtime or "cpp"
    _check_executor_options(executor_options, notes)
    configs = _configs(args.pass_config, notes)
    pools, memory = _pools(args, configs, runtime, notes)
    usmp = pools != "calls"
    if configs.get("tir.usmp.use_workspace_io") and not usmp:
        notes.unused("tir.usmp.use_workspace_io", "memory is planned only with tir.usmp.enable")
    options: dict[str, Any] = {
        "cpu": cpu.name,
        "name": args.module_name,
        "codegen": _CODEGEN[kind],
        "api": "unpacked" if executor_options.get("unpacked-api", False) else "packed",
        "interface": executor_options.get("interface-api", "packed"),
        "runtime": runtime,
        "pools": pools,
        "io_in_pool": usmp and bool(configs.get("tir.usmp.use_workspace_io", False)),
        "system_lib": bool(runtime_options.get("system-lib", False)),
        "memory": memory,
    }
    has_cmsis = any(target.kind == "cmsis-nn" for target in targets)
    return Compilation(options, args.output_format, tuple(notes.texts), has_cmsis)


def parse_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of ``--input-shapes``: ``name:[1,2] other:[3]``."""
    entries = re.findall(r"\s*(\S[^\[\]]*?)\s*:\s*\[([\d\s,]*)\]\s*,?", text)
    rest = re.sub(r"\s*(\S[^\[\]]*?)\s*:\s*\[([\d\s,]*)\]\s*,?", "", text)
    if not entries or rest.strip():
        raise InputError(
            f"--input-shapes {text!r} is not a list of shapes", 'write "input_1:[1,49,10,1]"'
        )
    return {name: tuple(map(int, re.findall(r"\d+", sides))) for name, sides in entries}


# -- implementation ----------------------------------------------------------------------------


@dataclass
class _Notes:
    texts: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.texts.append(text)

    def unused(self, what: str, why: str) -> None:
        self.add(f"{what} has no effect: {why}")


@dataclass(frozen=True)
class Target:
    """A target of ``--target`` with its attributes as text."""

    kind: str
    attributes: Mapping[str, str]


def _attribute(args: argparse.Namespace, flag: str) -> Any:
    return getattr(args, flag.lstrip("-").replace("-", "_"))


def _check_plain_flags(args: argparse.Namespace, notes: _Notes) -> None:
    """Check the flags that concern neither target, executor nor planner."""
    for flag, _, fact, remedy in _REFUSED_FLAGS:
        if _attribute(args, flag):
            raise InputError(f"{flag} is not offered: {fact}", remedy)
    if args.output_format not in OUTPUT_FORMATS:
        raise InputError(
            "Only 'so', 'tar', and 'mlf' output formats are supported.",
            f"--output-format is {args.output_format!r}",
        )
    if args.output_format == "mlf" and args.cross_compiler:
        raise InputError(
            "Specifying the MLF output and a cross compiler is not supported.",
            "drop --cross-compiler: the firmware's build compiles the archive's sources",
        )
    if args.model_format not in (None, *MODEL_FORMATS):
        raise InputError(
            f"--model-format {args.model_format} is not offered",
            f"convert the model to {listed(MODEL_FORMATS, 'or')}",
        )
    if args.opt_level is not None:
        if args.opt_level not in ("0", "1", "2", "3"):
            raise InputError(f"--opt-level {args.opt_level} is outside of 0 to 3", "drop it")
        notes.unused("--opt-level", "every transform always runs")
    for flag, _, why in _UNUSED_FLAGS:
        if _attribute(args, flag):
            notes.unused(flag, why)


def parse_target(text: str) -> list[Target]:
    """Return the targets of ``--target``: text, JSON, or the path of a JSON file."""
    if not text.strip():
        raise InputError("--target is empty", 'write "c -mcpu=cortex-m4"')
    stripped = text.strip()
    if Path(stripped).is_file():
        stripped = Path(stripped).read_text(encoding="utf-8", errors="replace").strip()
    targets = [_json_target(stripped)] if stripped.startswith("{") else _text_targets(stripped)
    for target in targets:
        if target.kind not in TARGETS:
            raise _no_target(target.kind)
        for name in target.attributes:
            if name not in TARGETS[target.kind]:
                raise InputError(
                    f"the target {target.kind} has no attribute {name!r}"
                    f"{nearest(name, TARGETS[target.kind])}",
                    f"its attributes are {', '.join(TARGETS[target.kind])}",
                )
    kinds = [target.kind for target in targets]
    if kinds[-1] not in _CODEGEN:
        raise InputError(f"the last target is {kinds[-1]}, not c or llvm", 'write "cmsis-nn, c"')
    if len(set(kinds)) < len(kinds) or len([kind for kind in kinds if kind in _CODEGEN]) > 1:
        raise InputError(
            f"the targets {', '.join(kinds)} are more than one for the code", "keep the last"
        )
    return targets


def _json_target(text: str) -> Target:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"--target is not valid JSON: {error}") from None
    attributes = {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in found.items()
        if name != "kind"
    }
    return Target(str(found.get("kind", "")), attributes)


def _text_targets(text: str) -> list[Target]:
    """Split ``cmsis-nn -mcpu=cortex-m55, c -keys=arm_cpu,cpu``; commas in values do not split."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"--target {text!r} cannot be read: {error}") from None
    parts: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-"):
            parts[-1].append(word.rstrip(","))
            if word.endswith(","):
                parts.append([])
            continue
        for index, name in enumerate(word.split(",")):
            if index:
                parts.append([])
            if name:
                parts[-1].append(name)
    targets = []
    for part in filter(None, parts):
        kind, *options = part
        attributes: dict[str, str] = {}
        for option in options:
            name, separator, value = option.lstrip("-").partition("=")
            if not option.startswith("-"):
                raise InputError(
                    f"{option!r} in --target is not an attribute", f"write {kind} -name=value"
                )
            attributes[name] = value if separator else "1"
        targets.append(Target(kind, attributes))
    return targets


def _with_flags(targets: Sequence[Target], args: argparse.Namespace) -> list[Target]:
    """Return the targets with the attributes of ``--target-<kind>-<attribute>``."""
    given: dict[str, dict[str, str]] = {}
    for kind, attributes in TARGETS.items():
        for name in attributes:
            value = _attribute(args, f"--target-{kind}-{name}")
            if value is not None:
                given.setdefault(kind, {})[name] = value
    for kind, attributes_of_kind in given.items():
        if kind not in [target.kind for target in targets]:
            first = next(iter(attributes_of_kind))
            raise InputError(
                f"Passed --target-{kind}-{first} but did not specify {kind} target",
                f"the targets are {', '.join(target.kind for target in targets)}",
            )
    return [
        Target(target.kind, {**target.attributes, **given.get(target.kind, {})})
        for target in targets
    ]


def _core(targets: Sequence[Target], notes: _Notes) -> tuple[str, Cpu]:
    """Return the code form (c or llvm) and the core of the targets."""
    last = targets[-1]
    names = {t.attributes["mcpu"] for t in targets if "mcpu" in t.attributes}
    if len(names) > 1:
        raise InputError(f"the targets name the cores {' and '.join(sorted(names))}", "name one")
    march = last.attributes.get("march")
    if names:
        (name,) = names
        if name not in cpu_names():
            raise InputError(
                f"-mcpu={name} is not offered{nearest(name, cpu_names())}",
                f"the cores are {', '.join(n for n in cpu_names() if n != 'host')}",
            )
        cpu = get_cpu(name)
    elif march is not None:
        cpu = _core_of(march)
    else:
        cpu = get_cpu("host")
    if march is not None and march.partition("+")[0] != cpu.arch:
        raise InputError(f"-march={march} does not match {cpu.name}", f"use -march={cpu.arch}")
    _check_triple(last, cpu)
    abi = last.attributes.get("mfloat-abi")
    if abi is not None and f"-mfloat-abi={abi}" not in cpu.cflags:
        own = next((f for f in cpu.cflags if f.startswith("-mfloat-abi=")), "this machine's own")
        raise InputError(f"-mfloat-abi={abi} is not offered for {cpu.name}", f"use {own}")
    for target in targets:
        for name, why in _UNUSED_ATTRIBUTES.items():
            if name in target.attributes:
                notes.unused(f"-{name}", why)
    return last.kind, cpu


def _core_of(march: str) -> Cpu:
    """Return the smallest core of an architecture."""
    cores = [cpu for cpu in map(get_cpu, cpu_names()) if not cpu.is_host]
    for cpu in cores:
        if cpu.arch == march.partition("+")[0]:
            return cpu
    archs = dict.fromkeys(cpu.arch for cpu in cores)
    raise InputError(
        f"-march={march} is not offered{nearest(march, archs)}", f"choose one of {', '.join(archs)}"
    )


def _check_triple(target: Target, cpu: Cpu) -> None:
    triple = target.attributes.get("mtriple")
    if triple is None:
        return
    if re.fullmatch(cpu.toolchain.triples, triple) is None:
        raise InputError(
            f"-mtriple={triple} is not offered for {cpu.name}",
            "name a Cortex-M with -mcpu, or drop triple and core to compile for this machine",
        )


def _moved(target: Target) -> dict[str, dict[str | None, str]]:
    """Return the target's attributes that belong to executor and runtime (older scripts)."""
    moved: dict[str, dict[str | None, str]] = {"executor": {}, "runtime": {}}
    for name, (where, option) in _MOVED_ATTRIBUTES.items():
        if name in target.attributes:
            moved[where][option] = target.attributes[name]
    # The C runtime had this name first.
    if moved["runtime"].get(None) == "c":
        moved["runtime"][None] = "crt"
    return moved


def _entity(
    registry: Registry, args: argparse.Namespace, moved: Mapping[str, Mapping[str | None, str]]
) -> tuple[str | None, dict[str, Any]]:
    """Return the name of the executor or runtime (None if absent) and its options."""
    old = moved[registry.flag]
    name: str | None = _attribute(args, f"--{registry.flag}") or old.get(None)
    default = "aot" if registry is EXECUTORS else "cpp"
    if name is not None:
        registry.check_name(name)
    chosen = name or default
    options: dict[str, Any] = {
        option: registry.value(chosen, option, text) for option, text in old.items() if option
    }
    for other, known in registry.options.items():
        for option in known:
            text = _attribute(args, f"--{registry.flag}-{other}-{option}")
            if text is None:
                continue
            if other != chosen:
                raise InputError(
                    f"Passed --{registry.flag}-{other}-{option} but did not specify {other} "
                    f"{registry.flag}",
                    f"write --{registry.flag} {other}",
                )
            options[option] = registry.value(other, option, text)
    return name, options


def _check_executor_options(options: Mapping[str, Any], notes: _Notes) -> None:
    if options.get("link-params") is False:
        raise InputError(
            "link-params=0 is not offered: parameters are always linked into the code",
            "drop it; hil compile --constants external keeps them outside of the code",
        )
    for option in ("workspace-byte-alignment", "constant-byte-alignment"):
        alignment = options.get(option, ALIGNMENT)
        if alignment < 1 or alignment & (alignment - 1):
            raise InputError(f"{option}={alignment} is not a power of two")
        if alignment > ALIGNMENT:
            raise InputError(
                f"{option}={alignment} is not offered", f"everything is aligned to {ALIGNMENT}"
            )
        if alignment < ALIGNMENT:
            notes.unused(f"{option}={alignment}", f"everything is aligned to {ALIGNMENT}")


def _configs(words: Sequence[str], notes: _Notes) -> dict[str, bool | str]:
    """Return the pass configurations that have a meaning here."""
    known = (*_USED_CONFIGS, *_UNUSED_CONFIGS)
    configs: dict[str, bool | str] = {}
    for word in words:
        name, separator, value = (part.strip() for part in word.partition("="))
        if not separator or not name or not value:
            raise InputError(f"--pass-config {word!r} is not NAME=VALUE", "write tir.usmp.enable=1")
        if name not in known:
            raise InputError(
                f"the pass configuration {name!r} does not exist{nearest(name, known)}",
                f"those with an effect are {', '.join(_USED_CONFIGS[:3])}",
            )
        if name == "tir.usmp.custom_algorithm":
            raise InputError(
                "tir.usmp.custom_algorithm is not offered: it names a function in TVM's process",
                f"drop it, or choose one of {', '.join(_ALGORITHMS)}",
            )
        if name == "tir.usmp.algorithm":
            if value not in _ALGORITHMS:
                raise InputError(
                    f"{name}={value} does not exist{nearest(value, _ALGORITHMS)}",
                    f"choose one of {', '.join(_ALGORITHMS)}",
                )
            notes.unused(word, "the compiler has one planner")
        elif name in _UNUSED_CONFIGS:
            notes.unused(word, "no transform has this option")
        elif value.lower() in _TRUTH:
            configs[name] = _TRUTH[value.lower()]
        else:
            raise InputError(f"--pass-config {word} is not 0, 1, true or false")
    return configs


def _pools(
    args: argparse.Namespace, configs: Mapping[str, Any], runtime: str, notes: _Notes
) -> tuple[str, tuple[PoolSpec, ...]]:
    """Return the owner of the workspace, and the named pools."""
    # TVM plans memory for its C runtime by default, and never for the C++ runtime.
    planned = configs.get("tir.usmp.enable", runtime == "crt")
    names = [name.strip() for name in (args.workspace_pools or "").split(",") if name.strip()]
    limits = _limits(args.workspace_pools_size_hint_bytes, names)
    if not planned:
        if names:
            notes.unused("--workspace-pools", "memory is planned only with tir.usmp.enable")
        return "calls", ()
    if not names:
        return "internal", ()
    return "external", tuple(PoolSpec(name, limits.get(name)) for name in names)


def _limits(text: str | None, pools: Sequence[str]) -> dict[str, int]:
    limits: dict[str, int] = {}
    for entry in (text or "").split(","):
        if not entry.strip():
            continue
        name, _, size = entry.strip().rpartition(":")
        if name not in pools:
            raise InputError(
                f"--workspace-pools-size-hint-bytes names {name or entry!r}, which is not a pool",
                f"the pools are {', '.join(pools) or 'named with --workspace-pools'}",
            )
        if not size.isdecimal():
            raise InputError(f"the size of pool {name!r} is {size!r}, not a whole number of bytes")
        limits[name] = int(size)
    return limits
