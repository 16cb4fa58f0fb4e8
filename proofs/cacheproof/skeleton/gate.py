"""The file for GitHub Actions that compares a pull request to a vLLM checkout with its base.

docs/ci.md shows and explains it; a test holds the page and this text to be the same.
"""

from __future__ import annotations

from cacheproof.releases.against.running import GATE_SECONDS
from cacheproof.skeleton.template import filled

PATH = ".github/workflows/cacheproof-gate.yml"
SECONDS = int(GATE_SECONDS)
"""What the comparison takes on two cores."""


def workflow(era: str) -> str:
    """The file for a checkout that is nearest to this release, such as 0.33.0."""
    return filled("gate.yml", era=era, seconds=str(SECONDS))
