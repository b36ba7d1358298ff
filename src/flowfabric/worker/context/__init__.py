"""What a handler gets: its context, and the parts behind it."""
