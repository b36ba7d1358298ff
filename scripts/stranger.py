"""Follow the README and the tutorial as a stranger would: clone, install, and run every block as it is printed.

`python -m scripts.stranger` works in a temporary directory and prints each command with its verdict, then how many
minutes it takes to read both pages. A block that begins with `$` is a console: commands, and below each its output.
`...` in an output stands for any text. `Save as` names the file of the next Python block.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ("README.md", "docs/tutorial.md")
WORDS_A_MINUTE: Final = 200
MINUTES: Final = 15
_COMMAND_S: Final = 120
_BLOCK: Final = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
_FILE: Final = re.compile(r"Save\s+(?:(?:it|this)\s+)?as\s+`(\S+\.py)`")


class Program(NamedTuple):
    """A file to save."""

    name: str
    text: str


class Command(NamedTuple):
    """A command to type, and what the page shows below it."""

    line: str
    output: str
    section: str

    @property
    def stays(self) -> bool:
        """Whether it runs until it is stopped, while the commands that follow use it."""
        return self.line.startswith("flowfabric dev")

    def shows(self, printed: str) -> bool:
        """Whether the page shows what was printed; without any output on the page everything is."""
        pattern = re.escape(self.output.strip()).replace(r"\.\.\.", ".*")
        return not self.output or re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def actions(page: str) -> Iterator[Program | Command]:
    """What a page tells its reader to save and to type, in order."""
    end, section = 0, ""
    for found in _BLOCK.finditer(page):
        before = page[end : found.start()]
        end = found.end()
        section = (re.findall(r"^## (.*)$", before, re.MULTILINE) or [section])[-1]
        kind, text = found.groups()
        names = _FILE.findall(before)
        if kind == "python" and names:
            yield Program(names[-1], text)
        elif text.startswith("$ "):
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                yield Command(line, output, section)


def words(page: str) -> int:
    """How many words of a page are read: its prose, its code and its output."""
    return len(re.findall(r"[\w']+", re.sub(r"\]\([^)]*\)", "]", page)))


def minutes() -> float:
    return sum(words((ROOT / page).read_text()) for page in PAGES) / WORDS_A_MINUTE


class Reader:
    """Somebody at a terminal, in one directory."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = dict(environment)
        self._running: list[tuple[subprocess.Popen[str], str]] = []

    def follow(self, page: str) -> Iterator[tuple[Command, str | None]]:
        """Do what the page says: each command, and what it printed when the page shows something else."""
        try:
            for action in actions(page):
                if isinstance(action, Program):
                    (self._directory / action.name).write_text(action.text)
                    continue
                self._stop(except_of=action.section)
                yield action, self._start(action) if action.stays else self._run(action)
        finally:
            self._stop()

    def _run(self, command: Command) -> str | None:
        done = subprocess.run(
            command.line,
            shell=True,
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
        is_right = done.returncode == 0 and command.shows(done.stdout)
        return None if is_right else f"exit {done.returncode}\n{done.stdout}{done.stderr}"

    def _start(self, command: Command) -> str | None:
        """Start it, and wait until it has printed what the page shows."""
        log = self._directory / "running.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                command.line.split(),
                cwd=self._directory,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._running.append((process, command.section))
        until = time.monotonic() + _COMMAND_S
        while not command.shows(log.read_text()):
            if process.poll() is not None or time.monotonic() > until:
                return log.read_text()
            time.sleep(0.1)
        return None

    def _stop(self, except_of: str | None = None) -> None:
        """Stop what stays, as the reader does before the next section."""
        for process, section in self._running:
            if section != except_of and process.poll() is None:
                process.terminate()
                process.wait(_COMMAND_S)
        self._running = [each for each in self._running if each[1] == except_of]


@contextmanager
def clean_clone() -> Iterator[tuple[Path, dict[str, str]]]:
    """A directory with nothing but a clone and an empty virtual environment, whose `pip` installs the clone."""
    with tempfile.TemporaryDirectory(prefix="flowfabric-stranger-") as name:
        directory = Path(name)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(directory / "flowfabric")], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(directory / "venv")], check=True)
        environment = {**os.environ, "PATH": f"{directory / 'venv/bin'}:{os.environ['PATH']}"}  # noqa: TID251
        environment.pop("FLOWFABRIC_URL", None)
        yield directory, environment


def main() -> int:
    failures = 0
    with clean_clone() as (directory, environment):
        for name in PAGES:
            place = directory / Path(name).stem.lower()
            place.mkdir()
            # The package is installed from the clone, as long as the clone is what is to be tried.
            page = (directory / "flowfabric" / name).read_text().replace("'flowfabric[", f"'{directory}/flowfabric[")
            for command, problem in Reader(place, environment).follow(page):
                failures += problem is not None
                sys.stdout.write(f"{'ok  ' if problem is None else 'FAIL'}  {name}: {command.line}\n{problem or ''}")
    sys.stdout.write(f"{minutes():.1f} minutes to read, at most {MINUTES}\n")
    return 1 if failures or minutes() > MINUTES else 0


if __name__ == "__main__":
    sys.exit(main())
