"""`dev`: run a store, an engine and your worker together, with reload."""
