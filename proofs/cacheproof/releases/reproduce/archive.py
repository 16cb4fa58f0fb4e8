"""One file that makes a case again for people without cacheproof: `python FILE.pyz`, beside the released package."""

from __future__ import annotations

import json
import tempfile
import zipapp
from collections.abc import Iterator
from modulefinder import ModuleFinder
from pathlib import Path

import cachespec
from cacheproof.foundation.errors import InputError
from cacheproof.releases.reproduce import standalone
from cacheproof.releases.reproduce.case import Case
from cacheproof.targets.vllm.release import START

PACKAGE = standalone.__name__.split(".")[:-1]
ROOTS = (Path(standalone.__file__).parents[len(PACKAGE)], Path(cachespec.__path__[0]).parent)
DRIVER = START.parent / "driver"
"""What drives releases; `conform` runs it in a process of its own."""
MAIN = f"""\
import sys

import driver.conversation
from {standalone.__name__} import main

sys.exit(main(driver))
"""


def write(case: Case, path: Path) -> list[str]:
    """Write the archive; the names of its modules. Raises InputError if the file exists or cannot be written."""
    if path.exists():
        raise InputError(f"{path} exists: remove it or name another file")
    packed: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "archive"
        for source, name in (*_modules(case.component), *_driver()):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(source.read_bytes())
            packed.append(name)
        (folder / "__main__.py").write_text(MAIN, encoding="utf-8")
        (folder.joinpath(*PACKAGE) / standalone.CASE).write_text(json.dumps(case.as_message()), encoding="utf-8")
        try:
            zipapp.create_archive(folder, path, compressed=True)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return packed


def _modules(component: str) -> Iterator[tuple[Path, str]]:
    """The modules of ours that the case needs, found by their imports: each file and its place in the archive."""
    finder = ModuleFinder(path=[str(root) for root in ROOTS])
    for name in (standalone.__name__, f"{cachespec.__name__}.{component}"):
        finder.import_hook(name)
    for module in finder.modules.values():
        path = getattr(module, "__file__", None)
        file = Path(path) if path else None
        for root in ROOTS:
            if file is not None and file.is_relative_to(root):
                yield file, file.relative_to(root).as_posix()
                break


def _driver() -> Iterator[tuple[Path, str]]:
    for path in sorted(path for ending in ("py", "toml") for path in DRIVER.rglob(f"*.{ending}")):
        yield path, path.relative_to(DRIVER.parent).as_posix()
