"""pyOCD as a library: its messages reach the user, and no file of the working folder reaches it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

#: Options of every session. pyOCD would take options, a configuration of the log (which can call
#: any function) and a script from files of the working folder, and erase a locked chip.
OPTIONS: Final[Mapping[str, Any]] = {
    "no_config": True,
    "user_script": os.devnull,
    "auto_unlock": False,
    # Its remedy is an option of pyOCD's own command; which target is used, is decided here.
    "warning.cortex_m_default": False,
}


def prepare() -> None:
    """Call it before anything else of pyOCD."""
    from pyocd.core.session import Session

    # A level that a user set is kept.
    logger = logging.getLogger("pyocd")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    # Its code asks for options also where there is no session; it makes one for them.
    if Session._options_session is None:
        Session._options_session = Session(None, options=OPTIONS, project_dir=os.getcwd())
