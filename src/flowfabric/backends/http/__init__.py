"""The ports over HTTP: the table of operations that server and client share, and a backend that calls a server."""
