"""Firmware: from models and a board to an image, and facts read from that image.

:mod:`hil.build` has the public names.
"""
