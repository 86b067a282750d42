"""Firmware: from models and a board to an image, and what can be read of that image.

:mod:`hil.build` has what is for users.
"""
