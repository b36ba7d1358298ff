"""TLS in front of a real Valkey: a whole life through it, client certificates, and who is not trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric import Settings
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.errors import BackendUnavailable
from tests.load import one_life
from tests.servers import (
    HOST,
    TestServer,
    free_port,
    start_one_node_cluster,
    start_standalone,
    start_standalone_with_replica,
)
from tests.tls import Authority, Certificate, refusing_server, tls_proxy


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with start_standalone() as running:
        yield running


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("server")


async def live_through(url: str, budget_ms: int = 60_000) -> None:
    """Open the store there and live one life; a refusal that does not wait for the budget's end is a final one."""
    backend = await ValkeyBackend.open(Settings(url=url, retry_budget_ms=budget_ms))
    try:
        await one_life(backend)
    finally:
        await backend.close()


@pytest.mark.parametrize("scheme", ["valkeys", "rediss"])
async def test_a_life_through_tls(
    scheme: str, server: TestServer, authority: Authority, certificate: Certificate
) -> None:
    async with tls_proxy(server.port, certificate) as port:
        await live_through(f"{scheme}://{HOST}:{port}?tls_ca={authority.cert}")
        await live_through(f"{scheme}://{HOST}:{port}?tls_insecure=true")


async def test_a_server_that_nobody_we_trust_vouches_for_is_refused(
    server: TestServer, certificate: Certificate, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with tls_proxy(server.port, certificate) as port:
        for option in ("", f"?tls_ca={stranger.cert}"):
            with pytest.raises(BackendUnavailable, match="certificate is not trusted"):
                await live_through(f"valkeys://{HOST}:{port}{option}")


async def test_a_certificate_for_another_host_is_refused(server: TestServer, authority: Authority) -> None:
    other = authority.issue("other", host="valkey.example")
    async with tls_proxy(server.port, other) as port:
        with pytest.raises(BackendUnavailable, match="certificate is not trusted"):
            await live_through(f"valkeys://{HOST}:{port}?tls_ca={authority.cert}")


async def test_a_client_certificate_is_shown_when_there_is_one(
    server: TestServer, authority: Authority, certificate: Certificate
) -> None:
    mine = authority.issue("client")
    async with tls_proxy(server.port, certificate, clients_of=authority) as port:
        url = f"valkeys://{HOST}:{port}?tls_ca={authority.cert}&tls_cert={mine.cert}&tls_key={mine.key}"
        await live_through(url)


async def test_a_client_without_the_certificate_that_is_wanted_is_refused(
    server: TestServer, authority: Authority, certificate: Certificate, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger").issue("client")
    async with tls_proxy(server.port, certificate, clients_of=authority) as port:
        for option in ("", f"&tls_cert={stranger.cert}&tls_key={stranger.key}"):
            url = f"valkeys://{HOST}:{port}?tls_ca={authority.cert}{option}"
            with pytest.raises(BackendUnavailable, match="does it want another client certificate"):
                await live_through(url, budget_ms=50)


def test_a_server_that_says_why_it_refuses_is_believed_at_once(authority: Authority, certificate: Certificate) -> None:
    with refusing_server(certificate, authority) as port, pytest.raises(BackendUnavailable, match="TLS was refused"):
        asyncio.run(live_through(f"valkeys://{HOST}:{port}?tls_ca={authority.cert}"))


async def test_a_primary_and_its_replica_behind_tls(authority: Authority, certificate: Certificate) -> None:
    with start_standalone_with_replica() as (primary, replica):
        async with tls_proxy(replica.port, certificate) as one, tls_proxy(primary.port, certificate) as two:
            await live_through(f"valkeys://{HOST}:{one},{HOST}:{two}?tls_ca={authority.cert}")


async def test_a_cluster_behind_tls(authority: Authority, certificate: Certificate) -> None:
    port = free_port()
    with start_one_node_cluster("--cluster-announce-port", str(port)) as cluster:
        async with tls_proxy(cluster.nodes[0].port, certificate, port=port):
            await live_through(f"valkeys+cluster://{HOST}:{port}?tls_ca={authority.cert}")
