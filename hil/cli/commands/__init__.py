"""The commands of ``hil``: one module a command, named as the command (:mod:`hil.cli.command`).

A module has the command's options, its texts and the function that runs it. It loads no compiler;
what takes more than a page to do is in the module of :mod:`hil.cli.actions` with the same name.
"""
