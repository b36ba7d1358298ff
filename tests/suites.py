"""The order of a parallel run, and the table at its end: which suite ran on which topology, and how it went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from scripts.ci import in_ci

TESTS = Path(__file__).parent
_NOT_RUN = "not run: "
_TOPOLOGIES = ("embedded", "batched", "cluster", "three_nodes", "http", "standalone")
_SUITES = {
    "/test_state_table": "state table",
    "/test_model": "model",
    "/test_races": "races",
    "/test_bad_input": "bad input",
    "/test_events.py": "events",
    "conformance/": "conformance",
    "refusals/": "refusals write nothing",
    "valkey/wire/": "public wire, plain FCALL",
    "lua/test_library": "library handshake",
    "valkey/lua/": "lua modules and headers",
    "valkey/": "valkey: keys, wire, listening",
    "integration/cluster/": "clusters, failover, migration",
    "integration/store/test_access": "ACL and TLS",
    "integration/handlers/": "workers",
    "integration/ends/": "workers",
    "integration/durable/": "workers",
    "integration/worker/": "workers",
    "integration/test_engine": "engine",
    "integration/": "client, embedded, crashes",
    "server/test_javascript_worker": "worker in JavaScript",
    "server/": "server",
    "cli/": "command line",
    "dashboard/": "dashboard in a browser",
    "docs/": "docs",
    "tools/": "scripts, benchmarks, typing",
    "rust_line/": "a fabric with the Rust line",
    "unit/": "unit",
}

# The files that take longest, longest first. A file runs in one process: a long one that starts last runs alone.
LONGEST = (
    "conformance/limits/test_quota_slots.py",
    "cli/test_cli_dev.py",
    "dashboard/test_views.py",
    "dashboard/test_flows_and_inbox.py",
    "conformance/models/test_limits_model.py",
    "conformance/lanes/test_lane_limits.py",
    "conformance/models/test_model_waits.py",
    "server/test_schemathesis.py",
    "integration/crash/test_quota_kills.py",
    "conformance/models/test_flow_model.py",
    "dashboard/test_executions.py",
    "conformance/models/test_model.py",
    "conformance/models/test_budget_accounting.py",
    "conformance/execution/test_state_table.py",
    "integration/cluster/test_standalone_failover.py",
    "integration/cluster/test_cluster_failover.py",
    "integration/examples/test_example_approval.py",
    "docs/test_tutorial.py",
    "conformance/events/test_events.py",
    "conformance/flows/test_flow_work.py",
    "integration/cluster/test_cluster_client.py",
    "integration/test_many_suspended.py",
    "dashboard/test_demo.py",
    "cli/test_cli_serving.py",
    "integration/examples/test_examples.py",
    "conformance/waits/test_composite_conditions.py",
    "server/tenants/test_strangers.py",
    "valkey/keys/test_key_names.py",
    "cli/test_cli_executions.py",
    "integration/store/test_access_acl.py",
    "conformance/lanes/test_concurrency_keys.py",
    "docs/test_pages.py",
    "integration/examples/test_example_llm_stream.py",
    "integration/cluster/test_cluster_migration.py",
)


def not_run(reason: str) -> NoReturn:
    """Say that the machine lacks what the test needs. The table shows it; in CI it is a failure."""
    if in_ci():
        pytest.fail(f"{_NOT_RUN}{reason}; in CI everything runs", pytrace=False)
    pytest.skip(_NOT_RUN + reason)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_store: where the store's shape matters; runs on every kind of store")
    config.addinivalue_line(
        "markers", "needs(capability): left out on a store that lacks it; see tests/stores/probe.py"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every process of a parallel run sorts alike; `--no-loadscope-reorder` keeps the order."""
    if hasattr(config, "workerinput"):
        turns = {TESTS / file: turn for turn, file in enumerate(LONGEST)}
        items.sort(key=lambda item: turns.get(item.path, len(turns)))


class Row:
    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.seconds = 0.0

    def add(self, outcome: str, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        if outcome and (outcome != "passed" or report.when == "call"):  # a test that was set up has not passed yet
            self.outcomes[_reason(report) or outcome] += 1

    @property
    def wanting(self) -> bool:
        return any(outcome != "passed" for outcome in self.outcomes)

    def __str__(self) -> str:
        said = ", ".join(_tell(outcome, number) for outcome, number in self.outcomes.items())
        return f"{self.seconds:>7.1f} s   {said}"


def _tell(outcome: str, number: int) -> str:
    return f"{outcome} ({number})" if outcome.startswith(_NOT_RUN) else f"{number} {outcome}"


def _reason(report: pytest.TestReport) -> str | None:
    """Why it was not run, in the words of `not_run`."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple | list) else ""
    found = words.partition(_NOT_RUN)[1:]
    return "".join(found) or None


def _row_of(nodeid: str) -> tuple[str, str]:
    suite = next((name for part, name in _SUITES.items() if part in nodeid), "other")
    ids = nodeid.partition("[")[2].rstrip("]").split("-")
    return suite, next((word for word in ids if word in _TOPOLOGIES), "-")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: the table stands below everything else
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    rows: dict[tuple[str, str], Row] = {}
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                rows.setdefault(_row_of(report.nodeid), Row()).add(outcome, report)
    if rows:
        terminalreporter.section("suites")
    for (suite, topology), row in sorted(rows.items()):
        terminalreporter.write_line(f"{suite:<28}{topology:<14}{row}", red=row.wanting)
    if counted := _conformance(terminalreporter):
        told = ", ".join(f"{topology} {counted[topology]}" for topology in _TOPOLOGIES if counted[topology])
        terminalreporter.write_line(f"conformance tests per store: {told}")


def _conformance(terminalreporter: pytest.TerminalReporter) -> Counter[str]:
    """How many conformance tests ran on each kind of store."""
    reports = [
        each for found in terminalreporter.stats.values() for each in found if isinstance(each, pytest.TestReport)
    ]
    ran = [each.nodeid for each in reports if each.when == "call" and "conformance/" in each.nodeid]
    return Counter(_row_of(nodeid)[1] for nodeid in ran)
