"""The rules of executions and flows as pure functions."""
