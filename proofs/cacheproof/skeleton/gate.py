"""The file for GitHub Actions that compares a pull request to a vLLM checkout with its base.

docs/ci.md shows and explains it; a test holds the page and this text to be the same.
"""

from __future__ import annotations

from cacheproof.releases.against.running import GATE_SECONDS

PATH = ".github/workflows/cacheproof-gate.yml"
SECONDS = int(GATE_SECONDS)
"""What the comparison takes on two cores."""

TEXT = """\
name: cacheproof gate

on:
  pull_request:

permissions:
  contents: read

env:
  TORCH_SPEC: torch==2.13.0  # a CPU build is enough; PIP_EXTRA_INDEX_URL may name an index that has one

jobs:
  gate:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 2  # the merged branch and, as its first parent, the base
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      # On no package index: keep the wheel in this repository. In a checkout of cacheproof:
      # python -m pip wheel --no-deps --wheel-dir PATH_OF_THIS_REPOSITORY/wheels .
      - name: Install cacheproof
        run: python -m pip install "$(echo wheels/cacheproof-*.whl)"
      - uses: actions/cache@v4
        with:
          path: ~/.cache/cacheproof/targets/environment-*
          key: cacheproof-${{ runner.os }}-${{ env.TORCH_SPEC }}-${{ hashFiles('wheels/*') }}
      - name: The branch and its base
        run: |
          cacheproof target add "vllm@.@HEAD" --era {era}
          cacheproof target add "vllm@.@HEAD^1" --era {era}
      - name: Compare them
        run: >-
          cacheproof conform "vllm@.@HEAD" --against "vllm@.@HEAD^1" --seconds {seconds}
          --junit gate.xml --summary "$GITHUB_STEP_SUMMARY"
      - name: Keep what was found
        if: ${{ !cancelled() }}
        uses: actions/upload-artifact@v4
        with:
          name: cacheproof-gate
          path: gate.xml
          if-no-files-found: ignore
"""


def workflow(era: str) -> str:
    """The file for a checkout that is nearest to this release, such as 0.33.0."""
    return TEXT.replace("{era}", era).replace("{seconds}", str(SECONDS))
