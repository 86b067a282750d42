"""The bill of materials of an exported library, in CycloneDX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

#: File of the library.
BILL = "bom.cdx.json"
_FORMAT = "1.6"


def bill_of_materials(
    name: str,
    version: str,
    models: Sequence[str],
    *,
    terms: str,
    code_license: str,
    model_license: str | None,
    compiler: str,
) -> bytes:
    """Return the bill of a library: its models, and the kernels that their code calls.

    ``terms`` is the SPDX expression of the whole, ``code_license`` and ``model_license`` those of
    its parts, ``compiler`` the version of the compiler, which the kernels have too. Where the
    license of the weights is not known, the bill has none for the models and for the whole. Nothing
    else is linked in; what the toolchain adds is not known before the firmware is linked. Without a
    time or a random number: the same library has the same bill.
    """
    known = model_license is not None
    whole = {
        "type": "library",
        "bom-ref": "library",
        "name": name,
        "version": version,
        **({"licenses": [{"expression": terms}]} if known else {}),
    }
    kernels = {
        "type": "library",
        "bom-ref": "kernels",
        "name": "hil-kernels",
        "version": compiler,
        "description": "kernels in C, as far as the models need them",
        "licenses": [{"expression": code_license}],
    }
    networks = [
        {
            "type": "machine-learning-model",
            "bom-ref": f"model-{model}",
            "name": model,
            "version": version,
            "description": "generated C of the model: its layers and weights",
            **({"licenses": [{"expression": model_license}]} if known else {}),
        }
        for model in models
    ]
    tool = {"type": "application", "name": "hil", "version": compiler}
    bill: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": _FORMAT,
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": whole},
        "components": [kernels, *networks],
        "dependencies": [
            {"ref": "library", "dependsOn": [str(one["bom-ref"]) for one in networks]},
            *({"ref": str(one["bom-ref"]), "dependsOn": ["kernels"]} for one in networks),
            {"ref": "kernels"},
        ],
    }
    return (json.dumps(bill, indent=1) + "\n").encode()
