"""The story of a budget and a person runs unattended, and checks what it tells."""

from __future__ import annotations

from tests.integration.test_examples import run


def test_a_budget_stops_the_model_and_an_answer_lets_it_go_on() -> None:
    done = run("-m", "examples.llm_stream.budgeted")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "stopped at 800 of 800 tokens" in done.stdout
    assert "ada raises the limit to 2000 tokens" in done.stdout
    assert "its 2000 tokens were paid for once" in done.stdout
