"""``hil tvmc``: tvmc's commands for this project's compiler, firmware and boards."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hil.access.connection import Connection
from hil.cli.console import Console, tensor_values
from hil.cli.images import flash_image
from hil.compat.tvm.results import (
    TopValue,
    TvmcBuildEntry,
    TvmcCompileEntry,
    TvmcFlashEntry,
    TvmcProjectEntry,
    TvmcRunEntry,
)
from hil.compat.tvm.tvmc_flags import Compilation, parse_shapes, translate
from hil.compat.tvm.tvmc_parser import DEVICES, FILL_MODES
from hil.compat.tvm.tvmc_project import (
    ARCHIVE,
    Project,
    ProjectOptions,
    calls_cmsis_nn,
    check_platform,
    cmsis_nn_folder,
    find_board,
    load_project,
    parse_options,
)
from hil.device import Device
from hil.device.elf import is_elf
from hil.device.session import open_firmware
from hil.errors import HilError
from hil.firmware.build import Firmware, build, create_project
from hil.firmware.compiled import compile_model
from hil.support.numbers import json_number
from hil.verify.samples import is_saved, load_arrays, random_sample, save_arrays, split_samples
from hilc import host
from hilc.artifact.archive import is_library, tar_bytes
from hilc.artifact.library import ModelLibrary, Module, TensorInfo
from hilc.errors import InputError
from hilc.external import load_generator
from hilc.frontends.readers import OpenShapeError, reader_of
from hilc.ir import Array
from hilc.options import CompileOptions
from hilc.support.outputs import changed_files, check_file, edited_files, write_file
from hilc.support.suggest import nearest
from hilc.support.temporary import TemporaryFolder

#: A dump begins each file with its path.
_DUMP_START = b"/* codegen/"


class NoBuildError(HilError):
    """Error for a project that was not built."""

    exit_code = 3


# -- compile -----------------------------------------------------------------------------------


def compile_command(args: argparse.Namespace, console: Console) -> int:
    """Compile a model (``tvmc compile``).

    Raise :class:`InputError` if the file does not exist or an output format is not offered.
    """
    compilation = translate(args)
    notes = [*compilation.notes]
    path = Path(args.FILE)
    shapes = {} if args.input_shapes is None else parse_shapes(args.input_shapes)
    if not path.is_file():
        raise InputError(
            f"Input file '{args.FILE}' doesn't exist, is a broken symbolic link, or a directory.",
            "give the path of a .tflite, .onnx or .pt2 file",
        )
    externals = tuple(load_generator(spec) for spec in args.external)
    if compilation.wants_cmsis_nn and not externals:
        notes.append(
            "target cmsis-nn changes nothing without --external: this compiler's own kernels "
            "compute the same bytes"
        )
    if args.output_format == "so" and compilation.options["cpu"] != "host":
        raise InputError(
            f"a shared library is for this machine, but the target is {compilation.options['cpu']}",
            "use --output-format mlf",
        )
    if args.output_format == "tar":
        raise InputError(
            "--output-format tar is not offered: it is for TVM's C++ RPC server",
            "use mlf: it contains sources, or objects with --target llvm",
        )
    output = Path(args.output)
    dumps = [output.with_name(f"{output.name}.{s}") for s in _dump_formats(args, compilation)]
    check_file(output, kind="an output of tvmc compile", is_own=_is_compiled)
    for dump in dumps:
        check_file(dump, kind="a dump of code", is_own=_is_dump)
    with console.progress_total("compiling", "programs tried") as progress:
        options = CompileOptions(
            **compilation.options,
            externals=externals,
            signature=args.signature,
            progress=progress,
            shapes=shapes if _takes_shapes(path) else {},
        )
        try:
            library = compile_model(path, options)
        except OpenShapeError as error:
            error.hint = _shapes_hint({**shapes, error.input: error.shape})
            raise
    (module,) = library.modules
    if module.name != args.module_name:
        notes.append(f"in C and in the archive the module is called {module.name!r}")
    _check_shapes(shapes, module)
    for note in notes:
        console.log(f"note: {note}")
    if args.output_format == "mlf":
        # Like tvmc, ignore the suffix of the file's name.
        write_file(output, tar_bytes(library.files))
    else:
        _save_shared_object(library, output)
    for dump in dumps:
        write_file(dump, _sources(library))
    entry = TvmcCompileEntry(
        model=module.name,
        output=str(output),
        output_format=args.output_format,
        cpu=module.cpu,
        codegen=module.codegen,
        api=module.api,
        interface=module.interface,
        runtime=compilation.options["runtime"],
        pools=module.pools,
        workspace_bytes=module.workspace_bytes,
        constants_bytes=module.constants_bytes,
        io_bytes=module.io_bytes,
        notes=tuple(notes),
    )
    console.result(
        entry,
        f"{output}: {module.name} for {module.cpu}, {module.api} API, {module.interface} "
        f"interface, workspace {module.workspace_bytes:,}, constants {module.constants_bytes:,}",
    )
    return 0


def _is_compiled(path: Path) -> bool:
    """Return whether ``tvmc compile`` writes files of this kind."""
    return is_elf(path) or is_library(path)


def _is_dump(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_DUMP_START)) == _DUMP_START


def _dump_formats(args: argparse.Namespace, compilation: Compilation) -> list[str]:
    formats = [word.strip() for word in args.dump_code.split(",") if word.strip()]
    for word in formats:
        if word != "c":
            raise InputError(
                f"--dump-code {word} is not offered: this compiler has no Relay, TIR or assembly",
                "use --dump-code c",
            )
    if formats and compilation.options["codegen"] != "c":
        raise InputError("--dump-code c needs C, but the target is llvm", "use --target c")
    return formats


def _takes_shapes(path: Path) -> bool:
    """Return whether the format of a model file leaves shapes to the user."""
    reader = reader_of(path.read_bytes())
    return reader is not None and reader.specialize is not None


def _shapes_hint(shapes: Mapping[str, Sequence[int]]) -> str:
    """Return the option that states all shapes, those that were given before included."""
    stated = " ".join(f"{name}:{list(shape)}".replace(", ", ",") for name, shape in shapes.items())
    return f'state its sizes: --input-shapes "{stated}"'


def _check_shapes(shapes: Mapping[str, tuple[int, ...]], module: Module) -> None:
    """Raise unless the given shapes are the model's: a file that states shapes has no others."""
    own = {tensor.name: tensor.shape for tensor in module.inputs}
    for name, shape in shapes.items():
        if name not in own:
            raise InputError(
                f"--input-shapes names {name!r}, which is not an input{nearest(name, own)}",
                f"the inputs are {', '.join(own)}",
            )
        if own[name] != shape:
            raise InputError(
                f"--input-shapes gives {name} as {list(shape)}, but it is {list(own[name])}",
                "convert the model with that shape: shapes are fixed in it",
            )


