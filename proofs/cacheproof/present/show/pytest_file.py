"""A finding as a pytest file that stands alone: it fails as long as the finding is present."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from textwrap import wrap

from cacheproof.model.finding import Difference, Finding
from cacheproof.model.registry import component_named
from cacheproof.model.trace import TraceStep, Violation
from cacheproof.model.wire import config_to_message, operation_to_message
from cacheproof.model.wording import outcome_text, remarks, title, unlike_defaults
from cacheproof.present.show.moves import whole_calls
from cacheproof.present.show.reading import Reading

WIDEST = 110
"""Letters of a line of the docstring."""


def to_pytest(finding: Finding) -> str:
    """The text of the file. It needs the package and, for a difference, the target as it was named."""
    trace = finding.trace
    kind = component_named(trace.component).config
    settings = unlike_defaults(kind, config_to_message(trace.config))
    lines = [
        *_docstring(finding),
        "",
        f"from cacheproof.lockstep.reproduction import {_function(finding)}",
        "",
        "CONFIG = {" if settings else "CONFIG: dict[str, object] = {",
        *(f"    {_literal(key)}: {_literal(value)}," for key, value in settings.items()),
        "}",
        "OPERATIONS = [" if trace.steps else "OPERATIONS: list[dict[str, object]] = [",
        *(f"    {_call(step)}," + f"  # {outcome_text(step.outcome)}" for step in trace.steps),
        "]",
        "",
        "",
        f"def {test_name(finding)}() -> None:",
        f"    wrong = {_function(finding)}(",
        *(f"        {argument}," for argument in _arguments(finding)),
        "    )",
        "    assert wrong is None, wrong",
    ]
    return "\n".join(lines) + "\n"


def test_name(finding: Finding) -> str:
    """What the test is called, and its file: of letters, digits and underscores."""
    what = finding.property if isinstance(finding, Violation) else finding.target
    parts = (finding.trace.component, finding.trace.variant, what)
    return "test_" + re.sub(r"[^a-z0-9]+", "_", "_".join(parts).lower()).strip("_")


def _call(step: TraceStep) -> str:
    return _literal(operation_to_message(step.operation))


def _docstring(finding: Finding) -> Iterator[str]:
    heading = f"{title(finding)}: {' / '.join(remarks(finding))}"
    yield f'"""{_cut(_safe(heading))}'
    yield ""
    for rule in Reading(finding).rules if isinstance(finding, Difference) else ():
        yield from (_cut(_safe(line)) for line in wrap(f"{rule}", WIDEST))
    yield "Written by cacheproof; it fails as long as what was found is there."
    if not isinstance(finding, Violation):
        yield "Run it in the folder in which the target was named."
    yield '"""'


def _safe(text: str) -> str:
    return " ".join(text.replace("\\", "/").replace('"""', "'''").split())


def _cut(text: str) -> str:
    """On one line; a quotation mark at its end would end the docstring."""
    short = text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."
    return short + "." if short.endswith('"') else short


def _function(finding: Finding) -> str:
    return "violation" if isinstance(finding, Violation) else "difference"


def _arguments(finding: Finding) -> Iterator[str]:
    trace = finding.trace
    yield f"component={_literal(trace.component)}"
    yield f"variant={_literal(trace.variant)}"
    yield "config=CONFIG"
    if not isinstance(finding, Violation):
        yield f"target={_literal(finding.target)}"
    yield "operations=OPERATIONS"
    if isinstance(finding, Violation):
        yield f"broken={_literal(finding.property)}"
        yield f"whole_calls={whole_calls(trace)}"
        yield f"cycle={trace.cycle}"


def _literal(value: object) -> str:
    """Messages hold strings, integers and arrays only, and those are the same in JSON and in Python."""
    return json.dumps(value)
