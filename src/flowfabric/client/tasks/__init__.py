"""Tasks: their options, arguments and payloads, and how one is submitted."""
