"""What the tests of a suite did not see together. Each test notes its part; the summary has the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.ignored import fields_read
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.present.unseen import unseen
from cacheproof.targets.process import InProcessTarget

COMPONENT, VARIANT, SEEN, READ, WANTED = (
    f"cacheproof_{name}" for name in ("component", "variant", "answers", "fields_read", "fields_of_the_specification")
)
"""Properties of a test, which pytest's JUnit XML has too."""


def noticed(subject: Subject, target: InProcessTarget, campaign: Campaign) -> Iterator[tuple[str, str]]:
    """The properties of one test: the answers that came, and the fields of the configuration that were read."""
    yield COMPONENT, subject.component.name
    yield VARIANT, subject.variant.tag
    yield SEEN, " ".join(f"{operation}={code}" for operation, code in sorted(campaign.tally.outcomes))
    yield READ, " ".join(sorted(target.read))
    yield WANTED, " ".join(fields_read(subject))


def summary(name: str, tests: Iterable[Mapping[str, Any]]) -> list[str]:
    """At most two lines about the tests of a suite: what was never called or answered, and what was never read."""
    done = [properties for properties in tests if SEEN in properties]
    if not done:
        return []
    component = component_named(str(done[0][COMPONENT]))
    variant = variant_named(component, str(done[0][VARIANT]))
    seen = [answer.split("=") for properties in done for answer in str(properties[SEEN]).split()]
    lines = unseen(component, variant, [(operation, code) for operation, code in seen]).lines
    unread = {field for one in done for field in str(one[WANTED]).split()}
    unread -= {field for one in done for field in str(one[READ]).split()}
    if unread:
        fields = ", ".join(sorted(unread))
        lines.append(f"never read of the configuration, though the specification reads it: {fields}")
    return [f"{name}: {line}" for line in lines]
