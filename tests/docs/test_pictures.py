"""The pictures of the pages are what the commands beside them draw."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import DEFAULT, LARGE, scope_named, scopes_of

ROOT = Path(__file__).parents[2]


def cacheproof(home: Path, *words: str) -> str:
    environment = {**os.environ, "CACHEPROOF_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "cacheproof", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_reordered_requests_of_the_readme(tmp_path: Path) -> None:
    cacheproof(tmp_path, "check", "mirror", "--variant", "M2", "--scope", "reorder", "--jobs", "1")
    drawn = tmp_path / "reorder.svg"
    words = ("--property", "MIR-2", "--format", "svg", "--output", str(drawn))
    cacheproof(tmp_path, "show", "mirror.M2.reorder.reference", *words)
    assert drawn.read_text() == (ROOT / "docs" / "pictures" / "reorder.svg").read_text()


def test_the_excerpt_of_the_readme_has_the_counts_of_the_scope_files() -> None:
    """Rows of the excerpt: component, variant, scope, states, transitions, depth."""
    page = (ROOT / "README.md").read_text()
    excerpt = page.split("<!-- an excerpt of `make check` -->\n```text\n", 1)[1].split("```", 1)[0]
    rows = [line.split() for line in excerpt.splitlines()[1:] if line.split()[0] in components()]
    assert len(rows) > 5
    for component, variant, scope, states, transitions, depth, *_ in rows:
        golden = scope_named(component_named(component), scope).expectation(variant)
        shown = tuple(int(count.replace(",", "")) for count in (states, transitions, depth))
        assert shown == (golden.states, golden.transitions, golden.depth), (component, variant, scope)


def test_the_totals_of_the_readme_are_those_of_the_scope_files() -> None:
    """How many runs there are with a compiler and without one, and how many states they see."""
    page = (ROOT / "README.md").read_text()
    few, many = totals(DEFAULT), totals(DEFAULT, LARGE)
    assert f"{many[0]} of {many[0]} runs as expected, {many[1]:,} states explored" in page
    assert f"Without a C++ compiler, these are {few[0]} runs with {few[1]:,} states" in page


def totals(*sets: str) -> tuple[int, int]:
    """The runs of these sets, and their states."""
    runs = [
        scope.expectation(variant)
        for component in components().values()
        for scope in scopes_of(component)
        if scope.set in sets
        for variant in scope.variants
    ]
    return len(runs), sum(run.states or 0 for run in runs)
