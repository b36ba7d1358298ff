"""Which secret a store is seeded with, what is said about it, and the file that an embedded store keeps its own in."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from flowfabric.backends.valkey.embedded.secret import EMBEDDED_KID, FILE, own_secret
from flowfabric.backends.valkey.library.calls import Fields
from flowfabric.backends.valkey.ports.secrets import ValkeySecrets
from flowfabric.client.secrets import ensure_secret
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.partition import PartitionConfig
from flowfabric.core.tokens import Kid, SecretHex, SigningSecret

SECRET = "0f" * 32
KEPT = SigningSecret(kid=Kid("kept"), secret_hex=SecretHex("ab" * 32))
CONFIGURED = Settings(url="valkey://db", waitpoint_kid="mine", waitpoint_secret=SECRET)
OTHERS = Settings(url="valkey://db")


class Seeded:
    """A store that answers what it is told to, and remembers what it was asked."""

    def __init__(self, answer: c.SeedOutcome | None = None, kept: SigningSecret | None = None) -> None:
        self.answer, self.kept = answer, kept
        self.asked: list[c.SeedWaitpointHmacSecretArgs] = []

    async def kept_secret(self) -> SigningSecret | None:
        return self.kept

    async def seed_waitpoint_hmac_secret(self, args: c.SeedWaitpointHmacSecretArgs) -> c.SeedOutcome:
        self.asked.append(args)
        return self.answer or c.SecretSeeded(kid=args.kid)


async def ensure(store: Seeded, settings: Settings | None) -> c.SeedOutcome | None:
    return await ensure_secret(store, settings)  # type: ignore[arg-type]  # two methods of the ports are enough


async def seeded_with(store: Seeded, settings: Settings | None) -> tuple[str, str]:
    await ensure(store, settings)
    (args,) = store.asked
    return args.kid, args.secret_hex.reveal()


def names(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


async def test_the_configured_secret_is_seeded() -> None:
    assert await seeded_with(Seeded(), CONFIGURED) == ("mine", SECRET)


async def test_a_configured_secret_goes_before_that_of_the_store() -> None:
    assert await seeded_with(Seeded(kept=KEPT), CONFIGURED) == ("mine", SECRET)


@pytest.mark.parametrize("settings", [OTHERS, None])
async def test_without_a_secret_of_the_settings_the_store_gets_the_one_it_keeps(settings: Settings | None) -> None:
    assert await seeded_with(Seeded(kept=KEPT), settings) == (KEPT.kid, KEPT.secret_hex.reveal())


async def test_without_any_secret_a_store_of_others_is_left_alone() -> None:
    store = Seeded()
    assert await ensure(store, OTHERS) is None
    assert not store.asked


def test_an_embedded_store_keeps_the_secret_it_made(tmp_path: Path) -> None:
    assert own_secret(tmp_path) == own_secret(tmp_path)
    assert own_secret(tmp_path).kid == EMBEDDED_KID
    assert names(tmp_path) == [FILE]


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    own_secret(tmp_path)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_throw_away_stores_have_one_secret_for_all_who_ask() -> None:
    assert own_secret(None) == own_secret(None)


def test_whoever_makes_the_file_at_the_same_time_reads_the_same_secret(tmp_path: Path) -> None:
    found: list[str] = []
    together = threading.Barrier(8)

    def make() -> None:
        together.wait()
        found.append(own_secret(tmp_path).secret_hex.reveal())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert names(tmp_path) == [FILE]


def test_stores_do_not_share_a_secret(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert own_secret(tmp_path / "a") != own_secret(tmp_path / "b")


class Together(ValkeySecrets):
    """A store that answers no partition before all were asked."""

    partitions = PartitionConfig()

    def __init__(self) -> None:
        self._caller: Any = self
        self._all = asyncio.Barrier(self.partitions.num_flow_partitions)

    async def call(self, operation: str, *_: Any, **__: Any) -> Fields:
        await asyncio.wait_for(self._all.wait(), 60)
        return Fields(operation, "OK", [b"seeded"])


async def test_all_partitions_are_seeded_in_one_go() -> None:
    args = c.SeedWaitpointHmacSecretArgs(kid=KEPT.kid, secret_hex=KEPT.secret_hex)
    assert await Together().seed_waitpoint_hmac_secret(args) == c.SecretSeeded(kid=KEPT.kid)


async def test_a_store_with_another_secret_is_told_of_without_showing_one(caplog: pytest.LogCaptureFixture) -> None:
    store = Seeded(c.SecretAlreadySeeded(kid=Kid("theirs"), same_secret=False))
    with caplog.at_level(logging.DEBUG):
        await ensure(store, CONFIGURED)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "theirs" in record.getMessage()
    assert "mine" in record.getMessage()
    assert SECRET not in caplog.text


@pytest.mark.parametrize(("same_secret", "settings"), [(True, CONFIGURED), (False, OTHERS)])
async def test_no_news_is_no_warning(same_secret: bool, settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """A store that knows the secret, or one of our own that was rotated."""
    with caplog.at_level(logging.DEBUG):
        await ensure(Seeded(c.SecretAlreadySeeded(kid=Kid("newer"), same_secret=same_secret), KEPT), settings)
    assert not caplog.records
