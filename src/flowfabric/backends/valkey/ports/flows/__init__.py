"""Flows on Valkey."""
