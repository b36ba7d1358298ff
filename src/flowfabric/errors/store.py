"""Errors of the store itself, and of its functions and records."""

from __future__ import annotations

from flowfabric.errors.base import Internal, Unavailable


class BackendUnavailable(Unavailable):
    """The store cannot be reached; details: sent (whether the call may have taken effect)."""

    default_code = "backend_unavailable"


class BackendTimeout(BackendUnavailable):
    default_code = "backend_timeout"


class UnsupportedServer(Unavailable):
    default_code = "unsupported_server"


class PartitionMismatch(Unavailable):
    default_code = "partition_mismatch"


class ScriptFault(Internal):
    """A server function failed; details: file, line of its source."""

    default_code = "script_fault"


class BadReply(Internal):
    default_code = "bad_reply"


class Corruption(Internal):
    default_code = "corruption"  # details: record, field
