"""``esp-idf``: a component of Espressif's IoT Development Framework."""

from __future__ import annotations

import json

from hil.errors import InputError
from hil.export.example import SAMPLES, program, samples_header
from hil.export.package import FLAGS, About, Package
from hil.export.readme import call_of, readme
from hil.export.registry import ExportFormat, register_export
from hilc.target import Cpu


def _check(cpu: Cpu, about: About) -> None:
    if cpu.isa == "arm":
        raise InputError(
            f"ESP-IDF is for chips with Xtensa and RISC-V cores, and {cpu.name} is Arm's",
            "drop --cpu and --board, for code of any core, or choose --cpu rv32imac",
        )


def _files(package: Package) -> dict[str, bytes]:
    _check(package.cpu, package.about)
    example = f"examples/{package.slug}"
    files = package.code() | package.common_files(readme(package, _use(package), _FLAGS_ARE_SET))
    texts = {
        "CMakeLists.txt": _lists(package),
        "idf_component.yml": _manifest(package),
        f"{example}/CMakeLists.txt": _example(package),
        f"{example}/main/CMakeLists.txt": 'idf_component_register(SRCS main.c INCLUDE_DIRS ".")\n',
    }
    files |= {path: text.encode() for path, text in texts.items()}
    files[f"{example}/main/main.c"] = program(
        package, say="(void)puts(text);", main="void app_main(void) { (void)run_all(); }\n"
    )
    files[f"{example}/main/{SAMPLES}"] = samples_header(package)
    return files


_FLAGS_ARE_SET = "`CMakeLists.txt` sets both for the library's own sources."


def _use(package: Package) -> str:
    return f"""\
Copy the folder into `components` of your project and call it `{package.slug}`, or name its path as
a dependency in `idf_component.yml`:

```yaml
dependencies:
  {package.slug}:
    path: PATH/TO/THIS/FOLDER
```

{call_of(package)}; the example does, and compares the outputs with the reference's:

```sh
cd examples/{package.slug}
idf.py set-target esp32c3 build flash monitor
```
"""


def _lists(package: Package) -> str:
    sources = "\n       ".join(package.source_paths())
    return f"""\
# {package.sentence}
idf_component_register(
  SRCS {sources}
  INCLUDE_DIRS include)

# The models' speed, whatever the project's setting. GCC 12 without the second flag leaves out
# layers that it takes for accesses to address 0.
target_compile_options(${{COMPONENT_LIB}} PRIVATE {" ".join(FLAGS)})
"""


def _manifest(package: Package) -> str:
    # A text in JSON is one in YAML, too.
    lines = [
        f"version: {json.dumps(package.version)}",
        f"description: {json.dumps(package.sentence)}",
        f"license: {json.dumps(package.license)}",
        f"maintainers:\n  - {json.dumps(package.about.author)}",
        'dependencies:\n  idf: ">=4.4"',
        f"examples:\n  - path: ./examples/{package.slug}",
    ]
    if package.about.url:
        lines.insert(2, f"url: {json.dumps(package.about.url)}")
    return "\n".join(lines) + "\n"


def _example(package: Package) -> str:
    return f"""\
cmake_minimum_required(VERSION 3.16)

# The component that this example is of.
set(EXTRA_COMPONENT_DIRS "${{CMAKE_CURRENT_LIST_DIR}}/../..")
include($ENV{{IDF_PATH}}/tools/cmake/project.cmake)
project({package.slug}_example)
"""


register_export(ExportFormat("esp-idf", _files, _check))
