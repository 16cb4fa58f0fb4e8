"""No setting of the specification is ignored by the implementation: each changes its tables."""

from __future__ import annotations

from typing import Any

import pytest

from cacheimpl.scheduler.state import Config as Tables
from cacheproof.tensor_models.scheduler import tables_of
from cachespec.scheduler import Config

PLAIN = Config(2, 4, 4, 1, 2, 2, 8, (2, 3), (2, 2), (((0, 0, 1),), ()))


SETTINGS: list[dict[str, Any]] = [
    {"whole_items": 1},
    {"chunked_prefill": 0},
    {"prefix_caching": 0},
    {"long_prefill_threshold": 2},
    {"alignment": 2},
    {"drafts": 1},
    {"policy": 1, "priorities": (0, 1)},
    {"watermark": 1},
    {"stops": (1, 0)},
    {"stops": (1, 0), "min_tokens": (2, 0)},
    {"adapters": (1, 0)},
    {"grammars": (1, 0)},
    {"pipelined": 1},
    {"external": (1, 1)},
    {"external": (1, 1), "loads_later": (0, 1)},
    {"external": (1, 1), "load_failures": 1},
    {"external": (1, 1), "load_failures": 1, "failed_loads_end": 1},
    {"sends": (0, 1)},
    {"turns": (0, 1), "prompts": (2, 4)},
    {"encoder_decoder": 1},
    {"encoder_connector": (2,)},
    {"outputs": (1, 1), "pooling": 1},
]


def shown(tables: Tables) -> list[str]:
    """The tables and switches as text; parts with all that is in them."""
    return [f"{name} {part}" for name, part in tables._asdict().items()]


@pytest.mark.parametrize("setting", SETTINGS, ids=" ".join)
def test_no_setting_is_ignored(setting: dict[str, Any]) -> None:
    """The last one changes something beside the others."""
    others = dict(list(setting.items())[:-1])
    with_it, without_it = (tables_of(PLAIN._replace(**some), "cpu") for some in (setting, others))
    assert shown(with_it) != shown(without_it)


@pytest.mark.parametrize("setting", ["running_resets", "aborts", "resets"])
def test_settings_of_the_environment_change_no_table(setting: str) -> None:
    """They say what callers do, and each has an operation."""
    changed: dict[str, Any] = {setting: 1}
    assert shown(tables_of(PLAIN._replace(**changed), "cpu")) == shown(tables_of(PLAIN, "cpu"))
