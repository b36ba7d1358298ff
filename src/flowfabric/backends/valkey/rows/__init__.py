"""Decode what server functions reply with."""
