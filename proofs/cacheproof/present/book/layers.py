"""The layers of the checkers: which there are, whether imports go downwards only, and their drawing.

The drawing and the tables of docs/architecture.md are made of the source: of the imports of each module, and of the
first sentence of its docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from cacheproof.foundation.errors import InputError
from cacheproof.present.book.import_graph import Graph, import_graph, merged
from cacheproof.present.book.tables import markdown_table

LAYERS = (
    *("foundation", "implementation", "model", "suite", "tensor_models", "search", "targets", "lockstep", "catalogue"),
    *("prove", "mutants", "vectors", "detection", "logs", "replay", "bench", "device", "releases", "present"),
    *("skeleton", "pytest_plugin", "command"),
)
"""The packages and modules of `cacheproof`, from the lowest to the highest: each imports lower ones only."""

ENTRIES = ("cacheproof", "cacheproof.__main__")
"""The modules above all layers: what `import cacheproof` and `python -m cacheproof` run."""

PACKAGE = "cacheproof"
SOURCES = {"cachespec": "spec", "cacheimpl": "impl", PACKAGE: "proofs"}
"""The folder of each import package."""

DATA = {"scopes/": "The scope files of the components: what is explored, and what must be found"}
"""Folders of `cacheproof` that hold data only."""

ROW, NAME_WIDTH, HEADINGS, MARGIN = 24, 130, 110, 8
"""Sizes of the drawing in pixels: a row, the names beside the rows, the names above the columns, the edge."""


def layer_of(module: str) -> str | None:
    """The layer that a module of `cacheproof` is in; None for the entries above all layers."""
    return None if module in ENTRIES else module.split(".")[1]


def layer_graph(graph: Graph) -> Graph:
    """What each layer imports, from the imports of all modules of `cacheproof`."""
    return merged(graph, layer_of)


def upward_imports(graph: Graph) -> list[str]:
    """Every import of a module that goes to a higher layer, and every layer that `LAYERS` does not name."""
    unknown = sorted({layer for module in graph if (layer := layer_of(module)) is not None} - set(LAYERS))
    if unknown:
        return [f"LAYERS does not name {layer}" for layer in unknown]
    heights = {layer: height for height, layer in enumerate(LAYERS)}
    return [
        f"{module} imports {imported}"
        for module, imports in sorted(graph.items())
        for imported in sorted(imports)
        if _height(heights, imported) > _height(heights, module)
    ]


def _height(heights: dict[str, int], module: str) -> int:
    layer = layer_of(module)
    return len(LAYERS) if layer is None else heights[layer]


def summary_of(file: Path) -> str:
    """The first sentence of a module's docstring, or nothing."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def modules_part(words: Sequence[str]) -> str:
    """`cachespec`: a table of the modules and packages directly in a package, each with what its docstring says."""
    if len(words) != 1 or words[0] not in SOURCES:
        raise InputError(f"name one package: {', '.join(SOURCES)}")
    rows = [[f"`{name}`", text] for name, text in _members(Path(SOURCES[words[0]]) / words[0])]
    return markdown_table(["module", "what it holds"], rows)


def _members(folder: Path) -> Iterator[tuple[str, str]]:
    """The packages and modules in a folder, as they are written (`lru/`, `layout.py`), each with what it holds."""
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").is_file():
            yield f"{path.name}/", summary_of(path / "__init__.py")
        elif f"{path.name}/" in DATA:
            yield f"{path.name}/", DATA[f"{path.name}/"]
        elif path.suffix == ".py" and path.name != "__init__.py":
            yield path.name, summary_of(path)


def layers_picture(folder: Path = Path(SOURCES[PACKAGE]) / PACKAGE) -> str:
    """The layers as SVG, the highest first: a dot says that the layer of the row imports the layer of the column.

    Imports go downwards only, so all dots are above the diagonal.
    """
    imports = layer_graph(import_graph(folder))
    rows = list(reversed(LAYERS))
    width = NAME_WIDTH + ROW * len(rows) + 2 * MARGIN
    height = HEADINGS + ROW * len(rows) + 2 * MARGIN
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="13">'
        ),
        "<title>The layers of cacheproof, and what each imports</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *(_heading(number, layer) for number, layer in enumerate(rows)),
    ]
    for number, layer in enumerate(rows):
        lines += _row(number, layer, imports.get(layer, frozenset()), rows)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _centre(column: int) -> int:
    return MARGIN + NAME_WIDTH + ROW * column + ROW // 2


def _heading(column: int, layer: str) -> str:
    """The name above a column, from below upwards."""
    x, y = _centre(column) + 4, MARGIN + HEADINGS - 6
    return f'<text x="{x}" y="{y}" transform="rotate(-90 {x} {y})" fill="#1b2733">{layer}</text>'


def _row(number: int, layer: str, imports: frozenset[str], rows: Sequence[str]) -> Iterator[str]:
    top = MARGIN + HEADINGS + ROW * number
    shade = "#f3f6fa" if number % 2 == 0 else "#ffffff"
    yield f'<rect x="{MARGIN}" y="{top}" width="{NAME_WIDTH + ROW * len(rows)}" height="{ROW}" fill="{shade}"/>'
    yield f'<text x="{MARGIN + 6}" y="{top + 16}" fill="#1b2733">{layer}</text>'
    for column, other in enumerate(rows):
        if other == layer:
            yield f'<rect x="{_centre(column) - 6}" y="{top + 6}" width="12" height="12" fill="#b6c2cf"/>'
        elif other in imports:
            title = f"<title>{layer} imports {other}</title>"
            yield f'<circle cx="{_centre(column)}" cy="{top + ROW // 2}" r="5" fill="#1f6feb">{title}</circle>'
