"""POPE: yes/no questions on images. A benchmark: only the images and their order are real.

One JSON object a line, with `split`, `question_id` and `image`; a file is one set. An image is a content of one slot.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.replay.lines import records
from cacheproof.replay.options import choice, integer
from cacheproof.replay.readers import Reader
from cacheproof.replay.workload import Arrival, Workload

FILE, ROUND_ROBIN, SHUFFLED = "file", "round-robin", "shuffled"


class _Question(NamedTuple):
    split: str
    image: str
    line: int


def _questions(path: Path) -> list[_Question]:
    questions = []
    for record in records(path):
        record.integer("question_id")
        questions.append(_Question(record.text("split"), record.text("image"), record.line))
    return questions


def _in_order(questions: list[_Question], order: str, seed: int) -> list[_Question]:
    """The questions of one set, as recorded, one of each split in turn, or shuffled."""
    if order == ROUND_ROBIN:
        splits: dict[str, list[_Question]] = {}
        for question in questions:
            splits.setdefault(question.split, []).append(question)
        return [question for turn in zip_longest(*splits.values()) for question in turn if question is not None]
    if order == SHUFFLED:
        random.Random(seed).shuffle(questions)  # noqa: S311  # a reproducible order, no secret
    return questions


def _read(paths: Sequence[Path], options: Mapping[str, Any]) -> Workload:
    """One set after the other, each in the order asked for; an image that is in two sets is one content."""
    order, seed = options["order"], options["seed"]
    contents: dict[str, int] = {}
    arrivals = [
        Arrival((contents.setdefault(question.image, len(contents)),), path, question.line)
        for path in paths
        for question in _in_order(_questions(path), order, seed)
    ]
    return Workload(
        title=f"POPE, {order} order",
        unit="slots",
        sizes=(1,) * len(contents),
        arrivals=tuple(arrivals),
        seed=seed if order == SHUFFLED else None,
    )


def _recognises(head: str) -> bool:
    return head.startswith("{") and all(f'"{field}"' in head for field in ("split", "question_id", "image"))


READER = Reader(
    name="pope",
    title="POPE image questions, JSON lines",
    options=(
        choice("order", (FILE, ROUND_ROBIN, SHUFFLED), "as recorded, one question of each split in turn, or shuffled"),
        integer("seed", 0, "of the shuffled order"),
    ),
    recognises=_recognises,
    read=_read,
)
