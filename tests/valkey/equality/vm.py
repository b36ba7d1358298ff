"""The Lua library on the real VM under names of its own, with a clock that stands still."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import valkey
from hypothesis import settings

from flowfabric.backends.valkey.library.bundle import bundle
from tests.servers import TestServer
from tests.soaking import examples
from tests.valkey.wire.wire import Reply, decode

NOW = 1_700_000_000_000
# Drawn cases of one rule.
SOME = settings(max_examples=examples(60, soak=400), deadline=None)
MANY = settings(max_examples=examples(250, soak=2000), deadline=None)

_CALL = """
local glue = {}
%s
redis.register_function('rules_call', function(_, argv)
  local module, name = argv[1]:match('^(.-)%%.(.+)$')
  local member = module == 'glue' and glue[name] or lib[module][name]
  local first, second = member(unpack(cjson.decode(argv[2])))
  return cjson.encode({first == nil and cjson.null or first, second == nil and cjson.null or second})
end)
"""


class RuleVm:
    """Calls functions of the library's modules, and its public functions."""

    def __init__(self, client: valkey.Valkey) -> None:
        self.client: Any = client  # its types say that every reply may be awaitable

    def call(self, function: str, *args: object) -> Any:
        """`module.function(args...)`, or `glue.function`; both of its first two results where there are two."""
        reply = self.client.execute_command("FCALL", "rules_call", 0, function, json.dumps(args))
        first, second = json.loads(reply)
        return first if second is None else (first, second)

    def fcall(self, operation: str, keys: list[str], *args: object) -> Reply:
        return decode(self.client.execute_command("FCALL", f"rules_ff_{operation}", len(keys), *keys, *args))

    def set_clock(self, now: int) -> None:
        self.client.execute_command("FCALL", "rules_ff_test_clock", 0, now)

    def hash(self, key: str) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.client.hgetall(key).items()}


@contextmanager
def rule_vm(server: TestServer, glue: str = "") -> Iterator[RuleVm]:
    """glue: Lua that adds functions to the table `glue`, for rules that need more than plain arguments."""
    text = bundle(manual_clock=True).text.replace("name=flowfabric", "name=rules", 1)
    text = text.replace("function_name = 'ff", "function_name = 'rules_ff")
    text = text.replace("register_function('ff_test_clock'", "register_function('rules_ff_test_clock'")
    client = valkey.Valkey(port=server.port)
    client.flushall()
    client.execute_command("FUNCTION", "LOAD", "REPLACE", text + _CALL % glue)
    vm = RuleVm(client)
    vm.set_clock(NOW)
    yield vm
    client.execute_command("FUNCTION", "DELETE", "rules")
    client.close()
