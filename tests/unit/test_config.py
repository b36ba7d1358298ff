"""Settings: defaults, the environment, and refusals that name the variable."""

from __future__ import annotations

import pytest

from flowfabric.config import Settings
from flowfabric.errors import InvalidInput


def test_an_empty_environment_gives_the_defaults() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings().url == "embedded://"
    assert Settings().num_flow_partitions == 256


def test_every_setting_is_read_from_its_variable() -> None:
    settings = Settings.from_env(
        {
            "FLOWFABRIC_URL": "valkey://db:7000",
            "FLOWFABRIC_CONNECT_TIMEOUT_MS": "100",
            "FLOWFABRIC_COMMAND_TIMEOUT_MS": "200",
            "FLOWFABRIC_RETRY_BUDGET_MS": "0",
            "FLOWFABRIC_NUM_FLOW_PARTITIONS": "8",
            "FLOWFABRIC_NUM_BUDGET_PARTITIONS": "4",
            "FLOWFABRIC_NUM_QUOTA_PARTITIONS": "2",
            "FLOWFABRIC_LANE_SHARDS": "3",
            "FLOWFABRIC_FORCE_LIBRARY_LOAD": "yes",
            "UNRELATED": "x",
        }
    )
    assert settings == Settings("valkey://db:7000", 100, 200, 0, 8, 4, 2, 3, force_library_load=True)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("FLOWFABRIC_COMMAND_TIMEOUT_MS", "ten"),
        ("FLOWFABRIC_COMMAND_TIMEOUT_MS", "0"),
        ("FLOWFABRIC_CONNECT_TIMEOUT_MS", ""),
        ("FLOWFABRIC_RETRY_BUDGET_MS", "-1"),
        ("FLOWFABRIC_NUM_FLOW_PARTITIONS", "65536"),
        ("FLOWFABRIC_LANE_SHARDS", "-1"),
        ("FLOWFABRIC_LANE_SHARDS", "1025"),
        ("FLOWFABRIC_FORCE_LIBRARY_LOAD", "maybe"),
        ("FLOWFABRIC_URL", ""),
    ],
)
def test_a_malformed_variable_is_refused_by_name(variable: str, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Settings.from_env({variable: text})
    assert caught.value.field == variable


@pytest.mark.parametrize("value", [0, -5, 1.5, True, "100", None])
def test_a_setting_out_of_bounds_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidInput, match="connect_timeout_ms"):
        Settings(connect_timeout_ms=value)  # type: ignore[arg-type]


def test_the_url_is_in_no_repr() -> None:
    assert "secret" not in repr(Settings(url="valkey://user:secret@host"))


def test_the_process_environment_is_the_default_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWFABRIC_NUM_FLOW_PARTITIONS", "16")
    assert Settings.from_env().num_flow_partitions == 16
