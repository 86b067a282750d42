"""Model files, written from models that the front ends read."""
