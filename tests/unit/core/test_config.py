"""Settings: defaults, the environment, and refusals that name the variable."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowfabric.config import Settings
from flowfabric.core.tokens import Kid, SecretHex
from flowfabric.errors import InvalidInput

SECRET = "0f" * 32


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
            "FLOWFABRIC_WAITPOINT_KID": "2030-01",
            "FLOWFABRIC_WAITPOINT_SECRET": SECRET,
            "FLOWFABRIC_WAITPOINT_TOKEN": "k1:ab",
            "FLOWFABRIC_CALLBACK_URL": "https://flows.example.org/api",
            "UNRELATED": "x",
        }
    )
    waiting = {
        "waitpoint_kid": "2030-01",
        "waitpoint_secret": SECRET,
        "waitpoint_token": "k1:ab",
        "callback_url": "https://flows.example.org/api",
    }
    assert settings == Settings("valkey://db:7000", 100, 200, 0, 8, 4, 2, 3, force_library_load=True, **waiting)


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
        ("FLOWFABRIC_WAITPOINT_KID", "has space"),
        ("FLOWFABRIC_WAITPOINT_KID", ""),
        ("FLOWFABRIC_WAITPOINT_SECRET", "abcd"),
        ("FLOWFABRIC_WAITPOINT_SECRET", ""),
        ("FLOWFABRIC_WAITPOINT_TOKEN", ""),
        ("FLOWFABRIC_CALLBACK_URL", ""),
        ("FLOWFABRIC_CALLBACK_URL", "flows.example.org"),
        ("FLOWFABRIC_CALLBACK_URL", "https://flows.example.org/?token=1"),
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


def test_what_is_secret_is_in_no_repr() -> None:
    shown = repr(Settings(url="valkey://user:hunter2@host", waitpoint_secret=SECRET, waitpoint_token="k1:feed"))
    assert not any(each in shown for each in ("hunter2", SECRET, "feed"))


@pytest.mark.parametrize("text", [SECRET + "a", "x" * 32, "ab" * 513])
def test_a_refused_secret_is_not_shown(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Settings(waitpoint_secret=text)
    assert caught.value.field == "waitpoint_secret"
    assert text not in str(caught.value)


@pytest.mark.parametrize("text", ["k1", "k" * 64, "k" * 65, "", "a:b", "a b", "ä", "~!", "a\n"])
def test_a_kid_is_one_for_the_settings_and_for_the_tokens(text: str) -> None:
    assert refuses(lambda: Settings(waitpoint_kid=text)) == refuses(lambda: Kid(text))


@pytest.mark.parametrize("text", ["ab" * 16, "AB" * 512, "ab" * 15, "ab" * 513, SECRET + "a", "zz" * 16, SECRET + "\n"])
def test_a_secret_is_one_for_the_settings_and_for_the_tokens(text: str) -> None:
    assert refuses(lambda: Settings(waitpoint_secret=text)) == refuses(lambda: SecretHex(text))


def refuses(make: Callable[[], object]) -> bool:
    try:
        make()
    except InvalidInput:
        return True
    return False


def test_the_process_environment_is_the_default_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWFABRIC_NUM_FLOW_PARTITIONS", "16")
    assert Settings.from_env().num_flow_partitions == 16
