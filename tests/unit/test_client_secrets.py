"""Which secret a store is seeded with, what is said about it, and the file that an embedded store keeps its own in."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from flowfabric.backends.valkey.embedded_secret import FILE, kept_secret
from flowfabric.client.secrets import EMBEDDED_KID, ensure_secret
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.tokens import Kid

SECRET = "0f" * 32
CONFIGURED = Settings(url="valkey://db", waitpoint_kid="mine", waitpoint_secret=SECRET)


class Seeded:
    """A store that answers what it is told to, and remembers what it was asked."""

    def __init__(self, answer: c.SeedOutcome | None = None) -> None:
        self.answer = answer
        self.asked: list[c.SeedWaitpointHmacSecretArgs] = []

    async def seed_waitpoint_hmac_secret(self, args: c.SeedWaitpointHmacSecretArgs) -> c.SeedOutcome:
        self.asked.append(args)
        return self.answer or c.SecretSeeded(kid=args.kid)


async def seeded_with(settings: Settings, store: Seeded) -> tuple[str, str]:
    await ensure_secret(store, settings)  # type: ignore[arg-type]  # one method of the port is enough
    (args,) = store.asked
    return args.kid, args.secret_hex.reveal()


def names(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


async def test_the_configured_secret_is_seeded() -> None:
    assert await seeded_with(CONFIGURED, Seeded()) == ("mine", SECRET)


async def test_a_configured_secret_goes_before_that_of_the_embedded_store(tmp_path: Path) -> None:
    settings = Settings(url=f"embedded://{tmp_path}", waitpoint_secret=SECRET)
    assert await seeded_with(settings, Seeded()) == ("k1", SECRET)
    assert names(tmp_path) == []


async def test_without_a_secret_a_server_of_others_is_left_alone() -> None:
    store = Seeded()
    assert await ensure_secret(store, Settings(url="valkey://db")) is None  # type: ignore[arg-type]
    assert not store.asked


async def test_an_embedded_store_keeps_the_secret_it_made(tmp_path: Path) -> None:
    settings = Settings(url=f"embedded://{tmp_path}")
    first = await seeded_with(settings, Seeded())
    assert first == await seeded_with(settings, Seeded()) == (EMBEDDED_KID, kept_secret(tmp_path))


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    kept_secret(tmp_path)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


async def test_a_throw_away_store_has_one_secret_for_all_who_ask() -> None:
    settings = Settings(url="embedded://")
    assert await seeded_with(settings, Seeded()) == await seeded_with(settings, Seeded())


def test_whoever_makes_the_file_at_the_same_time_reads_the_same_secret(tmp_path: Path) -> None:
    found: list[str] = []
    together = threading.Barrier(8)

    def make() -> None:
        together.wait()
        found.append(kept_secret(tmp_path))

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
    assert kept_secret(tmp_path / "a") != kept_secret(tmp_path / "b")


async def test_a_store_with_another_secret_is_told_of_without_showing_one(caplog: pytest.LogCaptureFixture) -> None:
    store = Seeded(c.SecretAlreadySeeded(kid=Kid("theirs"), same_secret=False))
    with caplog.at_level(logging.DEBUG):
        await ensure_secret(store, CONFIGURED)  # type: ignore[arg-type]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "theirs" in record.getMessage()
    assert "mine" in record.getMessage()
    assert SECRET not in caplog.text


async def test_a_store_that_knows_the_secret_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await ensure_secret(Seeded(c.SecretAlreadySeeded(kid=Kid("newer"), same_secret=True)), CONFIGURED)  # type: ignore[arg-type]
    assert not caplog.records
