"""A sequence diagram as Mermaid text, for places that draw it themselves."""

from __future__ import annotations

from cacheproof.model.finding import Finding
from cacheproof.present.show.diagram import EVERYBODY, Arrow, Diagram, Event, Loop, Note, diagram
from cachespec.kernel import Kind

ARROWS = {Kind.CALL: "->>", Kind.INTERNAL: "-->>", Kind.FAULT: "-x"}
"""Calls are solid, what the system does by itself is dashed, a fault ends in a cross."""

SPECIAL = {"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;"}


def to_mermaid(finding: Finding) -> str:
    """The finding as a Mermaid sequence diagram."""
    return drawn(diagram(finding))


def drawn(picture: Diagram) -> str:
    """The text of a diagram."""
    lines = ["sequenceDiagram", f"    title {_escaped(picture.title)}"]
    for place, lane in enumerate(picture.lanes):
        shown = _escaped(lane.name) + (f"<br/>{_escaped(lane.which)}" if lane.which else "")
        lines.append(f"    participant L{place} as {shown}")
    depth = 1
    for event in picture.events:
        depth -= isinstance(event, Arrow | Note | Loop) is False
        lines.append("    " * depth + _event(event, len(picture.lanes)))
        depth += isinstance(event, Loop)
    return "\n".join(lines) + "\n"


def _event(event: Event, lanes: int) -> str:
    if isinstance(event, Arrow):
        return f"L{event.source}{ARROWS[event.kind]}L{event.destination}: {_escaped(event.text)}"
    if isinstance(event, Note):
        text = "<br/>".join(_escaped(line) for line in event.lines)
        over = f"L{event.lane}" if event.lane != EVERYBODY else "L0" if lanes == 1 else f"L0,L{lanes - 1}"
        return f"Note over {over}: {text}"
    if isinstance(event, Loop):
        return f"loop {_escaped(event.text)}"
    return "end"


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
