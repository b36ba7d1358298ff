"""`dev`: store, engine and your worker in one go, with reload."""
