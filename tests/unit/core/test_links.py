"""Links that carry a waitpoint's token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.core.ids import ExecutionId, WaitpointId, WaitpointToken
from flowfabric.core.links import SignalLink
from flowfabric.errors import InvalidInput

_EXECUTION_ID = ExecutionId("{fp:3}:5b0a3c1e-8f43-4b8e-9a53-0f4c1b1d2e3f")
_TOKEN = "k1:" + "a" * 64


def _link(signal_name: str | None = None) -> SignalLink:
    return SignalLink(
        execution_id=_EXECUTION_ID,
        waitpoint_id=WaitpointId.new(),
        token=WaitpointToken(_TOKEN),
        signal_name=signal_name,
    )


@given(name=st.none() | st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=40))
def test_a_link_comes_back_from_its_url_whatever_its_signal_is_called(name: str | None) -> None:
    link = _link(name)
    assert SignalLink.parse(link.url("https://agents.example/flowfabric/")) == link


def test_a_link_shows_its_token_in_its_url_only() -> None:
    link = _link()
    assert _TOKEN not in repr(link)
    assert "token=k1%3Aaaaa" in link.url("http://127.0.0.1:9090")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://agents.example",
        f"https://agents.example/v1/executions/x/waitpoints/y/other?token={_TOKEN}",
        "https://agents.example/v1/executions/x/waitpoints/y/signals",
        f"https://agents.example/v1/executions/x/waitpoints/y/signals?token={_TOKEN}",
        f"http://[broken/v1/executions/x/waitpoints/y/signals?token={_TOKEN}",
    ],
)
def test_what_is_no_link_is_refused_without_its_token(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SignalLink.parse(text)
    assert _TOKEN not in str(refused.value)
