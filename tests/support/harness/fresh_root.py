"""The steps of a Dockerfile in a fresh root of Debian, where no Docker daemon is.

:func:`bootstrapped` makes the root by ``debootstrap``, and :func:`run` runs a command in it as
``RUN`` does: in a mount namespace of its own, so that no mount is left. Packages come from the same
places as this machine's: its sources of apt, and its configuration of pip and of certificates. This
needs root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_CONFIGURED = ("/etc/pip.conf", "/etc/xdg/pip")
#: This machine's certificates, and where they are in the root: its packages have their own.
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_BOUND_CERTIFICATES = "/run/ca-certificates.crt"
_NAME_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SOURCES = ("etc/apt/sources.list", "etc/apt/sources.list.d", "etc/resolv.conf")
_PASSED = re.compile(r"PIP_\w+|\w*_PROXY|\w*_proxy")
_LIMIT_S = 3600


def is_possible() -> bool:
    """Whether this user can make a fresh root."""
    return os.geteuid() == 0 and shutil.which("debootstrap") is not None


def bootstrapped(folder: Path, release: str) -> None:
    """Make a root of a release of Debian in ``folder``, with this machine's sources of apt."""
    words = ["debootstrap", "--variant=minbase", release, str(folder), _mirror()]
    subprocess.run(words, check=True, timeout=_LIMIT_S, stdout=subprocess.DEVNULL)
    (folder / "etc/apt/sources.list").unlink(missing_ok=True)
    for name in _SOURCES:
        source, target = Path("/", name), folder / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copyfile(source, target)


def _mirror() -> str:
    """The place of packages of this machine's sources."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(path.read_text() for path in files if path.is_file())
    found = re.search(r"^(?:URIs: |deb (?:\[.*?\] )?)(https?://\S+)", text, re.MULTILINE)
    assert found is not None, "this machine has no sources of apt"
    return found[1]


def run(folder: Path, command: str, workdir: str, variables: Mapping[str, str]) -> str:
    """Run a command in the root; return what it prints. Raise AssertionError where it fails."""
    mounts = [f"mount --rbind /{name} {folder}/{name}" for name in ("proc", "dev")]
    places = {path: path for path in (*_CONFIGURED, *_places_of_pip())}
    places[str(_CERTIFICATES)] = _BOUND_CERTIFICATES
    for path, inside in places.items():
        if not Path(path).exists():
            continue
        target = Path(f"{folder}{inside}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if Path(path).is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.touch()
        mounts.append(f"mount --bind -o ro {path} {target}")
    text = f"mkdir -p {workdir} && cd {workdir} && {command}"
    script = "\n".join(["set -e", *mounts, 'exec chroot "$0" /bin/bash -c "$1"'])
    passed = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    if _CERTIFICATES.is_file():
        passed |= dict.fromkeys(_NAME_CERTIFICATES, _BOUND_CERTIFICATES)
    environment = {"HOME": "/root", **passed, **variables}
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script, str(folder), text],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr[-3000:]}"
    return done.stdout


def _places_of_pip() -> list[str]:
    """Folders of this machine from which pip takes packages."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    text = subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
    found = re.findall(r"(?:file://|[' ])(/[^\s']+)", text)
    folders = [Path(path) for path in found if Path(path).is_dir()]
    # An index beside the files that its pages link to.
    return sorted({str(p.parent if p.name == "simple" else p) for p in folders})
