"""How a store gets its first waitpoint secret: from the settings, or in embedded mode one of its own."""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from typing import Final

from flowfabric.backends.suspension_ports import SecretPort
from flowfabric.backends.valkey.embedded_secret import kept_secret, new_secret
from flowfabric.backends.valkey.url import parse_url
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.tokens import Kid, SecretHex

# The name of a secret that an embedded store has made for itself.
EMBEDDED_KID: Final = Kid("embedded")

_logger: Final = logging.getLogger(__name__)

# Only this process can open a throw-away store; with one secret for all of them, concurrent callers agree.
_throw_away_secret: Final = cache(new_secret)


async def ensure_secret(backend: SecretPort, settings: Settings) -> c.SeedOutcome | None:
    """Seed the store these settings name, before waitpoints are made there; a store that has a secret keeps it.

    Safe to repeat, at every start and in many processes at once. None: the settings have no secret, and the store is
    not embedded, so its secret is somebody else's to give.
    """
    if settings.waitpoint_secret:
        kid, secret = Kid(settings.waitpoint_kid), settings.waitpoint_secret
    elif (address := parse_url(settings.url)).kind == "embedded":
        kid = EMBEDDED_KID
        directory = address.directory
        secret = _throw_away_secret() if directory is None else await asyncio.to_thread(kept_secret, directory)
    else:
        return None
    args = c.SeedWaitpointHmacSecretArgs(kid=kid, secret_hex=SecretHex(secret))
    outcome = await backend.seed_waitpoint_hmac_secret(args)
    if settings.waitpoint_secret and isinstance(outcome, c.SecretAlreadySeeded) and not outcome.same_secret:
        _logger.warning(
            "the store signs waitpoint tokens with kid %s and does not know the configured secret of kid %s; "
            "`flowfabric secrets rotate` is the way to another one",
            outcome.kid,
            kid,
            extra={"action": "waitpoint_secret_differs"},
        )
    return outcome
