"""Our engines on the peers' scopes. Each exploration has its own process, so that its memory can be compared."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.bench.peers.models import Counts, PeerScope
from cacheproof.bench.peers.process import Finished, succeeded
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named
from cacheproof.search.engines import engine_module, engine_named
from cacheproof.search.native import TRAINED_FROM
from cacheproof.search.result import Ending, Exploration

Subject = tuple[AnyComponent, AnyVariant]

SMALLEST: Mapping[str, PeerScope] = {
    "mirror": PeerScope("mirror", "all-faults", (("outstanding", 1), ("channel", 1))),
    "encoder_cache": PeerScope("encoder_cache", "three-requests"),
}
"""For each component the scope before the one that is measured, and that of small runs."""


class OurRun(NamedTuple):
    """The counts of one exploration, and what it took."""

    counts: Counts
    finished: Finished
    """Its seconds are those of the exploration alone."""


def subject_of(component: str, *, properties: bool = True) -> Subject:
    """A component and its normative variant; without `properties` none is evaluated, and no witness."""
    whole = component_named(component)
    if properties:
        return whole, whole.normative
    # The variant is another object because compiled libraries are known by it.
    return replace(whole, safety=(), steps=(), progress=()), replace(whole.normative)


def explored(scope: PeerScope, engine: str, subject: Subject) -> Exploration:
    """Explore a scope to its end, without symmetry. Raises `InconclusiveError` if the engine stops before."""
    found = engine_named(engine)(*subject, scope.config, scope.plan, None)
    if found.ending is not Ending.EXHAUSTED:
        raise InconclusiveError(f"{scope}: the {engine} engine stopped at {found.states:,} states")
    return found


def explored_apart(scope: PeerScope, engine: str, folder: Path, *, properties: bool) -> OurRun:
    """Explore in a child process, which explores the component's smallest scope first; that is not counted."""
    asked = {"component": scope.component, "scope": scope.scope, "changes": scope.changes}
    message = json.dumps({**asked, "engine": engine, "properties": properties})
    done = succeeded((sys.executable, "-m", __name__, message), folder, f"the {engine} engine")
    answer = json.loads(done.output.splitlines()[-1])
    counts = Counts(answer["states"], answer["transitions"])
    return OurRun(counts, done._replace(seconds=answer["seconds"]))


def main(message: str) -> str:
    """What the child process does: explore as asked, and say what came of it."""
    asked = json.loads(message)
    changes = tuple((name, _as_tuples(value)) for name, value in asked["changes"])
    scope = PeerScope(asked["component"], asked["scope"], changes)
    subject = subject_of(scope.component, properties=asked["properties"])
    engine_module(asked["engine"]).prepare(*subject, TRAINED_FROM)
    explored(SMALLEST[scope.component], asked["engine"], subject)
    started = time.process_time()
    found = explored(scope, asked["engine"], subject)
    seconds = time.process_time() - started
    return json.dumps({"states": found.states, "transitions": found.transitions, "seconds": seconds})


def _as_tuples(value: Any) -> Any:
    """JSON has lists only."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    print(main(sys.argv[1]))  # the parent reads it
