"""How bad a broken property is: declared once, for properties that there are."""

from __future__ import annotations

import pytest

from cacheproof.catalogue.severity import PROPERTIES, SAYS, Severity, severity_of
from cacheproof.lockstep.stalls import Sort
from cacheproof.model.registry import component_named, components


def known() -> set[str]:
    return {rule.name for name in components() for rule in component_named(name).properties()}


def test_each_declared_name_is_that_of_a_property_or_family() -> None:
    families = {name.partition("/")[0] for name in known()}
    declared = [name for names in PROPERTIES.values() for name in names]
    assert set(declared) <= known() | families
    assert len(declared) == len(set(declared)), "each name once"


def test_each_severity_has_its_properties_and_says_what_it_is() -> None:
    found = {severity_of(name) for name in known()}
    assert found == set(Severity) == set(SAYS)


@pytest.mark.parametrize(
    ("rule", "ending", "last", "severity"),
    [
        ("ENC-2", "", "done", Severity.ACCOUNTING),
        ("ENC-2", "", "failed", Severity.DIES),
        ("SCH-8", "stall", "", Severity.HANGS),
        ("SCH-8", "failed", "", Severity.DIES),
        ("LRU-6", "diverged", "diverged", Severity.HANGS),
        ("KV-7/found", "", "hit", Severity.WRONG_DATA),
        ("KV-7/reset", "", "refused", Severity.ACCOUNTING),
        ("KV-1", "", "done", Severity.LEAK),
    ],
)
def test_the_ending_comes_before_the_property(rule: str, ending: str, last: str, severity: Severity) -> None:
    assert severity_of(rule, ending, last) is severity


@pytest.mark.parametrize("sort", Sort)
def test_each_ending_of_a_search_for_stalls_has_a_severity(sort: Sort) -> None:
    wanted = Severity.DIES if sort is Sort.FAILED else Severity.HANGS
    assert severity_of("SCH-8", sort.name.lower()) is wanted
