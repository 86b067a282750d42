#!/usr/bin/env python3
"""Checks an exported library with its ecosystem's own tools; ``exports.py`` runs it.

It runs in an environment of its own, with the packages of :data:`PACKAGES`: they need other
versions of packages than the harness does. Nothing is fetched: where a tool would ask a server, it
is given what the server has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

#: What the checks need, at the versions that they were written for.
PACKAGES = (
    "idf-component-manager==3.1.2",
    "kconfiglib==14.1.0",
    "platformio==6.2.0",
    "pykwalify==1.8.0",
    "scons==4.11.1",
    "west==1.5.0",
)
_LIMIT_S = 300.0

# PlatformIO takes SCons and the description of a platform from its registry: here SCons is that of
# PyPI, and the platform is as much of `native` as builds a program.
_SCONS = "import SCons.Script\nSCons.Script.main()\n"
_SCONS_VERSION = "4.41101.0"
_PLATFORM = {
    "platform.json": '{"name": "native", "title": "native", "version": "1.0.0", '
    '"description": "this machine", "license": "Apache-2.0"}',
    "platform.py": "from platformio.public import PlatformBase\n\n\n"
    "class NativePlatform(PlatformBase):\n    pass\n",
    "builder/main.py": "from SCons.Script import Default, DefaultEnvironment\n"
    "env = DefaultEnvironment()\n"
    'for tool in ("gcc", "g++", "ar", "gnulink"):\n    env.Tool(tool)\n'
    'env.Replace(PROGNAME="program")\nDefault([env.BuildProgram()])\n',
}
#: The keys of ``zephyr/module.yml`` that a library may have, as Zephyr documents them.
_MODULE = {
    "type": "map",
    "mapping": {
        "name": {"type": "str"},
        "build": {
            "type": "map",
            "mapping": {"cmake": {"type": "str"}, "kconfig": {"type": "str"}},
        },
        "samples": {"type": "seq", "sequence": [{"type": "str"}]},
    },
}


def run(*words: object, cwd: Path | None = None, **environment: str) -> str:
    """Return what a command prints; it must succeed."""
    command = [str(word) for word in words]
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT_S,
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def tool(name: str) -> Path:
    """Return a program of this environment."""
    return Path(sys.executable).with_name(name)


def check_platformio(library: Path, work: Path) -> str:
    """Let PlatformIO check the manifest, pack the library, and build and run its example."""
    from platformio.package.manifest import schema
    from platformio.package.manifest.parser import ManifestParserFactory
    from platformio.package.pack import PackagePacker

    # The list of licenses is on a server.
    schema.ManifestSchema.load_spdx_licenses = staticmethod(
        lambda: {"licenses": [{"licenseId": "Apache-2.0"}]}
    )
    parsed = ManifestParserFactory.new_from_dir(str(library)).as_dict()
    schema.ManifestSchema().load_manifest(parsed)
    with tarfile.open(PackagePacker(str(library)).pack(str(work / "library.tar.gz"))) as packed:
        names = packed.getnames()
    assert "library.json" in names, names

    core, platform, project = work / "core", work / "platform", work / "project"
    scons = core / "packages" / "tool-scons"
    scons.mkdir(parents=True)
    (scons / "scons.py").write_text(_SCONS)
    about = f'"name": "tool-scons", "version": "{_SCONS_VERSION}"'
    (scons / "package.json").write_text(f"{{{about}}}")
    spec = '"spec": {"owner": "platformio", "id": null, "name": "tool-scons", '
    (scons / ".piopm").write_text(
        f'{{"type": "tool", {about}, {spec}"requirements": null, "uri": null}}}}'
    )
    for path, text in _PLATFORM.items():
        (platform / path).parent.mkdir(parents=True, exist_ok=True)
        (platform / path).write_text(text)
    (example,) = (library / "examples").iterdir()
    shutil.copytree(example, project)
    settings = (project / "platformio.ini").read_text()
    settings = settings.replace("platform = native", f"platform = symlink://{platform}")
    (project / "platformio.ini").write_text(
        settings.replace("symlink://../..", f"symlink://{library}")
    )
    said = run(
        *(tool("pio"), "run", "-v", "-d", project),
        PLATFORMIO_CORE_DIR=str(core),
        PLATFORMIO_SETTING_ENABLE_TELEMETRY="no",
    )
    compiled = [line for line in said.splitlines() if "_lib1.c" in line and " -c " in line]
    assert compiled, said
    assert all("-O2 -fno-delete-null-pointer-checks" in line for line in compiled), compiled
    assert "warning:" not in said, said
    return run(next(project.rglob("program"))).splitlines()[-1]


def check_arduino(library: Path, work: Path) -> str:
    """Let PlatformIO, which reads Arduino's manifests too, read this one."""
    from platformio.package.manifest.parser import ManifestParserFactory

    parsed = ManifestParserFactory.new_from_dir(str(library)).as_dict()
    assert parsed["frameworks"] == ["arduino"], parsed
    return f"library.properties of {parsed['name']} {parsed['version']}"


