"""Results of commands: one frozen dataclass per command, and their JSON.

Every JSON answer is one object (:class:`hil.results.answer.Answer`)::

    {"schema": 1, "command": "verify", "exit_code": 0, "results": [...]}

``results`` has one entry per combination of model, board and goal, or per item that the command
lists. The command line, the page, the history, ``hil compare``, ``hil gate`` and JUnit files use
these classes; nothing else states a key of the JSON. Files of version 0.1 are read by
:mod:`hil.results.v0`. :mod:`hil.results.schema` derives the JSON Schema and the reference page.
"""
