"""The ports over HTTP: the table of operations that server and client share, and the client's backend."""
