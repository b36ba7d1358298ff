"""Commands on a server that asks for a token, and the commands that run one: what is missing is said in one line."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.cli.commands.server import server_settings
from flowfabric.server.settings import ServerSettings
from tests.cli.harness import Ran, run
from tests.http_server import HttpServer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
def reader(file: Path) -> str:
    """A token that may look, and do nothing else."""
    ran = run("token", "new", "ada", "--scope", "read", "--tokens", str(file), "--json")
    token: str = ran.json["token"]
    return token


@pytest.fixture
def guarded(cli_server: EmbeddedServer, file: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings = ServerSettings(tokens=str(file))
    server = HttpServer(f"embedded://{cli_server.directory}", settings, manual_clock=False)
    monkeypatch.setenv("FLOWFABRIC_URL", server.url)
    yield
    server.stop()


def refused(*words: str) -> str:
    """What a command says that ends with 2, in one line."""
    ran: Ran = run(*words)
    assert (ran.code, ran.stderr.count("\n")) == (2, 1), (ran.stdout, ran.stderr)
    return ran.stderr


@pytest.mark.usefixtures("guarded")
def test_without_a_token_or_with_an_unknown_one_it_is_said_where_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "give a token" in refused("ls")
    monkeypatch.setenv("FLOWFABRIC_TOKEN", "fft_unknown")
    said = refused("ls")
    assert "unknown token; set FLOWFABRIC_TOKEN" in said
    assert "fft_unknown" not in said


@pytest.mark.usefixtures("guarded")
def test_a_token_that_may_not_is_told_what_it_lacks(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWFABRIC_TOKEN", reader)
    assert run("ls").code == 0
    pause = ("lanes", "pause", "x")
    for words, scope in ((("submit", "greet"), "submit or work"), (pause, "operate"), (("engine",), "admin or work")):
        assert f"the token 'ada' lacks the scope {scope}; it has: read" in refused(*words)


def test_files_of_tokens_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "tokens.json")
    assert "tokens: cannot be written" in refused("token", "new", "ada", "--scope", "read", "--tokens", nowhere)
    assert "tokens: cannot be read" in refused("server", "--tokens", nowhere, "--port", "0", "--url", "embedded://")


@pytest.mark.parametrize("command", ["server", "dev"])
def test_a_port_that_somebody_has_is_told(command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(command, "--port", str(port), "--url", "embedded://", "--log-level", "error")
    assert f"choose another one, or 0 for a free one (got '127.0.0.1:{port}')" in said


def test_an_address_without_a_scheme_is_told_those_of_servers_too() -> None:
    assert "valkeys+cluster, http, https" in refused("ls", "--url", "127.0.0.1:9090")


def test_a_file_of_tokens_that_others_may_write_is_refused(file: Path, reader: str) -> None:
    file.chmod(0o666)
    said = refused("server", "--tokens", str(file), "--port", "0", "--url", "embedded://")
    assert "tokens: has mode 666: others may write it; run: chmod 600" in said
    assert "chmod 600" in refused("token", "new", "bob", "--scope", "read", "--tokens", str(file))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "colour=red"), "--set: must be NAME=VALUE, with one of host, port, tokens"),
        (("--set", "header_bytes"), "--set: must be NAME=VALUE"),
        (("--set", "header_bytes=many"), "header_bytes: must be a whole number"),
        (("--set", "header_bytes=1"), "header_bytes: must be from 1024 to 1048576"),
        (("--proxy", "nginx"), "proxies: must be an address, like 10.0.0.7, or a network"),
    ],
)
def test_a_setting_that_cannot_be_is_told(words: tuple[str, ...], said: str) -> None:
    assert said in refused("server", *words, "--url", "embedded://")


def test_an_option_goes_before_set_and_that_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PORT", "1"), ("HEADER_BYTES", "2048"), ("PROXIES", "10.0.0.1, 10.1.0.0/16")):
        monkeypatch.setenv(f"FLOWFABRIC_SERVER_{name}", value)
    found = server_settings(["header_bytes=4096", "audit_log=no"], {"port": 7, "host": None})
    assert (found.port, found.header_bytes, found.host, found.audit_log) == (7, 4_096, "127.0.0.1", False)
    assert found.proxies == ("10.0.0.1", "10.1.0.0/16")