def _save_shared_object(library: ModelLibrary, output: Path) -> None:
    """Write a shared object, regardless of the suffix of its name."""
    with TemporaryFolder("tvmc") as folder:
        made = host.export_library(library, Path(folder) / "module.so")
        write_file(output, made.read_bytes())


def _sources(library: ModelLibrary) -> str:
    """Return the C files of a library as one text, each after its path."""
    return "\n".join(
        f"/* {path} */\n{library.files[path].decode('utf-8', 'replace')}"
        for path in sorted(library.files)
        if path.startswith("codegen/host/src/")
    )


# -- micro -------------------------------------------------------------------------------------


def create_command(args: argparse.Namespace, console: Console) -> int:
    """Create a firmware project for the archive's models (``tvmc micro create``).

    Raise :class:`InputError` for a missing option or file, or an existing project.
    """
    check_platform(args.platform, args.template_dir)
    options = parse_options(args.project_option)
    _log_notes(options.notes, console)
    if options.board is None:
        raise InputError(
            "Option 'board' is required but was not specified.",
            "add --project-option board=B, a board of `hil boards` or a file",
        )
    board = find_board(options.board)
    folder = Path(args.project_dir)
    if not Path(args.MLF).exists():
        raise InputError(f"MLF file {args.MLF} does not exist!", "make it with hil tvmc compile")
    library = _with_code(ModelLibrary.load(args.MLF), args, options, console)
    if folder.exists():
        if not args.force:
            raise InputError(
                "The specified project dir already exists. "
                "To force overwriting it use '-f' or '--force'.",
                f"it is {folder}",
            )
        # Replace only projects, whatever the folder's name.
        load_project(folder)
    project = Project(folder, args.platform, board)
    create_project([library], board, folder, force=args.force)
    library.save(folder / ARCHIVE, force=args.force)
    project.save()
    console.log("note: for every platform, the project is this program's own firmware")
    models = ", ".join(module.name for module in library.modules)
    console.result(
        TvmcProjectEntry(str(folder), board.name, tuple(m.name for m in library.modules)),
        f"{folder}: {models} on {board.name}",
    )
    return 0


