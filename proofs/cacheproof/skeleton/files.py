"""Which files a new target has, and how they are written: all of them or none, and over nothing that is there."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent
from cacheproof.skeleton import in_python, over_lines, workflow
from cacheproof.skeleton.calls import called


class Language(Enum):
    """How the implementation is reached."""

    PYTHON = "python"
    """By a class in the same process."""
    EXEC = "exec"
    """By a child process that speaks the line protocol, in any language."""


def texts(component: AnyComponent, language: Language) -> dict[str, str]:
    """The files by their path in the folder."""
    name = called(component)
    if language is Language.PYTHON:
        made = {f"{name}_target.py": in_python.target(component), f"test_{name}.py": in_python.tests(component)}
    else:
        made = {f"{name}_target.py": over_lines.target(component)}
    return {**made, workflow.PATH: workflow.workflow(component, in_python=language is Language.PYTHON)}


def commands(component: AnyComponent, language: Language) -> list[str]:
    """What to run in the folder, first things first."""
    name = called(component)
    if language is Language.EXEC:
        return [f'cacheproof fuzz {component.name} --target "exec:python {name}_target.py"']
    return [
        f"cacheproof fuzz {component.name} --target python:{name}_target:Target",
        f"python -m pytest test_{name}.py",
    ]


def write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write the files; the paths. Raises InputError where one is there, and then nothing has been written."""
    paths = {folder / name: text for name, text in files.items()}
    there = [path for path in paths if path.exists() or path.is_symlink()]
    if there:
        raise InputError(f"{there[0]} is there, and nothing is overwritten: name another folder, or move it away")
    written: list[Path] = []
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except BaseException as error:
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
        raise
    return list(paths)
