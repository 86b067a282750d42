"""pyOCD as a library: its messages reach the user, and no file of the working folder reaches it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from hil.access.connection import ProbeInfo
from hil.errors import ProbeError

_LOG = logging.getLogger("hil.access.pyocd")

#: The flasher's name in board files.
NAME = "pyocd"
#: The target of a core whose chip is unknown: it has no flash that pyOCD could program.
GENERIC_TARGET = "cortex_m"
#: Options of every session. pyOCD would take options, a configuration of the log (which can call
#: any function) and a script from files of the working folder, and erase a locked chip.
OPTIONS: Final[Mapping[str, Any]] = {
    "no_config": True,
    "user_script": os.devnull,
    "auto_unlock": False,
    # Its remedy is an option of pyOCD's own command; which target is used, is decided here.
    "warning.cortex_m_default": False,
}


class _AsOwn(logging.Handler):
    """Pass pyOCD's log records on as records of the harness, which its user sees."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record's message."""
        _LOG.log(record.levelno, "pyOCD: %s", record.getMessage())


def prepare() -> None:
    """Call it before anything else of pyOCD."""
    from pyocd.core.session import Session

    # A level that a user set is kept.
    logger = logging.getLogger("pyocd")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    # pyOCD warns of what it changes on a chip.
    if not any(isinstance(handler, _AsOwn) for handler in logger.handlers):
        logger.addHandler(_AsOwn())
    # Its code asks for options also where there is no session; it makes one for them.
    if Session._options_session is None:
        Session._options_session = Session(None, options=OPTIONS, project_dir=os.getcwd())


def connected_probes() -> list[ProbeInfo]:
    """Return the probes that pyOCD finds, including virtual ones."""
    try:
        from pyocd.core.exceptions import Error
        from pyocd.core.helpers import ConnectHelper
    except Exception as error:  # it loads plugins of its own, and reads every entry point
        raise ProbeError(
            f"pyOCD cannot be imported ({type(error).__name__}: {error})",
            "repair it: pip install --force-reinstall pyocd",
        ) from error
    prepare()
    try:
        probes = ConnectHelper.get_all_connected_probes(blocking=False)
    except Error as error:
        raise ProbeError(f"pyOCD cannot list the probes: {error}", "see `hil doctor`") from None
    except (AssertionError, ValueError) as error:
        # Its driver of CMSIS-DAP, where two probes have one serial number.
        raise ProbeError(
            f"pyOCD cannot list the probes ({type(error).__name__}: {error})",
            "unplug all probes but one that have the same serial number",
        ) from None
    return [_describe(probe) for probe in probes]


def _describe(probe: Any) -> ProbeInfo:
    info = probe.associated_board_info
    return ProbeInfo(
        uid=probe.unique_id,
        description=probe.description,
        board=info.name if info else "",
        target=(info.target or "") if info else "",
    )
