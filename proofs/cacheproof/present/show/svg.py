"""A sequence diagram as an SVG picture: drawn here, so that the same trace is always the same bytes.

Widths are reckoned from the number of letters in a fixed-width type, so nothing depends on the fonts of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from cacheproof.model.finding import Finding
from cacheproof.present.show.diagram import EVERYBODY, Arrow, Diagram, Lane, Loop, LoopEnd, Note, Tone, diagram
from cachespec.kernel import Kind

LETTER, LINE = 7.3, 17
"""Pixels: the width of a letter at 12 px in a fixed-width type, and the height of a line."""
MARGIN, GAP, HEADER, ARROW, SPACE = 24, 132, 44, 40, 10
SELF_WIDTH = 34
NOTE_PADDING = 9

STYLE = """
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #243b53 }
.title { font-weight: 600; font-size: 13px } .which { fill: #627d98; font-size: 11px }
.lane { fill: #e6f0fa; stroke: #5b8db8 } .life { stroke: #bcccdc; stroke-dasharray: 4 4 }
.name { font-weight: 600; font-size: 13px }
.call { stroke: #1f5f99; fill: none; stroke-width: 1.5 }
.internal { stroke: #1f5f99; fill: none; stroke-width: 1.5; stroke-dasharray: 6 3 }
.fault { stroke: #c0392b; fill: none; stroke-width: 1.5 } text.fault { stroke: none; fill: #c0392b }
.state { fill: #fff9e6; stroke: #e0c97f }
.wrong { fill: #fdecea; stroke: #c0392b } text.wrong { fill: #96281b; stroke: none }
.loop { fill: none; stroke: #7e57c2; stroke-width: 1.5; stroke-dasharray: 7 4 }
text.loop { fill: #7e57c2; stroke: none; font-weight: 600 }
.halo { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
""".strip()

MARKERS = """
<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
<path d="M0 0L10 5L0 10z" fill="#1f5f99"/></marker>
<marker id="cross" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="9" markerHeight="9" orient="auto">
<path d="M1 1L9 9M9 1L1 9" stroke="#c0392b" stroke-width="2"/></marker>
""".strip()


def to_svg(finding: Finding) -> str:
    """The finding as an SVG document."""
    return drawn(diagram(finding))


def drawn(picture: Diagram) -> str:
    """The document of a diagram."""
    places = _Places.of(picture)
    parts = list(_events(picture, places))
    bottom = places.bottom
    lanes = [*_lifelines(picture, places, bottom), *_headers(picture, places)]
    width, height = round(places.width), round(bottom + MARGIN)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    label = f'role="img" aria-label="{_attribute(picture.title)}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        f"<style>{STYLE}</style>",
        f"<defs>{MARKERS}</defs>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(MARGIN, MARGIN + 2, picture.title, "title", "start"),
    ]
    return "\n".join([*head, *lanes, *parts, "</svg>"]) + "\n"


@dataclass(slots=True)
class _Places:
    """Where the lanes are, how wide the picture is, and how far down the drawing has come."""

    lanes: list[float]
    width: float
    bottom: float = float(MARGIN + 18 + HEADER + SPACE)

    @classmethod
    def of(cls, picture: Diagram) -> _Places:
        """Lanes apart enough for what is written between them, and margins for what is written beside them."""
        gaps = [max(float(GAP), _lane_width(lane) + SPACE) for lane in picture.lanes]
        for event in picture.events:
            if isinstance(event, Arrow):
                _widen(gaps, event)
        left = max([MARGIN + _lane_width(picture.lanes[0]) / 2, *_overhang(picture, gaps, -1)])
        right = max([_lane_width(picture.lanes[-1]) / 2, *_overhang(picture, gaps, 1)])
        across = max((_note_width(event) for event in picture.events if _is_across(event)), default=0.0)
        heading = len(picture.title) * LETTER * 1.1
        needed = left + sum(gaps[:-1]) + right + MARGIN
        width = max(needed, across + 2 * MARGIN, heading + 2 * MARGIN)
        left += (width - needed) / 2
        return cls([left + sum(gaps[:place]) for place in range(len(picture.lanes))], width)


def _widen(gaps: list[float], arrow: Arrow) -> None:
    """An arrow is at least as long as its text; one from a lane to itself has its text beside it."""
    text = len(arrow.text) * LETTER
    first, last = sorted((arrow.source, arrow.destination))
    if first == last:
        gaps[first] = max(gaps[first], text + SELF_WIDTH + 2 * SPACE)
        return
    lacking = text + 3 * SPACE - sum(gaps[first:last])
    if lacking > 0:
        for place in range(first, last):
            gaps[place] += lacking / (last - first)


def _overhang(picture: Diagram, gaps: list[float], side: int) -> Iterator[float]:
    """How far notes and texts reach beyond the first lane (side -1) or the last (side 1)."""
    last = len(picture.lanes) - 1
    for event in picture.events:
        if isinstance(event, Note) and event.lane != EVERYBODY:
            between = sum(gaps[: event.lane]) if side < 0 else sum(gaps[event.lane : last])
            yield _note_width(event) / 2 - between + (MARGIN if side < 0 else 0)
        if isinstance(event, Arrow) and side > 0 and event.source == event.destination == last:
            yield len(event.text) * LETTER + SELF_WIDTH + SPACE


def _headers(picture: Diagram, places: _Places) -> Iterator[str]:
    top = MARGIN + 18
    for lane, x in zip(picture.lanes, places.lanes, strict=True):
        width = _lane_width(lane)
        yield _box(x - width / 2, top, width, HEADER - 8, "lane")
        yield _text(x, top + (16 if lane.which else 23), lane.name, "name")
        if lane.which:
            yield _text(x, top + 30, lane.which, "which")


def _lifelines(picture: Diagram, places: _Places, bottom: float) -> Iterator[str]:
    top = MARGIN + 18 + HEADER - 8
    for x in places.lanes:
        yield f'<path class="life" d="M{x:.1f} {top}V{bottom:.1f}"/>'


def _events(picture: Diagram, places: _Places) -> Iterator[str]:
    loops: list[tuple[float, str]] = []
    for event in picture.events:
        if isinstance(event, Arrow):
            yield from _arrow(event, places)
        elif isinstance(event, Note):
            yield from _note(event, places)
        elif isinstance(event, Loop):
            loops.append((places.bottom, event.text))
            places.bottom += LINE + SPACE
        else:
            yield from _loop(event, places, *loops.pop())


def _arrow(arrow: Arrow, places: _Places) -> Iterator[str]:
    start, end = places.lanes[arrow.source], places.lanes[arrow.destination]
    name = arrow.kind.value
    marker = "cross" if arrow.kind is Kind.FAULT else "head"
    colour = " fault" if arrow.kind is Kind.FAULT else ""
    y = places.bottom + LINE + 5
    if start == end:
        turn = f"M{start:.1f} {y - 8:.1f}h{SELF_WIDTH - 10}q8 0 8 8t-8 8H{start + 3:.1f}"
        yield f'<path class="{name}" d="{turn}" marker-end="url(#{marker})"/>'
        yield _text(start + SELF_WIDTH + 4, y + 4, arrow.text, "halo" + colour, "start")
    else:
        back = -3 if end > start else 3
        yield f'<path class="{name}" d="M{start:.1f} {y:.1f}H{end + back:.1f}" marker-end="url(#{marker})"/>'
        yield _text((start + end) / 2, y - 7, arrow.text, "halo" + colour)
    places.bottom += ARROW - (0 if start == end else 8)


def _note(note: Note, places: _Places) -> Iterator[str]:
    across = note.lane == EVERYBODY
    width = places.width - 2 * MARGIN if across else _note_width(note)
    x = MARGIN if across else places.lanes[note.lane] - width / 2
    height = len(note.lines) * LINE + NOTE_PADDING
    yield _box(x, places.bottom, width, height, note.tone.value)
    kind = "wrong" if note.tone is Tone.WRONG else ""
    for number, line in enumerate(note.lines):
        yield _text(x + width / 2, places.bottom + LINE * (number + 1), line, kind)
    places.bottom += height + SPACE


def _loop(end: LoopEnd, places: _Places, top: float, text: str) -> Iterator[str]:
    yield _box(MARGIN / 2, top, places.width - MARGIN, places.bottom - top, "loop")
    yield _text(MARGIN, top + LINE, f"loop: {text}", "loop", "start")
    places.bottom += SPACE


def _is_across(event: object) -> bool:
    return isinstance(event, Note) and event.lane == EVERYBODY


def _lane_width(lane: Lane) -> float:
    return max(len(lane.name) * LETTER * 1.1, len(lane.which) * LETTER) + 28


def _note_width(event: object) -> float:
    lines = event.lines if isinstance(event, Note) else ()
    return max(map(len, lines), default=0) * LETTER + 2 * NOTE_PADDING


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _attribute(text: str) -> str:
    return escape(text, {'"': "&quot;"})
