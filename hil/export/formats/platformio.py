"""``platformio``: a library of PlatformIO with a manifest ``library.json`` and an example."""

from __future__ import annotations

import json
from typing import Any

from hil.export.example import SAMPLES, c_program, samples_header
from hil.export.package import FLAGS, Package
from hil.export.readme import call_of, readme
from hil.export.registry import ExportFormat, register_export


def _files(package: Package) -> dict[str, bytes]:
    example = f"examples/{package.slug}"
    files = package.code() | package.common_files(readme(package, _use(package), _FLAGS_ARE_SET))
    files["library.json"] = (json.dumps(_manifest(package), indent=2) + "\n").encode()
    files[f"{example}/platformio.ini"] = _project(package).encode()
    files[f"{example}/src/main.c"] = c_program(package)
    files[f"{example}/src/{SAMPLES}"] = samples_header(package)
    return files


_FLAGS_ARE_SET = "`library.json` sets both for the library's own sources."


def _use(package: Package) -> str:
    run = (
        "`pio run -t exec` in `examples/{0}` builds and runs the example on this machine."
        if not package.needs_helium
        else "`examples/{0}` is an example: name a board with Helium in its `platformio.ini`."
    )
    return f"""\
```ini
lib_deps = symlink://PATH/TO/THIS/FOLDER     ; or the archive that `pio pkg pack` makes of it
```

{call_of(package)}; the example does, and compares the outputs with the reference's.
{run.format(package.slug)}
"""


def _manifest(package: Package) -> dict[str, Any]:
    about, example = package.about, f"examples/{package.slug}"
    manifest: dict[str, Any] = {
        "$schema": "https://raw.githubusercontent.com/platformio/platformio-core/develop/"
        "platformio/assets/schema/library.json",
        "name": package.title,
        "version": package.version,
        "description": package.sentence,
        "keywords": ["neural network", "tinyml", "machine learning"],
        "authors": [{"name": about.author, "maintainer": True}],
        "frameworks": "*",
        "platforms": "*",
        "headers": [f"{module.symbol}.h" for module in package.modules],
        "examples": [
            {
                "name": package.title,
                "base": example,
                "files": ["platformio.ini", "src/main.c", f"src/{SAMPLES}"],
            }
        ],
        "build": {"srcDir": "src", "includeDir": "include", "flags": list(FLAGS)},
    }
    if about.url:
        manifest["homepage"] = about.url
    # PlatformIO refuses a manifest with a license that SPDX's list does not have.
    if "LicenseRef-" not in package.license:
        manifest["license"] = package.license
    return manifest


def _project(package: Package) -> str:
    library = "lib_deps = symlink://../..\n"
    if package.needs_helium:
        return (
            "; The library needs a core with Helium: name your platform and board.\n"
            f"[env]\n{library}"
        )
    return f"""\
; This machine runs the example: pio run -t exec. For a board, add an environment with its platform,
; board and framework.
[env:native]
platform = native
build_flags = -lm
{library}"""


register_export(ExportFormat("platformio", _files))
