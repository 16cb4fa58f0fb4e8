"""Recorded violations, attributed to the catalogue as it is now: by their calls, without a release."""

from __future__ import annotations

from collections import Counter

from cacheproof.catalogue.attribution import Attribution, Certainty, attribution
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.releases.results.ids import named
from cacheproof.releases.results.record import Record, Violation


def attribute(record: Record) -> Counter[str]:
    """Attribute the violations that the search found, and name them by that; counts by what is known of the cause.

    Traces of the catalogue keep their entry.
    """
    for violation in record.violations:
        if violation.found == "catalogue":
            violation.certainty = Certainty.CAUSE.value
        elif violation.variant:
            known = attributed(violation)
            violation.catalogue, violation.issues = list(known.catalogue), list(known.issues)
            violation.certainty = known.certainty.value
    named(record.violations)
    return Counter(violation.certainty for violation in record.violations)


def attributed(violation: Violation) -> Attribution:
    """What causes a recorded violation. Raises InputError for calls or a configuration that there are no more."""
    component = component_named(violation.component)
    config = config_from_message(component, violation.config)
    rule = next(each for each in component.properties() if each.name == violation.property)
    calls = [operation_from_message(component.operations, each) for each in violation.operations]
    return attribution(Subject(component, variant_named(component, violation.variant), config), rule, calls)