def _with_code(
    library: ModelLibrary, args: argparse.Namespace, options: ProjectOptions, console: Console
) -> ModelLibrary:
    """Return the library with additional code of flags and project options."""
    include_dirs, sources = [*args.include_dir], [*args.source]
    if options.cmsis_path is not None:
        if calls_cmsis_nn(library):
            root = cmsis_nn_folder(options.cmsis_path)
            include_dirs.append(str(root / "Include"))
            sources.append(str(root / "Source"))
        else:
            console.log("note: project option cmsis_path has no effect: no code calls CMSIS-NN")
    return library.with_code(include_dirs, sources) if include_dirs or sources else library


def build_command(args: argparse.Namespace, console: Console) -> int:
    """Build a project (``tvmc micro build``).

    Raise :class:`InputError` if the project was changed since it was created.
    """
    check_platform(args.platform, args.template_dir)
    options = parse_options(args.project_option)
    _log_notes(options.notes, console)
    project = load_project(args.project_dir)
    edited = edited_files(project.folder)
    if edited and not args.force:
        raise InputError(
            f"{project.folder} was changed since it was created ({', '.join(edited[:3])}), and "
            "a build would overwrite the changes",
            "build it with `cmake --preset firmware && cmake --build --preset firmware` there, or "
            "drop the changes with --force",
        )
    firmware = build([project.library()], project.board, project.folder, force=args.force)
    sizes = firmware.sizes
    console.result(
        TvmcBuildEntry(
            project=str(project.folder),
            board=project.board.name,
            elf=str(firmware.elf),
            flash_bytes=sizes.flash_bytes,
            ram_bytes=sizes.ram_bytes,
        ),
        f"{firmware.elf}: flash {sizes.flash_bytes:,}, RAM {sizes.ram_bytes:,}",
    )
    return 0


def flash_command(args: argparse.Namespace, console: Console) -> int:
    """Program a board through a probe (``tvmc micro flash``); emulators load the image."""
    check_platform(args.platform, args.template_dir)
    options = parse_options(args.project_option)
    _log_notes(options.notes, console)
    project = load_project(args.project_dir)
    firmware = _built(project)
    entry = TvmcFlashEntry(str(project.folder), project.board.name, programmed=False)
    if options.probe is None and project.board.default_runner not in project.board.flashers:
        console.result(
            entry,
            f"{project.board.name} is started by {project.board.default_runner}, which loads "
            f"{firmware.elf} itself; start it with hil tvmc run --device micro",
        )
        return 0
    done = flash_image(
        project.board, firmware.elf, Connection(options.probe, options.port), console
    )
    console.result(
        replace(entry, programmed=done.programmed),
        f"{project.board.name} runs {firmware.elf}: {done.text}",
    )
    return 0


