from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import valkey

from flowfabric.backends.valkey.library.bundle import build
from tests.servers import TestServer
from tests.valkey.lua.sources import MODULES

Call = Callable[..., Any]

# JSON null is Lua's nil here, so that absent fields and arguments can be said.
_EXPOSE = """
local function plain(value)
  if value == cjson.null then return nil end
  if type(value) ~= 'table' then return value end
  local out = {}
  for name, each in pairs(value) do out[name] = plain(each) end
  return out
end
redis.register_function('ffequal_call', function(_, argv)
  local given, count = cjson.decode(argv[3]), tonumber(argv[4])
  local args = {}
  for i = 1, count do args[i] = plain(given[i]) end
  local first, second = lib[argv[1]][argv[2]](unpack(args, 1, count))
  return cjson.encode({first == nil and cjson.null or first, second == nil and cjson.null or second})
end)
redis.register_function('ffequal_credit', function(_, argv)
  local wanted = lib.condition.parse(argv[1], cjson.decode(argv[2]))
  if not wanted then return cjson.encode({'refused'}) end
  local tallies, effects = {}, {}
  local shared = {tokens = {}, counts = {}, signals = {}, prefix = 's|', new = {}}
  for i, sent in ipairs(cjson.decode(argv[3])) do
    tallies[sent.w] = tallies[sent.w] or {slots = {}, count = 0}
    local w = {id = sent.w, waitpoint_key = sent.key}
    effects[i] = lib.progress.credit(wanted, wanted.tree and shared or tallies[sent.w], sent, w)
  end
  return cjson.encode(effects)
end)
"""


@pytest.fixture(scope="session")
def vm(wire_server: TestServer) -> Iterator[valkey.Valkey]:
    """A server with a library that exposes the modules."""
    text = build({f"{name}.lua": source for name, source in MODULES.items()}, {}).text
    client = valkey.Valkey(port=wire_server.port)
    client.execute_command("FUNCTION", "LOAD", "REPLACE", text.replace("name=flowfabric", "name=ffequal") + _EXPOSE)
    yield client
    client.execute_command("FUNCTION", "DELETE", "ffequal")
    client.close()


@pytest.fixture(scope="session")
def call(vm: valkey.Valkey) -> Call:
    """Call `module.function(args...)` with None for nil; answers its first result, or its first two."""

    def run(function: str, *args: object) -> Any:
        module, name = function.split(".")
        reply = vm.execute_command("FCALL", "ffequal_call", 0, module, name, json.dumps(args), len(args))
        first, second = json.loads(reply)
        return first if second is None else (first, second)

    return run
