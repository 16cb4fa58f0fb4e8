"""The file for GitHub Actions: the implementation held to the specification at every push, and longer every night.

docs/ci.md shows and explains it; a test holds the page and this text to be the same.
"""

from __future__ import annotations

from cacheproof.model.registry import AnyComponent
from cacheproof.skeleton.calls import called

PATH = ".github/workflows/cacheproof.yml"

HEAD = """\
name: cacheproof

on:
  push:
  pull_request:
  schedule:
    - cron: "17 3 * * *"  # every night, with more calls and another seed
  workflow_dispatch:

permissions:
  contents: read

jobs:
  {name}:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      # On no package index: keep the wheel in this repository. In a checkout of cacheproof:
      # python -m pip wheel --no-deps --wheel-dir PATH_OF_THIS_REPOSITORY/wheels .
      - name: Install cacheproof
        run: python -m pip install "$(echo wheels/cacheproof-*.whl)[fuzz,pytest]" pytest-xdist
"""

VECTORS = """\
      - name: The released vectors
        run: cacheproof consume {component} --target "{target}" --junit vectors.xml
"""

PYTEST = """\
      - name: In lockstep with the specification, and the traces of the catalogue
        run: >-
          python -m pytest test_{name}.py --numprocesses auto --junitxml lockstep.xml
          --cacheproof-profile ${{{{ github.event_name == 'schedule' && 'nightly' || 'ci' }}}}
          --cacheproof-write findings
"""

FUZZ = """\
      - name: In lockstep with the specification
        run: >-
          cacheproof fuzz {component} --target "{target}" --junit lockstep.xml
          --profile ${{{{ github.event_name == 'schedule' && 'nightly' || 'ci' }}}}
          --write findings
"""

TAIL = """\
      - name: Keep what was found
        if: ${{ !cancelled() }}
        uses: actions/upload-artifact@v4
        with:
          name: cacheproof-{name}
          path: |
            *.xml
            findings
          if-no-files-found: ignore
"""


def workflow(component: AnyComponent, *, in_python: bool) -> str:
    """The file for one component, for a target in Python or one that speaks the line protocol."""
    name = called(component)
    target = f"python:{name}_target:Target" if in_python else f"exec:python {name}_target.py"
    steps = VECTORS + (PYTEST if in_python else FUZZ)
    filled = (HEAD + steps).format(name=name, component=component.name, target=target)
    return filled + TAIL.replace("{name}", name)
