"""docs/reference/server.md, printed from the table of operations and the settings."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from flowfabric.backends.http.operations import OPERATIONS, Scope
from flowfabric.server.settings import ServerSettings

_SETTINGS: Final = {
    "host": "the address to listen on; anything but loopback asks for `tokens`",
    "port": "0 is any free one",
    "tokens": "the file of tokens, reloaded when it changes; without one every local process may do everything",
    "origins": "other sites whose pages may call the API",
    "proxies": "addresses and networks of proxies: their `X-Forwarded-For` and `X-Forwarded-Proto` are believed, "
    "their connections are not counted by address. Other peers are not trusted",
    "connections": "connections at once; where there are more, those go that wait longest for a request. "
    "0: as many as the process may have open files less an eighth, or 64 if that is more, and at most 10000",
    "connections_per_peer": "of one address, or one /64 network of IPv6; 0: half of `connections`",
    "header_bytes": "the address and all headers of a request together, 431 if there is more; the same of trailers, "
    "which are dropped",
    "header_fields": "how many headers a request has, 431 if there are more",
    "header_timeout_ms": "from the first byte of a request to the end of its headers; then 408",
    "write_timeout_ms": "how long a client may take to read what waits for it; then the connection ends",
    "idle_timeout_ms": "how long a connection may wait for its next request",
    "query_parameters": "members of a query or a form, 422 if there are more",
    "failures_per_second": "wrong tokens, or links, of one address; more are answered 429. 0 is no limit",
    "failure_burst": "the burst that is allowed",
    "body_bytes": "the longest body of a request, 413 if it is longer",
    "body_timeout_ms": "how long a body may take to arrive; then 408",
    "long_poll_ms": "how long a claim may wait for work",
    "keep_alive_ms": "how often a quiet stream of events says that it is alive",
    "rate_per_second": "calls of one token or, without tokens, one address; a batch counts its items; 0 is no limit",
    "rate_burst": "the burst that is allowed",
    "payload_body_bytes": "the same where inputs, results, frames or signals are sent",
    "sse_clients": "streams of events that may be open",
    "streams_per_token": "streams of events that one token or, without tokens, one address may have open",
    "waits_per_token": "calls that wait (claims, ends, frames) which one token or address may have open",
    "stop_grace_ms": "how long calls may take to end when the server stops",
    "audit_log": "whether what operators do is logged, by `flowfabric.audit`",
}

# The routes that are not ports: method, path, scope, purpose.
_OTHERS: Final = (
    ("GET", "/healthz", "", "the process answers"),
    ("GET", "/readyz", "", "the store answers, and the server does not stop; 503 otherwise"),
    ("GET", "/openapi.json", "", "the OpenAPI 3.1 document"),
    ("GET", "/metrics", "read", "for Prometheus; a token of all namespaces"),
    ("GET", "/v1/store", "any", "version and partitions"),
    ("POST", "/v1/executions", "submit", "submit a call of a task; the server makes the id"),
    ("POST", "/v1/executions/bulk", "submit", "many at once"),
    ("POST", "/v1/work/claim", "work", "claim work, waiting for some"),
    ("GET", "/v1/work/wakeups", "work", "SSE: where work was announced"),
    ("GET", "/v1/executions/{execution_id}/stream", "read", "SSE: the output of an execution: `frame`, `reset`, `end`"),
    ("GET", "/v1/executions/{execution_id}/events", "read", "SSE: what happens to it: `event`, `end`"),
    ("GET", "/v1/flows/{flow_id}/events", "read", "SSE: its members: `state`, `event`, `end`"),
    ("GET", "/v1/executions/{execution_id}/logs/stream", "read", "SSE: what its handlers log: `record`, `end`"),
    ("GET", "/v1/events/stream", "read", "SSE: a lane, a namespace, a kind or all: `ready`, `event`"),
    ("GET", "/v1/executions/{execution_id}/waitpoints/{waitpoint_id}/signals", "link", "the page of a link"),
    ("POST", "/v1/executions/{execution_id}/waitpoints/{waitpoint_id}/signals", "link", "its answer: a form, or JSON"),
    ("GET", "/v1/executions/{execution_id}/questions", "read", "its open questions, each with the form of its answer"),
    ("POST", "/v1/executions/{execution_id}/waitpoints/{waitpoint_id}/answer", "signal", "the answer of such a form"),
)


def page() -> str:
    lines = [
        "# The server",
        "",
        "Printed from `flowfabric.backends.http.operations` and `ServerSettings`. `/openapi.json` describes requests",
        "and answers; [how to run it](../howto/server.md).",
        "",
        "## Settings",
        "",
        "`flowfabric server --set header_bytes=65536`, or `FLOWFABRIC_SERVER_HEADER_BYTES=65536`, sets any of them;",
        "a list is written with commas.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{each.name}` | `{each.default!r}` | {_SETTINGS[each.name]} |" for each in fields(ServerSettings)]
    lines += ["", "## Scopes", "", "A scope does not include another, except that `admin` includes all."]
    lines += ["An operation in two tables needs one of the two scopes. With `work` alone, `cancel_execution` needs"]
    lines += ["the fence of a lease.", ""]
    for scope in Scope:
        lines += [f"### `{scope}`", "", "| method | address | operation |", "|---|---|---|"]
        found = sorted((each.path, each.method, each.port) for each in OPERATIONS if scope in each.scopes)
        lines += [f"| {method} | `{path}` | `{port}` |" for path, method, port in found]
        lines.append("")
    lines += ["## Addresses that are no ports", "", "| method | address | scope | what it does |", "|---|---|---|---|"]
    lines += [f"| {method} | `{path}` | {scope or '-'} | {told} |" for method, path, scope, told in _OTHERS]
    note = "`link`: the token of the link allows it; without one, the operation `deliver_signal` asks for `signal`."
    return "\n".join([*lines, "", note]) + "\n"
