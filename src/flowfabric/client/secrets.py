"""Give a store its first waitpoint secret: from the settings, or from an embedded store's own file."""

from __future__ import annotations

import logging
from typing import Final

from flowfabric.backends.ports import EngineBackend
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.tokens import Kid, SecretHex, SigningSecret
from flowfabric.errors import FlowFabricError

_logger: Final = logging.getLogger(__name__)


async def ensure_secret(backend: EngineBackend, settings: Settings | None = None) -> c.SeedOutcome | None:
    """Seed a store with its secret before waitpoints are created; a store that has a secret keeps it.

    Safe to repeat, at every start and in many processes at once. Returns None when the settings have no secret and
    the store is not embedded, or when the token of a server does not allow it: an operator provides the secret then.
    """
    configured = _configured(settings)
    secret = configured or await backend.kept_secret()
    if secret is None:
        return None
    args = c.SeedWaitpointHmacSecretArgs(kid=secret.kid, secret_hex=secret.secret_hex, algorithm=secret.algorithm)
    try:
        outcome = await backend.seed_waitpoint_hmac_secret(args)
    except FlowFabricError as error:
        if error.code != "forbidden":
            raise
        _logger.info("the server has the waitpoint secret; the configured one is not sent: %s", error.message)
        return None
    if configured and isinstance(outcome, c.SecretAlreadySeeded) and not outcome.same_secret:
        _logger.warning(
            "the store signs waitpoint tokens with kid %s; the configured secret of kid %s is ignored. "
            "Use `flowfabric secrets rotate` to change the secret",
            outcome.kid,
            secret.kid,
            extra={"action": "waitpoint_secret_differs"},
        )
    return outcome


def _configured(settings: Settings | None) -> SigningSecret | None:
    if settings is None or not settings.waitpoint_secret:
        return None
    return SigningSecret(kid=Kid(settings.waitpoint_kid), secret_hex=SecretHex(settings.waitpoint_secret))
