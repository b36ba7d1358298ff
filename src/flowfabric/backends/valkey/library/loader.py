"""Load the function library, and call its functions.

The handshake with each primary: load the library if absent, replace an older one, use the same or a newer one.
An older build never replaces a newer one, so that two releases can run side by side during a deployment.

The Rust original has a library with the same library and function names, for records of another layout. Our own calls
use names that only our library has. If a program of the original replaces the library, our next call gets "Function
not found" instead of running with another meaning, and the library is loaded again. No call pays for a check.

    python -m flowfabric.backends.valkey.library.loader        prints the bundle, for operators who load it themselves
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from flowfabric.backends.valkey.library.bundle import FIRST_VERSION, Bundle, bundle
from flowfabric.backends.valkey.library.contract import FunctionSpec
from flowfabric.backends.valkey.wire.client import Client, Node, Reply
from flowfabric.backends.valkey.wire.connection import ServerReplyError
from flowfabric.errors import BadReply, Corruption, FlowFabricError, ScriptFault, Unavailable, UnsupportedServer

_LOAD_ATTEMPTS = 3
_FOREIGN_RECORD = "layout_mismatch: "  # lua/lib/record/record.lua

_log = logging.getLogger(__name__)


class Library:
    """The library on every primary of one store."""

    def __init__(self, client: Client, source: Bundle, *, force: bool = False) -> None:
        self.client = client
        self.bundle = source
        self._force = force

    async def ensure(self) -> None:
        """Make sure that every primary has this build or a newer one."""
        for node in await self.client.primaries():
            await self._ensure_on(node)

    async def version_on(self, node: Node) -> int | None:
        """The version a primary has loaded; None when it has no library."""
        try:
            reply = await node.execute("FCALL", "ff_version", 0, repeatable=True)
        except ServerReplyError as error:
            if _is_missing(error):
                return None
            raise self._fault("version", error) from error
        if not isinstance(reply, bytes) or not reply.isdigit():
            raise BadReply(f"ff_version answered {reply!r}")
        return int(reply)

    async def _ensure_on(self, node: Node) -> None:
        replace = self._force
        for _ in range(_LOAD_ATTEMPTS):
            version = await self.version_on(node)
            if version is not None and version >= self.bundle.version and not self._force:
                return
            replace = replace or version is not None
            if is_foreign(version):
                _log.warning(
                    "replaced the function library of another program, version %d, by ours, version %d. "
                    "Programs that share this server must not load functions: see docs/howto/other-languages.md",
                    version,
                    self.bundle.version,
                )
            try:
                await self._load(node, replace=replace)
            except ServerReplyError as error:
                # Another client was quicker: check again, and replace a library without a version.
                if error.prefix in ("NOPERM", "NOAUTH"):
                    hint = "this user may not load functions; have an operator load what this module prints"
                    raise UnsupportedServer(f"{hint}: python -m flowfabric.backends.valkey.library.loader") from error
                if "already exists" not in str(error):
                    raise self._fault("FUNCTION LOAD", error) from error
                replace = await self.version_on(node) is None
                continue
            if self._force:
                return
        if await self.version_on(node) is None:
            raise ScriptFault("the function library could not be loaded", operation="FUNCTION LOAD")

    async def _load(self, node: Node, *, replace: bool) -> None:
        words = ("FUNCTION", "LOAD", "REPLACE") if replace else ("FUNCTION", "LOAD")
        await node.execute(*words, self.bundle.text, repeatable=True)  # a second try finds it loaded

    async def invoke(
        self,
        spec: FunctionSpec,
        keys: Sequence[str],
        args: Sequence[str | bytes | int],
        namespaces: Sequence[str] | None = None,
    ) -> Reply:
        """Call a function, optionally within namespaces. A server without the library (a new node) gets it loaded."""
        function = spec.own_function
        if namespaces is not None:
            function, args = spec.called_within, (len(namespaces), *namespaces, spec.function, *args)
        command = (spec.command, function, len(keys), *keys, *args)
        route = keys[0] if keys else None
        try:
            return await self.client.execute(*command, key=route, repeatable=spec.repeatable)
        except ServerReplyError as error:
            if not _is_missing(error):
                raise self._failure(spec, keys, error) from error
        await self.ensure()
        try:
            return await self.client.execute(*command, key=route, repeatable=spec.repeatable)
        except ServerReplyError as error:
            raise self._failure(spec, keys, error) from error

    def _failure(self, spec: FunctionSpec, keys: Sequence[str], error: ServerReplyError) -> FlowFabricError:
        """A fault in a read-only function means a corrupt record, such as a key of another type."""
        fault = self._fault(spec.function, error)
        if "no-writes" not in spec.flags or not isinstance(fault, ScriptFault):
            return fault
        record = keys[0] if keys else ""
        return Corruption(f"{record} cannot be read: {fault.message}", operation=spec.function, record=record)

    def _fault(self, operation: str, error: ServerReplyError) -> FlowFabricError:
        if _FOREIGN_RECORD in str(error):
            return Unavailable(f"{operation}: {error}", code="layout_mismatch")
        place = self.bundle.locate_fault(str(error))
        if place is None:
            return ScriptFault(f"{operation}: {error}", operation=operation)
        file, line = place
        return ScriptFault(f"{operation}: {file}:{line}: {error}", operation=operation, file=file, line=line)


def is_foreign(version: int | None) -> bool:
    """Whether this is the library of the Rust original."""
    return version is not None and version < FIRST_VERSION


def _is_missing(error: ServerReplyError) -> bool:
    return "Function not found" in str(error)


if __name__ == "__main__":
    sys.stdout.write(bundle().text)
