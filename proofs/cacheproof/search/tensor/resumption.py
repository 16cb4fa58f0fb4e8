"""How far a search is, in the form of a checkpoint, and back: levels of keys, and what was seen by the last of them.

A level is a text of one key a line, its words in decimal. What else is known of a level is computed from it again.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

import cacheimpl
from cacheproof import tensor_models as code
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import replace_file
from cacheproof.model.fingerprint import digest_of
from cacheproof.search.checkpoint import Checkpoint
from cacheproof.search.clock import SearchClock
from cacheproof.search.digest import as_text
from cacheproof.search.result import Coverage
from cacheproof.search.tensor.frontier import Expansion
from cacheproof.search.tensor.judgement import Place, Rule, TensorJudgement
from cacheproof.search.tensor.keys import listed, tensor_of
from cacheproof.search.tensor.refinement import Comparison
from cacheproof.tensor_models.model import TensorModel


class ResumableSearch(Protocol):
    """What of a search goes into a checkpoint and comes back."""

    model: TensorModel
    expansion: Expansion
    judgement: TensorJudgement | None
    comparison: Comparison | None
    clock: SearchClock
    levels: list[Tensor]
    """One tensor [states, words] a level."""
    states: int
    transitions: int
    digest: int
    outcomes: dict[str, Counter[str]]

    def coverage(self) -> Coverage:
        """How often each operation ended with each code."""
        ...

    def take(self, level: Tensor) -> None:
        """Add one level of keys."""
        ...


@cache
def implementation_digest() -> str:
    """Sixteen hexadecimal digits over the tensor code and how it is seen: what a key is taken for depends on both."""
    return digest_of([*map(Path, cacheimpl.__path__), *map(Path, code.__path__)])


def identify(checkpoint: Checkpoint, search: ResumableSearch) -> None:
    """What the counts of this search depend on besides."""
    share = 0.0 if search.comparison is None else search.comparison.share
    checkpoint.identity = {
        **checkpoint.identity,
        "engine": "tensor",
        "implementation": implementation_digest(),
        "share": share,
        "words": search.model.layout.words,
    }


def keep(checkpoint: Checkpoint, search: ResumableSearch) -> None:
    """The level that has just arrived, and what was seen by then."""
    checkpoint.add_level(1, lambda paths: [write_level(Path(paths[0]), search.levels[-1])], lambda: seen(search))


def seen(search: ResumableSearch) -> dict[str, Any]:
    """Everything but the levels, as plain data."""
    judgement, comparison, level = search.judgement, search.comparison, search.levels[-1].shape[0]
    broken = {} if judgement is None else judgement.broken
    return {
        "depth": len(search.levels) - 1,
        "level": level,
        "whole": search.states - level,
        "seconds": search.clock.seconds(),
        "states": search.states,
        "transitions": search.transitions,
        "digest": as_text(search.digest),
        "broken": {name: [place.depth, _plain(place)] for name, place in broken.items()},
        "witnessed": [] if judgement is None else sorted(judgement.witnessed),
        "coverage": search.coverage(),
        "triples": 0 if comparison is None else comparison.triples,
        "compared": 0 if comparison is None else comparison.states,
    }


def resume(checkpoint: Checkpoint, search: ResumableSearch) -> bool:
    """Go on from what was kept, if anything was."""
    if (manifest := checkpoint.kept()) is None:
        return False
    like = search.expansion.start()
    for (path,) in checkpoint.levels():
        search.take(read_level(Path(path), like))
    checkpoint.check_states(manifest, search.states)
    search.transitions, search.clock.earlier = manifest["transitions"], manifest["seconds"]
    search.digest = int(manifest["digest"], 16)
    search.outcomes = {name: Counter(counts) for name, counts in manifest["coverage"].items()}
    if search.comparison is not None:
        search.comparison.triples, search.comparison.states = manifest["triples"], manifest["compared"]
    if search.judgement is not None:
        _recall(search.judgement, manifest, like)
    return True


def _recall(judgement: TensorJudgement, manifest: dict[str, Any], like: Tensor) -> None:
    """Violations and witnesses; a rule is known by its name."""
    judgement.knows(manifest["witnessed"])
    known: list[Rule] = [*judgement.safety, *judgement.steps]
    rules = {rule.name: rule for rule in known}
    for name, (depth, words) in manifest["broken"].items():
        before = None if words is None else listed(tensor_of(tuple(words), like))[0]
        judgement.broken[name] = Place(depth, before, rules[name])


def _plain(place: Place) -> list[int] | None:
    """The words of the key before a violation."""
    key: Any = place.before
    if key is None:
        return None
    return [key] if isinstance(key, int) else list(key)


def write_level(path: Path, words: Tensor) -> str:
    """Write the file whole or not at all; its SHA-256."""
    text = "".join(f"{' '.join(map(str, row))}\n" for row in words.tolist())
    replace_file(path, text)
    return sha256(text.encode("ascii")).hexdigest()


def read_level(path: Path, like: Tensor) -> Tensor:
    """[states, words] int64: the keys of a file that was written here."""
    lines = path.read_text(encoding="ascii").splitlines()
    try:
        rows = torch.tensor([[int(word) for word in line.split(" ")] for line in lines], dtype=torch.int64)
        return rows.reshape(len(lines), like.shape[1]).to(like.device)
    except (ValueError, RuntimeError):
        raise InputError(f"{path}: not a level of a checkpoint") from None
