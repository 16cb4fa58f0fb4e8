"""The table of features: what is declared exists, no cell is empty, and a wrong row is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.present.book.features import FEATURES, Condition, Feature
from cacheproof.present.book.features_page import HEADINGS, features_part, features_table

WINDOW = next(feature for feature in FEATURES if feature.name == "sliding window")


def rows(features: tuple[Feature, ...]) -> list[list[str]]:
    """The cells of the table's rows."""
    return [[cell.strip() for cell in line[2:-2].split(" | ")] for line in features_table(features).splitlines()[2:]]


def test_no_cell_is_empty() -> None:
    table = rows(FEATURES)
    assert [row[1] for row in table] == [feature.name for feature in FEATURES]
    assert all(len(row) == len(HEADINGS) and all(row) for row in table)


def test_a_specified_feature_is_explored() -> None:
    explored = {row[1]: row[3] for row in rows(FEATURES)}
    assert [feature.name for feature in FEATURES if feature.component and explored[feature.name] == "no"] == []


def test_a_row_is_computed() -> None:
    (row,) = rows((WINDOW,))
    windows = [scope for scope in scopes_of(component_named("layer_groups")) if 1 in scope.config.kinds]
    assert row[2] == "`layer_groups`: `kinds` has 1"
    assert row[3].startswith(f"`{windows[0].name}`, `{windows[1].name}`")
    assert row[4] == "0.11.0 (K1), 0.20.2 (K1b), 0.33.0 (K2)"
    assert "[C-KV-22](catalogue.md#c-kv-22)" in row[7]


@pytest.mark.parametrize(
    ("condition", "on"),
    [
        (Condition("kinds", "has", 1), True),
        (Condition("kinds", "has", 4), False),
        (Condition("kinds", "several"), True),
        (Condition("spans", "differ"), True),
        (Condition("steps"), True),
        (Condition("external"), False),
        (Condition("resets", "off"), True),
        (Condition("lengths", "reaches", "lengths"), True),
        (Condition("spans", "reaches", "lengths"), False),
    ],
)
def test_conditions_on_a_configuration(condition: Condition, *, on: bool) -> None:
    """The scope `window`: full attention and a window of two tokens, requests of three."""
    (scope,) = (scope for scope in scopes_of(component_named("layer_groups")) if scope.name == "window")
    assert replace(WINDOW, conditions=(condition,)).is_on(scope.config) is on


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"conditions": (Condition("kind", "has", 1),)}, "layer_groups has no setting 'kind'"),
        ({"conditions": (Condition("spans", "reaches", "length"),)}, "layer_groups has no setting 'length'"),
        ({"conditions": (Condition("kinds", "holds"),)}, "there is no condition 'holds'"),
        ({"operations": ("evict_block",)}, "layer_groups has no operation 'evict_block'"),
        ({"component": "groups"}, "groups"),
        ({"interface": "LaterKVCacheManager.append"}, "cacheimpl has no LaterKVCacheManager.append"),
        ({"interface": "LaterKVCacheManager.allocate_slots(drafts)"}, "has no parameter 'drafts'"),
        ({"refused": "a window"}, "the implementation refuses nothing called 'a window'"),
    ],
)
def test_a_wrong_row_is_found(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        features_table((replace(WINDOW, **wrong),))


def test_the_words_of_the_marker() -> None:
    assert "| attention sinks (`SinkFullAttentionSpec`) | KVCacheManager |" in features_part(["refused"])
    assert "| external together with turns | specification of `scheduler` |" in features_part(["refused"])
    assert "| alignment | driver of `scheduler` for vllm==0.7.3, vllm==0.11.0 |" in features_part(["refused"])
    assert "| a session | vllm.BatchedScheduler |" in features_part(["refused"])
    with pytest.raises(InputError, match="say 'table' or 'refused'"):
        features_part(["all"])
