"""``arduino``: a library of the Arduino IDE, in the format of its revision 1.5."""

from __future__ import annotations

from hil.errors import InputError
from hil.export.example import SAMPLES, program, samples_header
from hil.export.formats.prologue import FLAGS_ARE_NOT_SET, PROLOGUE
from hil.export.package import About, Package
from hil.export.readme import readme
from hil.export.registry import ExportFormat, register_export
from hilc.target import Cpu

#: The manifest must have an address: this one is reserved for examples.
PLACEHOLDER = "https://example.com"


def _check(cpu: Cpu, about: About) -> None:
    """Raise for a name that only Arduino's own libraries may have."""
    if about.name is not None and about.name.lower().startswith("arduino"):
        raise InputError(
            f"the library's name {about.name!r} begins with Arduino, which is kept for Arduino's "
            "own libraries",
            "choose another one: --library NAME",
        )


def _files(package: Package) -> dict[str, bytes]:
    _check(package.cpu, package.about)
    title = package.title
    # Arduino compiles what is below src, and has no other include path than src itself.
    files = package.code(include="src", source="src", prologue=PROLOGUE)
    text = FLAGS_ARE_NOT_SET.format(
        system="Arduino",
        level=": `-Os` unless the board's menu offers another; with it models take 2 to 10 % more "
        "instructions than with `-O2`",
    )
    files |= package.common_files(readme(package, _use(package), text))
    example = f"examples/{title}"
    files["library.properties"] = _properties(package).encode()
    files["keywords.txt"] = _keywords(package).encode()
    if _has_own_header(package):
        files[f"src/{title}.h"] = _header(package).encode()
    files[f"{example}/{title}.ino"] = program(
        package, [f"<{_main_header(package)}>"], say="Serial.println(text);", main=_MAIN
    )
    files[f"{example}/{SAMPLES}"] = samples_header(package)
    return files


def _has_own_header(package: Package) -> bool:
    """Return whether the library has a header of its own: a model's may have its name, which file
    systems without upper and lower case do not distinguish.
    """
    return f"{package.title}.h".lower() not in {name.lower() for name in package.headers}


def _main_header(package: Package) -> str:
    if _has_own_header(package):
        return f"{package.title}.h"
    return next(name for name in package.headers if name.lower() == f"{package.title}.h".lower())


_MAIN = """\
void setup() {
    Serial.begin(115200);
    while (!Serial && millis() < 5000) {
        /* a board with USB of its own needs a moment */
    }
}

void loop() {
    (void)run_all();
    delay(2000);
}
"""


def _use(package: Package) -> str:
    module = package.modules[0].symbol
    return f"""\
Copy the folder into `libraries` of your sketchbook and call it `{package.title}`, or zip it and
choose *Sketch > Include Library > Add .ZIP Library*. The example, *File > Examples >
{package.title}*, runs each model, compares the outputs with the reference's, and prints over the
serial line at 115,200 baud.

Include `{_main_header(package)}` and call `{module}_run`. The library needs a core of 32 bits: it
does not compile for AVR.
"""


def _properties(package: Package) -> str:
    about = package.about
    values = {
        "name": package.title,
        "version": package.version,
        "author": about.author,
        "maintainer": about.author,
        "sentence": package.sentence,
        "paragraph": "It needs no run time and no heap. Written by hil.",
        "category": "Data Processing",
        "url": about.url or PLACEHOLDER,
        "architectures": "*",
        "includes": _main_header(package),
        "license": package.license,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _keywords(package: Package) -> str:
    # The columns are separated by tabs.
    names = [f"{module.symbol}_run" for module in package.modules]
    names += [f"{m.symbol}_reset_state" for m in package.modules if m.states]
    return "".join(f"{name}\tKEYWORD2\n" for name in names)


def _header(package: Package) -> str:
    guard = f"{package.slug.upper()}_H_"
    models = "".join(f'#include "{module.symbol}.h"\n' for module in package.modules)
    return (
        f"/* {package.sentence} */\n#ifndef {guard}\n#define {guard}\n\n{models}\n"
        f"#endif /* {guard} */\n"
    )


register_export(ExportFormat("arduino", _files, _check))
