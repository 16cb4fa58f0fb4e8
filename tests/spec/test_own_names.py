"""Observables with other names: in the order that their declaration wants; those of another form stay as they are."""

from __future__ import annotations

import pytest

from cachespec.kernel.own_names import Names, Renamed, each, pairs, rows
from cachespec.kv_blocks import COMPONENT


@pytest.mark.parametrize(
    ("form", "value", "renamed"),
    [
        (each, (1, 2), (8, 7)),
        (pairs, (1, 5, 2, 6), (7, 6, 8, 5)),
        (pairs, (1, 5, 2), (1, 5, 2)),
        (rows, (3, 2, 1, 2, 4, 0), (3, 2, 8, 7, 4, 0)),
        (rows, (3, 2, 1), (3, 2, 1)),
        (rows, (3, -1, 1), (3, -1, 1)),
        (rows, (3,), (3,)),
    ],
)
def test_a_value_with_other_names(form: Renamed, value: Names, renamed: Names) -> None:
    assert form(value, lambda name: 9 - name) == renamed


def test_every_observable_with_blocks_is_renamed() -> None:
    own = COMPONENT.own_names
    assert own is not None
    with_blocks = {name for name, text in COMPONENT.observables.items() if own.sort in text}
    assert with_blocks == set(own.shown)
    assert own.order in own.shown
