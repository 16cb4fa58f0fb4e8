"""The file for GitHub Actions: the implementation held to the specification at every push, and longer every night.

docs/ci.md shows and explains it; a test holds the page and this text to be the same.
"""

from __future__ import annotations

from cacheproof.model.registry import AnyComponent
from cacheproof.skeleton.calls import called
from cacheproof.skeleton.template import filled

PATH = ".github/workflows/cacheproof.yml"


def workflow(component: AnyComponent, *, in_python: bool) -> str:
    """The file for one component, for a target in Python or one that speaks the line protocol."""
    name = called(component)
    target = f"python:{name}_target:Target" if in_python else f"exec:python {name}_target.py"
    names = {"name": name, "component": component.name, "target": target}
    lockstep = filled("workflow_in_python.yml" if in_python else "workflow_over_lines.yml", **names)
    return filled("workflow.yml", **names, lockstep=lockstep.rstrip("\n"))
