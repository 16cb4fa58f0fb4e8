"""The specification's own source, by name."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

from cacheproof.foundation.errors import InputError

OURS = ("cachespec", "cacheimpl", "cacheproof")


def source_part(words: Sequence[str]) -> str:
    """`cachespec.lru.transitions:put touch`: functions, classes, methods (`Class.method`) and constants of a module."""
    first, *others = [word.rstrip(",") for word in words] or [""]
    module, colon, name = first.partition(":")
    if not colon or not name:
        raise InputError("say what of which module: `source: cachespec.lru.transitions:put touch`")
    text = _text_of(module)
    pieces = [_piece(module, text, wanted) for wanted in (name, *others)]
    return "```python\n" + "\n\n\n".join(pieces) + "\n```"


def _text_of(module: str) -> str:
    """The source of a module, read and not imported: a page that needs no extra stays so."""
    if module.partition(".")[0] not in OURS:
        raise InputError(f"'{module}' is not one of {', '.join(OURS)}")
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise InputError(f"there is no module '{module}'")
    return Path(spec.origin).read_text(encoding="utf-8")


def _piece(module: str, text: str, name: str) -> str:
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        found = next((one for one in getattr(node, "body", ()) if part in _names(one)), None)
        if found is None:
            raise InputError(f"{module} has no '{name}'")
        node = found
    assert isinstance(node, ast.stmt)
    assert node.end_lineno is not None
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return dedent("\n".join(text.splitlines()[first - 1 : node.end_lineno]))


def _names(node: ast.stmt) -> list[str]:
    """What a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
