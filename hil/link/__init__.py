"""The serial protocol: definitions, frame codec, client.

``docs/reference/protocol.md`` gives the bytes.
"""
