"""``zephyr``: a module of Zephyr with a Kconfig option and a sample."""

from __future__ import annotations

from hil.export.example import SAMPLES, c_program, samples_header
from hil.export.package import FLAGS, Package
from hil.export.readme import call_of, readme
from hil.export.registry import ExportFormat, register_export


def _files(package: Package) -> dict[str, bytes]:
    name, sample = package.slug, f"samples/{package.slug}"
    files = package.code() | package.common_files(readme(package, _use(package), _FLAGS_ARE_SET))
    texts = {
        "zephyr/module.yml": _module(name),
        "zephyr/CMakeLists.txt": _lists(package),
        "zephyr/Kconfig": _kconfig(package),
        f"{sample}/CMakeLists.txt": _sample_lists(name),
        f"{sample}/prj.conf": f"{_symbol(package)}=y\n",
        f"{sample}/sample.yaml": _sample(package),
    }
    files |= {path: text.encode() for path, text in texts.items()}
    files[f"{sample}/src/main.c"] = c_program(package)
    files[f"{sample}/src/{SAMPLES}"] = samples_header(package)
    return files


_FLAGS_ARE_SET = "`zephyr/CMakeLists.txt` sets both for the library's own sources."


def _symbol(package: Package) -> str:
    return f"CONFIG_{_option(package)}"


def _option(package: Package) -> str:
    return f"HIL_{package.slug.upper()}"


def _use(package: Package) -> str:
    name = package.slug
    return f"""\
The folder is a [module of Zephyr](https://docs.zephyrproject.org/latest/develop/modules.html). List
it in the manifest of your workspace (`west.yml`), or name it to the build:

```sh
west build -b BOARD samples/{name}                                  # the sample, from this folder
west build -b BOARD your_app -- -DZEPHYR_EXTRA_MODULES=$PWD/{name}
```

Set `{_symbol(package)}=y` in your `prj.conf`. {call_of(package)}; the sample does, and compares the
outputs with the reference's.
"""


def _module(name: str) -> str:
    return f"""\
name: {name}
build:
  cmake: zephyr
  kconfig: zephyr/Kconfig
samples:
  - samples
"""


def _lists(package: Package) -> str:
    sources = "\n    ".join(f"../{path}" for path in package.source_paths())
    return f"""\
# {package.sentence}
if({_symbol(package)})
  zephyr_include_directories(../include)
  zephyr_library_named({package.slug})
  zephyr_library_sources(
    {sources})
  # GCC 12 without the second flag leaves out layers that it takes for accesses to address 0.
  zephyr_library_compile_options({" ".join(FLAGS)})
endif()
"""


def _kconfig(package: Package) -> str:
    # Zephyr's minimal C library has no mathematics.
    library = "\tselect REQUIRES_FULL_LIBC\n" if package.calls_libm else ""
    return (
        f"config {_option(package)}\n"
        f'\tbool "Neural networks of the library {package.name}"\n'
        f"{library}\thelp\n\t  {package.sentence}\n"
    )


def _sample_lists(name: str) -> str:
    return f"""\
cmake_minimum_required(VERSION 3.20.0)

# The module that this sample is of.
get_filename_component(module ../.. ABSOLUTE)
list(APPEND ZEPHYR_EXTRA_MODULES "${{module}}")
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({name}_sample LANGUAGES C)

target_sources(app PRIVATE src/main.c)
"""


def _sample(package: Package) -> str:
    return f"""\
sample:
  name: {package.title}
  description: Runs each model once and compares its outputs with the reference's
tests:
  sample.{package.slug}.run:
    tags: {package.slug}
    harness: console
    harness_config:
      type: one_line
      regex:
        - "{package.name}: passed"
"""


register_export(ExportFormat("zephyr", _files))
