"""Flows: build a graph of tasks, submit it, watch it."""
