"""The former place of :mod:`hil.access`: importing it is an error that names the new one."""

raise ImportError(
    f"{__name__} is hil.access since 0.2: import Runner and register_runner from there, and "
    "Connection for what was Choice; a runner is a class now (docs/how-to/runners.md)"
)
