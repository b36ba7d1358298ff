"""The rules of one execution: its lease, its attempts, its end."""
