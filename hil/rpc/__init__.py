"""The serial protocol: definitions, frame codec, client. PROTOCOL.md says the bytes."""