def check_esp_idf(library: Path, work: Path) -> str:
    """Let Espressif's component manager check the manifest and pack the component."""
    from idf_component_tools.manager import ManifestManager

    manifest = ManifestManager(str(library), library.name).validate().load()
    copy = work / "component"
    shutil.copytree(library, copy)
    words = ("component", "pack", "--name", "digits", "--project-dir", copy)
    run(tool("compote"), "--warnings-as-errors", *words)
    packed = copy / "dist" / f"digits_{manifest.version}.tgz"
    with tarfile.open(packed) as archive:
        names = [name.removeprefix("./") for name in archive.getnames()]
    for name in ("idf_component.yml", "CMakeLists.txt", "include/tvmgen_digits.h"):
        assert name in names, names
    return f"component {manifest.version}"


def check_zephyr(library: Path, work: Path) -> str:
    """Let west fetch the module into a workspace, and Kconfig's parser read its option."""
    import kconfiglib
    import yaml
    from pykwalify.core import Core

    module = yaml.safe_load((library / "zephyr" / "module.yml").read_text())
    Core(source_data=module, schema_data=_MODULE).validate()
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=no")
    origin, manifest = work / "origin", work / "workspace" / "manifest"
    shutil.copytree(library, origin)
    manifest.mkdir(parents=True)
    (manifest / "west.yml").write_text(
        "manifest:\n  projects:\n    - name: digits\n      revision: main\n"
        f"      url: file://{origin}\n      path: modules/digits\n"
    )
    for folder in (origin, manifest):
        run("git", "init", "-q", "-b", "main", cwd=folder)
        run("git", "add", "-A", cwd=folder)
        run(*git, "commit", "-q", "-m", "first", cwd=folder)
    west = tool("west")
    run(west, "init", "-l", manifest)
    run(west, "update", cwd=manifest)
    fetched = manifest.parent / "modules" / "digits"
    assert (fetched / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    # The parser takes a path with a space for several.
    kconfig = kconfiglib.Kconfig(str(fetched / module["build"]["kconfig"]))
    for sample in (fetched / "samples").iterdir():
        kconfig.load_config(str(sample / "prj.conf"))
        assert not kconfig.warnings, kconfig.warnings
    on = [s.name for s in kconfig.unique_defined_syms if s.str_value == "y"]
    assert len(on) == 1, on
    return f"module of west, {on[0]}=y"


CHECKS = {
    "platformio": check_platformio,
    "arduino": check_arduino,
    "esp-idf": check_esp_idf,
    "zephyr": check_zephyr,
}


def main() -> None:
    """Check the library of a format in a folder: ``export_tools.py FORMAT FOLDER``."""
    name, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as work:
        print(CHECKS[name](folder, Path(work).resolve()))


if __name__ == "__main__":
    main()
