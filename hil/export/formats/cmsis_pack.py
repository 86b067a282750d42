"""``cmsis-pack``: a software pack of Open-CMSIS-Pack, as a folder and packed."""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Mapping
from xml.etree import ElementTree

from hil.errors import InputError
from hil.export.example import SAMPLES, c_program, samples_header
from hil.export.formats.prologue import FLAGS_ARE_NOT_SET, PROLOGUE
from hil.export.package import FLAGS, About, Package
from hil.export.readme import call_of, readme
from hil.export.registry import ExportFormat, register_export
from hilc.target import Cpu

#: The version of the format whose elements are used, which tools since 2020 read.
_SCHEMA = "1.7.2"
#: The earliest date that a ZIP file can hold.
_DATE = (1980, 1, 1, 0, 0, 0)
_CLASS, _GROUP = "Machine Learning", "Model"


def _check(cpu: Cpu, about: About) -> None:
    if cpu.isa == "riscv":
        raise InputError(
            f"a CMSIS pack is for Arm's cores, and {cpu.name} is none",
            "choose a Cortex-M (--cpu), or another format",
        )


def _files(package: Package) -> dict[str, bytes]:
    _check(package.cpu, package.about)
    files = package.code(prologue=PROLOGUE)
    text = FLAGS_ARE_NOT_SET.format(
        system="A pack", level=": `-O2` for the component with `misc` of a csolution project"
    )
    files |= package.common_files(readme(package, _use(package), text))
    files["template/main.c"] = c_program(package)
    files[f"template/{SAMPLES}"] = samples_header(package)
    files[f"{_stem(package)}.pdsc"] = _description(package, files)
    files[f"{_stem(package)}.{package.version}.pack"] = _packed(files)
    return files


def _stem(package: Package) -> str:
    return f"{package.about.vendor}.{package.title}"


def _use(package: Package) -> str:
    stem = _stem(package)
    flags = "\n".join(f"            - {flag}" for flag in FLAGS)
    return f"""\
```sh
cpackget add {stem}.{package.version}.pack      # or the folder: cpackget add {stem}.pdsc
```

Select the component in your IDE, or in a csolution project:

```yaml
project:
  components:
    - component: {_CLASS}:{_GROUP}:{package.title}
      misc:
        - for-compiler: GCC
          C:
{flags}
```

{call_of(package)}. The user code template *Self test of {package.title}* (`template/main.c`)
does, and compares the outputs with the reference's.
"""


def _description(package: Package, files: Mapping[str, bytes]) -> bytes:
    """Return the pack description, ``VENDOR.NAME.pdsc``."""
    root = ElementTree.Element(
        "package",
        {
            "schemaVersion": _SCHEMA,
            "xmlns:xs": "http://www.w3.org/2001/XMLSchema-instance",
            "xs:noNamespaceSchemaLocation": "PACK.xsd",
        },
    )

    def add(
        parent: ElementTree.Element, tag: str, text: str = "", **attributes: str
    ) -> ElementTree.Element:
        element = ElementTree.SubElement(parent, tag, attributes)
        element.text = text or None
        return element

    add(root, "vendor", package.about.vendor)
    add(root, "name", package.title)
    add(root, "description", package.sentence)
    # Empty for a pack that no server offers.
    add(root, "url", package.about.url)
    add(root, "license", "LICENSE")
    releases = add(root, "releases")
    add(releases, "release", package.sentence, version=package.version)
    keywords = add(root, "keywords")
    for word in ("neural network", "TinyML", *(module.name for module in package.modules)):
        add(keywords, "keyword", word)
    taxonomy = add(root, "taxonomy")
    add(taxonomy, "description", "Neural networks in C", Cclass=_CLASS, Cgroup=_GROUP)
    conditions = add(root, "conditions")
    compiler = add(conditions, "condition", id="compiler and core")
    add(compiler, "description", "A compiler with GCC's extensions" + _core(package))
    add(compiler, "accept", Tcompiler="GCC")
    add(compiler, "accept", Tcompiler="ARMCC", Toptions="AC6")
    add(compiler, "accept", Tcompiler="CLANG")
    if package.needs_helium:
        add(compiler, "require", condition="Helium")
        helium = add(conditions, "condition", id="Helium")
        add(helium, "description", "A core with Helium")
        for feature in ("FP_MVE",) if package.needs_helium_floats else ("MVE", "FP_MVE"):
            add(helium, "accept", Dmve=feature)
    components = add(root, "components")
    component = add(
        components,
        "component",
        Cclass=_CLASS,
        Cgroup=_GROUP,
        Csub=package.title,
        Cversion=package.version,
        condition="compiler and core",
    )
    add(component, "description", package.sentence)
    listed = add(component, "files")
    add(listed, "file", category="doc", name="README.md")
    add(listed, "file", category="include", name="include/")
    for header in sorted(package.headers):
        add(listed, "file", category="header", name=posixpath.join("include", header))
    for source in package.source_paths():
        add(listed, "file", category="sourceC", name=source)
    template = {"attr": "template", "select": f"Self test of {package.title}"}
    add(listed, "file", category="sourceC", name="template/main.c", **template)
    add(listed, "file", category="header", name=f"template/{SAMPLES}", **template)
    for element in listed:
        name = element.attrib["name"]
        assert name in files or any(path.startswith(name) for path in files), name
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _core(package: Package) -> str:
    return ", and a core with Helium" if package.needs_helium else ""


def _packed(files: Mapping[str, bytes]) -> bytes:
    """Return the files as a ZIP file whose bytes depend on them alone."""
    stream = io.BytesIO()
    # Not compressed: what deflate writes differs from one zlib to the next.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, _DATE)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data)
    return stream.getvalue()


register_export(ExportFormat("cmsis-pack", _files, _check))
