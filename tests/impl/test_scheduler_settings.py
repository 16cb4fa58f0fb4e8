"""Settings of the specification that the implementation does not have are refused, and never ignored."""

from __future__ import annotations

from typing import Any

import pytest

from cacheproof.model.target import TargetError
from cacheproof.tensor_models.scheduler import tables_of
from cachespec.scheduler import Config

PLAIN = Config(2, 4, 4, 1, 1, 2, 8, (2, 2), (2, 2))


SETTINGS: list[dict[str, Any]] = [
    {"prefix_caching": 0},
    {"watermark": 1},
    {"stops": (1, 0)},
    {"min_tokens": (1, 0)},
    {"adapters": (1, 0)},
    {"grammars": (1, 0)},
    {"pipelined": 1},
    {"running_resets": 1},
    {"external": (1, 1), "loads_later": (0, 1)},
    {"external": (1, 1), "load_failures": 1},
    {"external": (1, 1), "load_failures": 1, "failed_loads_end": 1},
    {"sends": (0, 1)},
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_that_is_not_there_is_refused(setting: dict[str, Any]) -> None:
    tables_of(PLAIN, "cpu")
    with pytest.raises(TargetError, match="the implementation does not have this setting"):
        tables_of(PLAIN._replace(**setting), "cpu")
