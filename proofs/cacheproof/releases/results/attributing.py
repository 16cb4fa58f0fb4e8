"""Recorded violations, attributed to the catalogue as it is now: by their calls, without a release."""

from __future__ import annotations

from collections import Counter

from cacheproof.catalogue.attribution import Attribution, Certainty, attribution, is_denied
from cacheproof.lockstep.properties import AnyProperty
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message, outcome_from_message
from cacheproof.releases.results.ids import named
from cacheproof.releases.results.record import Record, Violation
from cachespec.kernel import Operation


def attribute(record: Record) -> Counter[str]:
    """Attribute the violations that the search found, and name them by that; counts by what is known of the cause.

    Traces of the catalogue keep their entry. A violation goes if its calls do not break the property as it is now.
    """
    record.violations[:] = [each for each in record.violations if not is_none(each)]
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
    return attribution(*_read(violation))


def is_none(violation: Violation) -> bool:
    """Whether a call of the search broke a property that asks for less now. Raises InputError as `attributed` does."""
    if not violation.variant or violation.found == "catalogue" or len(violation.outcomes) != len(violation.operations):
        return False
    return is_denied(*_read(violation), [outcome_from_message(each) for each in violation.outcomes])


def _read(violation: Violation) -> tuple[Subject, AnyProperty, list[Operation]]:
    """The era with the configuration, the property and the calls."""
    component = component_named(violation.component)
    config = config_from_message(component, violation.config)
    rule = next(each for each in component.properties() if each.name == violation.property)
    calls = [operation_from_message(component.operations, each) for each in violation.operations]
    return Subject(component, variant_named(component, violation.variant), config), rule, calls
