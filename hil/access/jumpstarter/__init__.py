"""Boards that an exporter of Jumpstarter serves.

:mod:`~hil.access.jumpstarter.runner` starts a firmware there; the connection to the exporter is a
child process of its own, :mod:`~hil.access.jumpstarter.client`, so that each of its waits ends.
"""

from hil.access.jumpstarter.runner import JumpstarterRunner

__all__ = ["JumpstarterRunner"]
