"""Logs of random runs of the specification, and a plain reading of one to compare with."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from typing import Any

from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import Source
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.wire import (
    config_from_message,
    observations_from_message,
    observations_to_message,
    operation_from_message,
    operation_to_message,
    outcome_from_message,
    outcome_to_message,
)
from cachespec.kernel import Code

Message = dict[str, Any]


def header_for(name: str, variant: str = "normative", config: Message | None = None, **more: Any) -> Header:
    """The header of a component, in its first scope where no configuration is given."""
    component = component_named(name)
    chosen = scopes_of(component)[0].config if config is None else config_from_message(component, config)
    return Header(component, variant_named(component, variant), chosen, {}, **more)


def walked(header: Header, steps: int, seed: int, *, observed: bool = True) -> list[Message]:
    """The lines of a random run: calls that the environment makes, with outcomes and all observables."""
    chosen = random.Random(seed)
    component, variant, config = header.component, header.variant, header.config
    state = variant.start(config)
    lines: list[Message] = []
    for _ in range(steps):
        offered = list(variant.alphabet(config, state))
        if not offered:
            break
        operation = chosen.choice(offered)
        state, outcome = variant.call(config, state, operation)
        line: Message = {"operation": operation_to_message(operation), "outcome": outcome_to_message(outcome)}
        if outcome.code is Code.DIVERGED:
            return [*lines, line]
        if observed:
            line["observations"] = observations_to_message(component.observe(config, variant.view(config, state)))
        lines.append(line)
    return lines


def first_impossible(header: Header, lines: Sequence[Message]) -> int | None:
    """The number of the first line that is not what the specification does, as plainly as it can be said."""
    component, variant, config = header.component, header.variant, header.config
    state, over = variant.start(config), False
    for number, line in enumerate(lines, start=2):
        operation = operation_from_message(component.operations, line["operation"])
        state, outcome = variant.call(config, state, operation)
        if over or outcome != outcome_from_message(line["outcome"]):
            return number
        over = outcome.code is Code.DIVERGED
        shown = component.observe(config, variant.view(config, state))
        said = observations_from_message(line.get("observations", {}))
        if not over and any(shown[name] != value for name, value in said.items()):
            return number
    return None


def log_of(header: Header | Message, lines: Sequence[Message]) -> bytes:
    """The log as bytes."""
    first = header.as_message() if isinstance(header, Header) else header
    return b"".join(json.dumps(line).encode() + b"\n" for line in [first, *lines])


def validated(raw: bytes, chunk_bytes: int = 4096, **options: Any) -> Validation:
    """The log, validated to its end or its first impossible line."""
    validation = Validation(Source("log", io.BytesIO(raw), None, chunk_bytes).decompress(), **options)
    validation.run()
    return validation
