"""Where the server is: URLs of the Valkey backend, parsed into a ServerAddress.

embedded://                                        a private server, deleted at the end
embedded:///abs/dir   embedded://relative/dir      a server of our own whose data stays in the directory
valkey://[user[:password]@]host[:port][/db]        one server; redis:// is the same for Redis 7.0 and newer
valkey://host:port,host2:port2[/db]                one primary and its replicas, in any order
valkeys://...                                      the same over TLS; rediss:// likewise
valkey+cluster://host:port,host2:port2             a cluster, found through any of the named nodes; valkeys+cluster://
valkey+unix:///path/to.sock                        one server on a unix socket

Passwords are in no repr and in no message, so an authority that does not parse is never shown.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote

from flowfabric.errors import InvalidInput

DEFAULT_PORT: Final = 6379

Host = tuple[str, int]
Kind = Literal["embedded", "standalone", "cluster"]

_SERVER: Final = frozenset({"valkey", "valkeys", "redis", "rediss"})
_CLUSTER: Final = frozenset({"valkey+cluster", "valkeys+cluster"})
_UNIX: Final = "valkey+unix"
_EMBEDDED: Final = "embedded"
SCHEMES: Final = tuple(sorted({*_SERVER, *_CLUSTER, _UNIX, _EMBEDDED}))

_TLS_OPTIONS: Final = ("tls_ca", "tls_cert", "tls_insecure", "tls_key")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HOST: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<name>[^:\[\]@\s]+))(?::(?P<port>.*))?")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings: how to verify the server and, with a client certificate, how to identify ourselves."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False

    def context(self) -> ssl.SSLContext:
        """A new context. Reads the files at each connect, so renewed certificates are picked up."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(filter(None, (self.ca, self.cert, self.key)))
            raise _refusal("valkeys", f"its TLS files cannot be used: {files}: {error}") from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server, a primary with replicas, a cluster or a directory, with its credentials."""

    kind: Kind
    hosts: tuple[Host, ...] = ()
    unix_path: str | None = None
    directory: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    tls: Tls | None = None
    client_name: str = "flowfabric"

    def at(self, host: Host) -> ServerAddress:
        """The same credentials for one of several servers."""
        return replace(self, kind="standalone", hosts=(host,))

    def __str__(self) -> str:
        """The address for messages, without user and password."""
        if self.kind == "embedded":
            return f"embedded://{self.directory or ''}"
        if self.unix_path is not None:
            return f"valkey+unix://{self.unix_path}"
        scheme = ("valkeys" if self.tls else "valkey") + ("+cluster" if self.kind == "cluster" else "")
        return f"{scheme}://{','.join(f'[{h}]:{p}' if ':' in h else f'{h}:{p}' for h, p in self.hosts)}"


def parse_url(url: str) -> ServerAddress:
    """Parse `url`; InvalidInput("url", ...) says what is allowed."""
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in SCHEMES:
        raise _refusal(scheme if separator else "", f"unknown scheme; known: {', '.join((*SCHEMES, 'http', 'https'))}")
    rest, _, query = rest.partition("?")
    if scheme == _EMBEDDED:
        _options(scheme, query, ())
        return ServerAddress("embedded", directory=Path(unquote(rest)) if rest else None)
    authority, slash, path = rest.partition("/")
    if "@" in path + query:
        # An unescaped password was split; its pieces must not reach a message.
        raise _refusal(scheme, "percent-encode / ? # @ and : in user and password (and @ in paths)")
    return _parse_server(scheme, authority, slash + path, query)


def _parse_server(scheme: str, authority: str, path: str, query: str) -> ServerAddress:
    tls = scheme.startswith(("valkeys", "rediss"))
    unix = scheme == _UNIX
    allowed = ("client_name", *(_TLS_OPTIONS if tls else ()), *(("db",) if unix else ()))
    options = _options(scheme, query, allowed)
    login, _, hosts = authority.rpartition("@")
    username, colon, password = login.partition(":")
    if unix and (hosts or path in ("", "/")):
        raise _refusal(scheme, "must look like valkey+unix:///path/to.sock")
    cluster = scheme in _CLUSTER
    return ServerAddress(
        "cluster" if cluster else "standalone",
        hosts=() if unix else _hosts(scheme, hosts),
        unix_path=unquote(path) if unix else None,
        username=unquote(username) or None,
        password=unquote(password) if colon else None,
        db=_db(scheme, options.get("db", "") if unix else path.strip("/"), cluster=cluster),
        tls=_tls(scheme, options) if tls else None,
        client_name=options.get("client_name", "flowfabric"),
    )


def _hosts(scheme: str, text: str) -> tuple[Host, ...]:
    hosts = tuple(_host(scheme, part) for part in text.split(","))
    if len(set(hosts)) < len(hosts):
        raise _refusal(scheme, "names the same host and port twice")
    return hosts


def _host(scheme: str, text: str) -> Host:
    found = _HOST.fullmatch(text)
    if found is None:
        raise _refusal(scheme, "needs a host, like valkey://localhost:6379 or valkey://[::1]:6379")
    port = found["port"] if found["port"] is not None else str(DEFAULT_PORT)
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65_536:
        raise _refusal(scheme, "the port must be a number from 1 to 65535")
    return unquote(found["v6"] or found["name"]), int(port)


def _db(scheme: str, text: str, *, cluster: bool) -> int:
    if not text:
        return 0
    if not _PORT.fullmatch(text):
        raise _refusal(scheme, "the database must be a number, like valkey://localhost/2")
    if cluster and int(text):
        raise _refusal(scheme, "a cluster has database 0 only")
    return int(text)


def _options(scheme: str, query: str, allowed: Iterable[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise _refusal(scheme, f"unknown option {name!r}; allowed here: {known}")
        options[name] = unquote(value)
    return options


def _tls(scheme: str, options: Mapping[str, str]) -> Tls:
    insecure = options.get("tls_insecure", "false").lower()
    if insecure not in ("true", "false"):
        raise _refusal(scheme, "tls_insecure must be true or false")
    if "tls_key" in options and "tls_cert" not in options:
        raise _refusal(scheme, "tls_key needs tls_cert")
    return Tls(options.get("tls_ca"), options.get("tls_cert"), options.get("tls_key"), insecure == "true")


def _refusal(scheme: str, problem: str) -> InvalidInput:
    return InvalidInput("url", f"{scheme}://…", problem)
