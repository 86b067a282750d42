"""The former place of :mod:`hil.access`: importing it is an error that names the new one."""

raise ImportError(
    "hil.runners is hil.access since 0.2: import Connection (before: Choice), Runner and "
    "register_runner from there; a runner is a class now (docs/how-to/runners.md)"
)
