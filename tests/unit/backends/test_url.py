"""Server URLs: what each form means, what is refused, and that passwords stay secret."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from flowfabric.backends.valkey.wire.url import SCHEMES, ServerAddress, Tls, parse_url
from flowfabric.errors import InvalidInput


@pytest.mark.parametrize(
    ("url", "directory"),
    [
        ("embedded://", None),
        ("embedded:///var/lib/ff", Path("/var/lib/ff")),
        ("embedded://data/ff", Path("data/ff")),
        ("embedded://./data", Path("data")),
        ("embedded:///with%20space", Path("/with space")),
    ],
)
def test_embedded(url: str, directory: Path | None) -> None:
    assert parse_url(url) == ServerAddress("embedded", directory=directory)


@pytest.mark.parametrize(
    ("url", "host", "db"),
    [
        ("valkey://localhost", ("localhost", 6379), 0),
        ("valkey://localhost:7000/", ("localhost", 7000), 0),
        ("valkey://localhost:7000/3", ("localhost", 7000), 3),
        ("redis://10.0.0.1/15", ("10.0.0.1", 6379), 15),
        ("valkey://[::1]:7000", ("::1", 7000), 0),
        ("valkey://[fe80::1%25eth0]", ("fe80::1%eth0", 6379), 0),
        ("VALKEY://Host", ("Host", 6379), 0),
    ],
)
def test_one_server(url: str, host: tuple[str, int], db: int) -> None:
    address = parse_url(url)
    assert (address.kind, address.hosts, address.db, address.tls) == ("standalone", (host,), db, None)


@pytest.mark.parametrize(
    ("login", "username", "password"),
    [
        ("", None, None),
        ("me@", "me", None),
        (":pass@", None, "pass"),
        ("me:pass@", "me", "pass"),
        ("me:p%40ss%3A%2F%3F%23@", "me", "p@ss:/?#"),
        ("m%65:a:b@", "me", "a:b"),
    ],
)
def test_login_is_percent_decoded(login: str, username: str | None, password: str | None) -> None:
    address = parse_url(f"valkey://{login}host:1")
    assert (address.username, address.password, address.hosts) == (username, password, (("host", 1),))


def test_tls_options() -> None:
    query = "tls_ca=/ca.pem&tls_cert=/c%20.pem&tls_key=/k.pem&tls_insecure=true"
    assert parse_url(f"valkeys://h?{query}").tls == Tls("/ca.pem", "/c .pem", "/k.pem", insecure=True)
    assert parse_url("rediss://h").tls == Tls()
    assert parse_url("valkeys+cluster://h").tls == Tls()


def test_a_tls_context_trusts_nobody_by_default_and_anybody_when_told() -> None:
    assert Tls().context().verify_mode is ssl.CERT_REQUIRED
    assert Tls(insecure=True).context().verify_mode is ssl.CERT_NONE


def test_a_missing_tls_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nothing\.pem"):
        Tls(ca=str(tmp_path / "nothing.pem")).context()


def test_cluster_seeds() -> None:
    address = parse_url("valkey+cluster://me:pw@a:7000,[::1]:7001,c")
    assert address.kind == "cluster"
    assert address.hosts == (("a", 7000), ("::1", 7001), ("c", 6379))
    node = address.at(("b", 7002))
    assert (node.kind, node.hosts, node.password) == ("standalone", (("b", 7002),), "pw")


@pytest.mark.parametrize("scheme", ["valkey", "valkeys", "redis", "rediss"])
def test_a_primary_and_its_replicas(scheme: str) -> None:
    address = parse_url(f"{scheme}://me:pw@a,[::1]:7001,c:7002/3")
    assert (address.kind, address.db) == ("standalone", 3)
    assert address.hosts == (("a", 6379), ("::1", 7001), ("c", 7002))
    assert str(address) == f"{'valkeys' if address.tls else 'valkey'}://a:6379,[::1]:7001,c:7002"
    one = address.at(("c", 7002))
    assert (one.hosts, one.db, one.password, one.tls) == ((("c", 7002),), 3, "pw", address.tls)


def test_unix_socket() -> None:
    address = parse_url("valkey+unix:///run/valkey%20x.sock?db=2")
    assert (address.kind, address.unix_path, address.db) == ("standalone", "/run/valkey x.sock", 2)
    assert parse_url("valkey+unix://me:pw@/run/v.sock").password == "pw"


def test_client_name() -> None:
    assert parse_url("valkey://h").client_name == "flowfabric"
    assert parse_url("valkey://h?client_name=worker-1").client_name == "worker-1"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("localhost:6379", "known: embedded"),
        ("http://localhost", "known: embedded"),
        ("", "known: embedded"),
        ("valkey://", "needs a host"),
        ("valkey://:6379", "needs a host"),
        ("valkey://h:port", "port must be a number"),
        ("valkey://h:70000", "port must be a number"),
        ("valkey://h:0", "port must be a number"),
        ("valkey://[::1", "needs a host"),
        ("valkey://h/abc", "database must be a number"),
        ("valkey://h/-1", "database must be a number"),
        ("valkey://a,,b", "needs a host"),
        ("valkey://a,b:6379,a:6379", "same host and port twice"),
        ("valkeys+cluster://a:1,a:1", "same host and port twice"),
        ("valkey+cluster://a/1", "database 0 only"),
        ("valkey+cluster://a,,b", "needs a host"),
        ("valkey+unix://", "must look like"),
        ("valkey+unix://host/path", "must look like"),
        ("valkey://h?timeout=1", "unknown option 'timeout'; allowed here: client_name"),
        ("valkey://h?tls_ca=x", "unknown option 'tls_ca'"),
        ("embedded:///d?x=1", "allowed here: none"),
        ("valkeys://h?tls_insecure=perhaps", "true or false"),
        ("valkeys://h?tls_key=k", "needs tls_cert"),
    ],
)
def test_refusals_say_what_is_allowed(url: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint) as caught:
        parse_url(url)
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    "url",
    [
        "valkey://me:hush@host:bad",
        "valkey://me:hu/sh@host",
        "valkey://me:hu?sh=1@host",
        "valkey://:hush",
        "valkey://me:hush@host/x",
        "nonsense://me:hush@host",
        "me:hush@host",
        "valkey://me:hush@host?nope=1",
        "valkey+cluster://me:hush@host,",
    ],
)
def test_a_refusal_never_shows_the_password(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_url(url)
    assert "hu" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["valkey://me:hush@host", "valkeys+cluster://me:hush@a,b", "valkey+unix://me:hush@/run/v.sock"],
)
def test_the_password_is_in_no_repr_and_no_text(url: str) -> None:
    address = parse_url(url)
    assert "hush" not in repr(address) + str(address)
    assert "hush" not in repr(address.at(("h", 1)))


def test_text_of_an_address_names_the_place() -> None:
    assert str(parse_url("valkeys+cluster://me:pw@a:1,[::1]:2")) == "valkeys+cluster://a:1,[::1]:2"
    assert str(parse_url("valkey+unix:///run/v.sock")) == "valkey+unix:///run/v.sock"
    assert str(parse_url("embedded:///d")) == "embedded:///d"


def test_all_schemes_are_documented() -> None:
    import flowfabric.backends.valkey.wire.url as module

    assert all(f"{scheme}://" in (module.__doc__ or "") for scheme in SCHEMES)
