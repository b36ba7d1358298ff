"""Load the worker that `module` or `module:name` refers to."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from flowfabric.errors import InvalidInput
from flowfabric.worker import Worker


def load_worker(target: str) -> Worker:
    """The worker at `module:name`, or the only worker of `module`; modules in this directory are found first."""
    module_name, _, name = target.partition(":")
    module = _imported(module_name)
    return _only_worker(module, target) if not name else _named_worker(module, name, target)


def check_target(target: str) -> str:
    """The module part of a target, checked for its form."""
    module_name = target.partition(":")[0]
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise InvalidInput("MODULE", target, f"must be the name of a module, not a file: {dotted}")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise InvalidInput("MODULE", target, "must look like package.module or package.module:worker")
    return module_name


def use_this_directory() -> None:
    """Import modules from the current directory, as `python -m` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _imported(module_name: str) -> ModuleType:
    check_target(module_name)
    use_this_directory()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidInput("MODULE", module_name, _trouble(error)) from error
        raise InvalidInput("MODULE", module_name, f"no module named {error.name!r} in {Path.cwd()}") from error
    except Exception as error:
        raise InvalidInput("MODULE", module_name, _trouble(error)) from error


def _trouble(error: Exception) -> str:
    """The error that the import raised, with file and line."""
    if isinstance(error, SyntaxError):
        return f"cannot be imported: {error.msg} ({error.filename}:{error.lineno})"
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename]
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"cannot be imported: {type(error).__name__}: {error}{where}"


def _named_worker(module: ModuleType, name: str, target: str) -> Worker:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Worker):
        raise InvalidInput("MODULE", target, f"{name} is not a Worker in {module.__name__}; {_choice(module)}")
    return found


def _only_worker(module: ModuleType, target: str) -> Worker:
    workers = _workers(module)
    if len(set(map(id, workers.values()))) != 1:
        raise InvalidInput("MODULE", target, _choice(module))
    return next(iter(workers.values()))


def _workers(module: ModuleType) -> dict[str, Worker]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Worker)}


def _choice(module: ModuleType) -> str:
    names = sorted(_workers(module))
    if not names:
        return "the module has no worker; create one with `worker = Worker(...)`"
    return f"choose one of its workers: {', '.join(f'{module.__name__}:{name}' for name in names)}"
