"""The trace in the document is one, and the one that the specification makes."""

import json
import re
from pathlib import Path

from cacheproof.model.registry import component_named
from cacheproof.model.trace import record
from cacheproof.model.trace_json import trace_from_message, trace_to_message

DOCUMENT = Path(__file__).parents[3] / "docs" / "formats" / "traces.md"


def test_the_example_is_what_the_specification_does() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    message = json.loads(block)
    trace = trace_from_message(message)
    assert trace_to_message(trace) == message
    lru = component_named("lru")
    assert record(lru, lru.variants["M2"], trace.config, trace.operations, whole_calls=True) == trace