def _built(project: Project) -> Firmware:
    """Return the firmware of a project that was not changed since it was built."""
    firmware = project.firmware()
    if firmware is None:
        raise NoBuildError(
            f"Could not find a build in {project.folder}",
            f"run hil tvmc micro build {project.folder} {project.platform}",
        )
    if changed := changed_files(project.folder):
        raise NoBuildError(
            f"{project.folder} was changed since it was built: {', '.join(changed[:3])}",
            "run hil tvmc micro build --force, which drops the changes",
        )
    return firmware


def _log_notes(notes: Sequence[str], console: Console) -> None:
    for note in notes:
        console.log(f"note: {note}")


# -- run ---------------------------------------------------------------------------------------


class _Runnable(Protocol):
    """A model in this process or on a board."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...
    def set_input(self, name: str | int, array: Array, /) -> None: ...
    def get_output(self, name: str | int, /) -> Array: ...


def run_command(args: argparse.Namespace, console: Console) -> int:
    """Run a model (``tvmc run``)."""
    repeat, number = _count(args.repeat, "--repeat"), _count(args.number, "--number")
    top = _count(args.print_top, "--print-top") if args.print_top is not None else 0
    _check_run_flags(args)
    if args.outputs:
        check_file(args.outputs, kind="a file of outputs", is_own=is_saved)
    with _opened(args, console) as (model, measured):
        inputs = _inputs(args, model.inputs)

        def once(runs: int) -> float:
            """Return the seconds per run of ``runs`` runs."""
            start = time.perf_counter()
            # Set the inputs before each measurement, since a run may overwrite them.
            for name, array in inputs.items():
                model.set_input(name, array)
            seconds = measured(runs)
            if args.end_to_end:
                for index in range(len(model.outputs)):
                    model.get_output(index)
                seconds = (time.perf_counter() - start) / runs
            return seconds

        times = [once(number) for _ in range(repeat)] if args.print_time else []
        once(1)
        outputs = {
            f"output_{index}": model.get_output(index) for index in range(len(model.outputs))
        }
    if args.outputs:
        save_arrays(args.outputs, outputs)
    largest = _largest(outputs["output_0"], top) if top else None
    top_values = None
    if largest is not None:
        top_values = tuple(TopValue(int(i), json_number(v.item())) for i, v in largest)
    entry = TvmcRunEntry(tensor_values(outputs), tuple(times), top_values)
    console.result(entry, "\n".join(_run_lines(outputs, times, largest)))
    return 0


def _count(text: str, flag: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{flag} {text} is not a whole number above 0", f"write {flag} 1")
    return int(text)


def _check_run_flags(args: argparse.Namespace) -> None:
    if args.device not in DEVICES:
        raise InputError(
            f"the device {args.device!r} is not offered{nearest(args.device, DEVICES)}",
            f"choose {' or '.join(DEVICES)}",
        )
    if args.fill_mode not in FILL_MODES:
        raise InputError(
            f"--fill-mode {args.fill_mode} does not exist{nearest(args.fill_mode, FILL_MODES)}",
            f"choose one of {', '.join(FILL_MODES)}",
        )
    if args.profile:
        raise InputError("--profile is not offered", "use hil bench --per-layer")
    if args.rpc_key or args.rpc_tracker:
        raise InputError(
            "--rpc-key and --rpc-tracker are not offered: hil has no RPC tracker",
            "give a board's port with --project-option port=URL",
        )


@contextmanager
def _opened(
    args: argparse.Namespace, console: Console
) -> Iterator[tuple[_Runnable, Callable[[int], float]]]:
    """Yield the model and a function that runs it N times and returns the seconds per run."""
    options = parse_options(args.project_option)
    _log_notes(options.notes, console)
    if args.device == "cpu":
        if args.project_option:
            raise InputError(
                "--project-option applies to boards, but the device is cpu", "add --device micro"
            )
        if args.include_dir or args.source:
            raise InputError(
                "--include-dir and --source apply to archives, but the device is cpu",
                "add --device micro",
            )
        with host.load_module(args.PATH)[host.DEFAULT](host.cpu()) as executor:

            def run_here(runs: int) -> float:
                start = time.perf_counter()
                for _ in range(runs):
                    executor.run()
                return (time.perf_counter() - start) / runs

            yield executor, run_here
        return
    firmware = _firmware(args, options, console)
    with open_firmware(firmware, port=options.port, probe=options.probe) as device:
        device.log = lambda text: console.log(f"{firmware.board.name}: {text}")
        model = device[_only_model(firmware)]

        def run_there(runs: int) -> float:
            return _seconds(device, model.run(runs).ticks) / runs

        yield model, run_there


def _firmware(args: argparse.Namespace, options: ProjectOptions, console: Console) -> Firmware:
    """Return the firmware of a built project, or build an archive for the options' board."""
    path, board = args.PATH, options.board
    if Path(path).is_dir():
        if args.include_dir or args.source:
            raise InputError(
                "--include-dir and --source apply to archives; a project has its own code",
                "give them to hil tvmc micro create",
            )
        project = load_project(path)
        if board is not None and find_board(board).name != project.board.name:
            raise InputError(
                f"the project is for {project.board.name}, not {board}", "create another project"
            )
        return _built(project)
    if not Path(path).exists():
        raise InputError(f"{path} does not exist", "give a project folder")
    if board is None:
        raise InputError(
            f"{path} is an archive without a board",
            "create a project, or add --project-option board=B",
        )
    library = _with_code(ModelLibrary.load(path), args, options, console)
    return build([library], find_board(board))


