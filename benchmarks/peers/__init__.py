"""Ours and others: one small program a system, which submits or works and reports in JSON lines."""
