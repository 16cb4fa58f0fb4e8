"""Growth curves as SVG: the time of a unit over the size, one picture for each family of benchmarks with sizes.

Both axes are logarithmic, so a power of the size is a straight line. The module draws without a plotting library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from cacheproof.bench.measure import Benchmark, Row

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 300, 70, 40, 200, 40
COLOURS = ("#c0392b", "#1f5f99", "#2e8b57", "#7e57c2", "#b8860b", "#444444")
STYLE = "text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #243b53 } .axis { stroke: #bcccdc }"
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))

Results = Sequence[tuple[Benchmark, Sequence[Row]]]


class Point(NamedTuple):
    """Seconds of a unit: the median, the least and the most."""

    size: int
    median: float
    least: float
    most: float


class Scale(NamedTuple):
    """Maps values to pixels, logarithmically."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def growth_curves(results: Results) -> str:
    """The document; it leaves out families of one size, which have no curve."""
    families: dict[str, list[tuple[Benchmark, Sequence[Row]]]] = {}
    for benchmark, rows in results:
        if benchmark.at is not None:
            families.setdefault(benchmark.family, []).append((benchmark, rows))
    drawn = [curves for curves in families.items() if len(curves[1]) > 1]
    height = HEIGHT * max(1, len(drawn))
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="growth curves" {size}>',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for place, (family, members) in enumerate(drawn):
        parts.append(f'<g transform="translate(0 {place * HEIGHT})">')
        parts.extend(picture(family, members))
        parts.append("</g>")
    return "\n".join((*parts, "</svg>")) + "\n"


def picture(family: str, members: Sequence[tuple[Benchmark, Sequence[Row]]]) -> Iterator[str]:
    """One family: its axes, and a line for each contender."""
    lines = curves_of(members)
    points = [point for line in lines.values() for point in line]
    sizes = sorted({point.size for point in points})
    across = Scale(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    low, high = 10 ** math.floor(math.log10(min(p.least for p in points))), max(p.most for p in points)
    top = max(10.0 * low, 10 ** math.ceil(math.log10(high)))
    up = Scale(low, top, HEIGHT - BOTTOM, TOP)
    unit = members[0][0].unit
    yield f'<text x="{LEFT}" y="{TOP - 18}">{escape(family)}: one of the {escape(unit)}, over the size</text>'
    yield from _axes(sizes, across, up)
    for number, (contender, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{across(p.size):.1f},{up(p.median):.1f}" for p in line)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for p in line:
            x = f"{across(p.size):.1f}"
            yield f'<line x1="{x}" x2="{x}" y1="{up(p.least):.1f}" y2="{up(p.most):.1f}" stroke="{colour}"/>'
            yield f'<circle cx="{x}" cy="{up(p.median):.1f}" r="3" fill="{colour}"/>'
        y = TOP + 18 * number
        yield f'<rect x="{WIDTH - RIGHT + 20}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{WIDTH - RIGHT + 36}" y="{y}">{escape(contender)}</text>'


def curves_of(members: Sequence[tuple[Benchmark, Sequence[Row]]]) -> dict[str, list[Point]]:
    """The points by contender, in the order of the sizes."""
    lines: dict[str, list[Point]] = {}
    for benchmark, rows in sorted(members, key=lambda member: member[0].at or 0):
        for row in rows:
            rate = row.rate
            point = Point(benchmark.at or 0, 1 / rate.median, 1 / rate.most, 1 / rate.least)
            lines.setdefault(row.contender, []).append(point)
    return lines


def _axes(sizes: Sequence[int], across: Scale, up: Scale) -> Iterator[str]:
    for size in sizes:
        x = f"{across(size):.1f}"
        yield f'<line class="axis" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size:,}</text>'
    exponent = round(math.log10(up.low))
    while 10.0**exponent <= up.high * 1.01:
        y = f"{up(10.0**exponent):.1f}"
        yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 8}" y="{y}" text-anchor="end">{_told(10.0**exponent)}</text>'
        exponent += 1


def _told(seconds: float) -> str:
    size, unit = next((size, unit) for size, unit in UNITS if seconds >= size * 0.999)
    return f"{seconds / size:.0f} {unit}"