def _only_model(firmware: Firmware) -> str:
    names = [module.name for library in firmware.libraries for module in library.modules]
    if len(names) != 1:
        raise InputError(
            f"the firmware has the models {', '.join(names)}, but tvmc runs one",
            "use hil run, which runs all of them",
        )
    return names[0]


def _seconds(device: Device, ticks: int) -> float:
    return ticks / device.hello.ticks_hz


def _inputs(args: argparse.Namespace, tensors: Sequence[TensorInfo]) -> dict[str, Array]:
    """Return the inputs of the file; the fill mode gives the others."""
    given = load_arrays(Path(args.inputs)) if args.inputs else {}
    known = {tensor.name: tensor for tensor in tensors}
    for name in given:
        if name not in known:
            raise InputError(
                f"the input tensor {name!r} of {args.inputs} is not in the model"
                f"{nearest(name, known)}",
                f"the inputs are {', '.join(known)}",
            )
    random = random_sample(tensors, 0, 0)
    inputs: dict[str, Array] = {}
    for name, tensor in known.items():
        if name in given:
            samples = split_samples(given[name], tensor, f"{args.inputs}: array {name!r}")
            if len(samples) != 1:
                raise InputError(
                    f"{args.inputs} contains {len(samples)} samples for {name!r}, but one is run",
                    "use hil verify --inputs for several",
                )
            inputs[name] = samples[0]
        elif args.fill_mode == "random":
            inputs[name] = random[name]
        else:
            value = 0 if args.fill_mode == "zeros" else 1
            inputs[name] = np.full(tensor.shape, value, np.dtype(tensor.dtype))
    return inputs


def _largest(array: Array, count: int) -> list[tuple[int, Any]]:
    """Return positions and values of the largest elements, in descending order and stable."""
    flat = array.ravel()
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:count]
    return [(int(index), flat[index]) for index in order]


def _run_lines(
    outputs: Mapping[str, Array], times: Sequence[float], largest: list[tuple[int, Any]] | None
) -> Iterator[str]:
    if times:
        milliseconds = np.asarray(times) * 1000
        names = ("mean", "median", "max", "min", "std")
        yield "Execution time summary:"
        yield " ".join(f"{f'{name} (ms)':^12}" for name in names)
        yield " ".join(f"{getattr(np, name)(milliseconds):^12.4f}" for name in names)
        yield ""
    if largest is not None:
        # Two rows, in tvmc's format.
        yield str(np.array([[i for i, _ in largest], [v.item() for _, v in largest]]))
    if not times and largest is None:
        for name, array in outputs.items():
            yield f"{name}: {array.dtype}{list(array.shape)}"
