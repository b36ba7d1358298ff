"""How much a refused token makes the server do tells nothing of the right one (G6).

The library is loaded with counted bit operations, which nothing but the comparison uses while a signal is delivered.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
import valkey

from flowfabric.backends.valkey.library.bundle import bundle
from tests.servers import start_standalone
from tests.valkey.wire.suspension_wire import SECRET, Waiting, named

_OPERATIONS = ("band", "bor", "bxor", "lshift", "ror", "rshift", "tobit", "tohex")
_COUNTED = f"""
local looks = 0
local function exact() return bit end
local function looking() looks = looks + 1 return exact() end
local bit = {{
  {"".join(f"{name} = function(...) return exact().{name}(...) end, " for name in _OPERATIONS)}
}}
function bit.bxor(...) return looking().bxor(...) end
redis.register_function('fftest_looks', function()
  local count = looks
  looks = 0
  return count
end)
"""

Looks = Callable[..., tuple[list[object], int]]


@pytest.fixture(scope="module")
def client() -> Iterator[valkey.Valkey]:
    first, rest = bundle().text.split("\n", 1)
    with start_standalone() as server, valkey.Valkey(port=server.port) as connection:
        connection.execute_command("FUNCTION", "LOAD", f"{first}\n{_COUNTED}{rest}")
        yield connection


@pytest.fixture(params=["sha1", "sha256"])
def x(client: valkey.Valkey, request: pytest.FixtureRequest) -> Waiting:
    client.flushall()
    x = Waiting(client)
    x.seed("k1", SECRET, request.param)
    x.rotate("k2", "cd" * 32, 60_000, "sha1")
    x.rotate("k3", SECRET, 60_000, request.param)
    x.run()
    x.suspend(named("approval"))
    return x


@pytest.fixture
def looks(x: Waiting) -> Looks:
    def deliver(**given: str) -> tuple[list[object], int]:
        x.client.execute_command("FCALL", "fftest_looks", 0)
        reply = x.deliver(**given)
        return reply, x.client.execute_command("FCALL", "fftest_looks", 0)

    return deliver


def changed(text: str, at: int) -> str:
    return text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]


def test_every_character_is_compared_wherever_the_first_wrong_one_stands(x: Waiting, looks: Looks) -> None:
    kid, digest = x.token.split(":")
    for at in range(len(digest)):
        assert looks(token=f"{kid}:{changed(digest, at)}") == ([0, "invalid_token"], len(digest)), at
    reply, count = looks()
    assert (reply[0], count) == (1, len(digest)), "the right one takes as long"


def test_an_unknown_waitpoint_and_another_kid_take_as_long_as_a_wrong_token(x: Waiting, looks: Looks) -> None:
    kid, digest = x.token.split(":")
    wrong = changed(digest, 0)
    for given in (
        {"waitpoint": str(uuid.uuid4()), "token": x.token},
        {"waitpoint": str(uuid.uuid4()), "token": f"{kid}:{wrong}"},
        {"waitpoint": str(uuid.uuid4()), "token": f"k1:{wrong}"},
        {"token": f"k1:{digest}"},
    ):
        assert looks(**given) == ([0, "invalid_token"], len(digest)), given
    of_another_length = "0" * 40
    there, nowhere = looks(token=f"k2:{of_another_length}"), looks(waitpoint="none", token=f"k2:{of_another_length}")
    assert there == nowhere == ([0, "invalid_token"], 40), "whether there is a waitpoint does not show"


def test_a_text_of_another_length_is_not_compared_at_all(x: Waiting, looks: Looks) -> None:
    """Their lengths are no secret: a kid says them."""
    for token in (x.token[:-1], x.token + "0", x.token * 50):
        assert looks(token=token) == ([0, "invalid_token"], 0)
