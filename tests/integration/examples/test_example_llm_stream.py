"""The streaming example runs unattended; each of its stories checks what it tells."""

from __future__ import annotations

from tests.integration.examples.test_examples import run


def test_the_llm_stream_example_runs_unattended() -> None:
    done = run("-m", "examples.llm_stream")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "one joins after 500 tokens" in done.stdout
    assert "comes back with the cursor 0:" in done.stdout
    assert "all three saw the same" in done.stdout
    assert "kill -9 after 800 tokens" in done.stdout
    assert "the answer is whole; the second attempt repeated" in done.stdout
    assert "stopped at 800 of 800 tokens" in done.stdout
    assert "its 2000 tokens were paid for once" in done.stdout
