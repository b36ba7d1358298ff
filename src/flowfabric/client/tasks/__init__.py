"""Tasks: options, arguments, payloads and submission."""
