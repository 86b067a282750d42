"""Writes and checks bills of materials in CycloneDX; ``ci/audit.py`` runs it in its environment.

``bom.py image COMPONENTS.json OUT.json`` writes the bill of an image from what it is made of,
``bom.py check FILE.json`` holds a bill against the schema of its version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

_VERSIONS = {version.to_version(): version for version in SchemaVersion}


def write(components: Path, output: Path) -> None:
    """Write the bill of the components that ``ci/audit.py`` found."""
    found = json.loads(components.read_text())
    bom = Bom()
    whole = bom.metadata.component = _component(found["image"], ComponentType.FIRMWARE)
    parts = [_component(part, ComponentType.LIBRARY) for part in found["parts"]]
    bom.components.update(parts)
    bom.register_dependency(whole, parts)
    output.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n")


def _component(about: dict[str, str], kind: ComponentType) -> Component:
    return Component(
        type=kind,
        name=about["name"],
        version=about["version"],
        description=about["description"],
        bom_ref=about["name"],
        licenses=[DisjunctiveLicense(id=about["license"])]
        if "license" in about
        else [DisjunctiveLicense(name=about["terms"])],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=about["sha256"])]
        if "sha256" in about
        else [],
        properties=[Property(name="hil:flash_bytes", value=str(about["bytes"]))]
        if "bytes" in about
        else [],
    )


def check(path: Path) -> int:
    """Return 1, and say why, if the bill does not fit its schema."""
    text = path.read_text()
    version = _VERSIONS[json.loads(text)["specVersion"]]
    error = JsonStrictValidator(version).validate_str(text)
    count = len(json.loads(text).get("components", []))
    print(f"{path}: CycloneDX {version.to_version()}, {count} components: {error or 'valid'}")
    return 1 if error else 0


if __name__ == "__main__":
    if sys.argv[1] == "image":
        write(Path(sys.argv[2]), Path(sys.argv[3]))
    sys.exit(check(Path(sys.argv[-1])))
