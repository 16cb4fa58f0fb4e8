"""That states of the object store which are taken for one go on as one.

Each state of a scope is stepped beside its normal form: the same operations, with the same outcomes, lead to states
of the same normal form, and the properties say the same of both.
"""

from __future__ import annotations

from itertools import islice

import pytest
from tests.planting import Change, planted
from tests.proofs.search.soundness import disagreements

from cacheproof.model.plan import Plan
from cacheproof.model.scope import DEFAULT, scope_named, scopes_of
from cachespec.kernel import NORMATIVE
from cachespec.object_store import COMPONENT, normal_form

EVERY = [
    pytest.param(scope.name, tag, id=f"{scope.name}-{tag}")
    for scope in scopes_of(COMPONENT)
    if scope.set == DEFAULT
    for tag in scope.variants
]


def first_disagreement(scope: str, tag: str, limit_states: int) -> str | None:
    found = disagreements(
        COMPONENT, COMPONENT.variants[tag], scope_named(COMPONENT, scope).config, Plan(), limit_states=limit_states
    )
    return next(iter(islice(found, 1)), None)


@pytest.mark.parametrize(("scope", "tag"), EVERY)
def test_every_variant_is_explored_soundly(scope: str, tag: str) -> None:
    assert first_disagreement(scope, tag, 120) is None


@pytest.mark.nightly
@pytest.mark.parametrize(("scope", "tag"), EVERY)
def test_every_variant_is_explored_soundly_for_longer(scope: str, tag: str) -> None:
    assert first_disagreement(scope, tag, 5_000) is None


@pytest.mark.parametrize("scope", ["reordered", "faults", "cleared-while-read"])
def test_the_normative_store_is_explored_soundly(scope: str) -> None:
    """Further, where headers are late, P0 dies and readers are in the middle of reading."""
    assert first_disagreement(scope, NORMATIVE, 1_000) is None


# That this can fail -------------------------------------------------------------------------------------------------

FORGETFUL = [
    pytest.param(
        Change(
            normal_form.normal,
            "$place not in $copying and $x",
            "$place not in $copying and store.writing != ()",
        ),
        ("reordered", NORMATIVE, 1_000),
        id="a header that is still there while another is on its way to its place",
    ),
    pytest.param(
        Change(normal_form.normal, "$place not in $copying and $x", "$place not in $copying"),
        ("cleared", NORMATIVE, 400),
        id="what handles name",
    ),
    pytest.param(
        Change(normal_form.normal_of_counts, "$config.stores == 1", "$config.stores == 2"),
        ("reordered", "M3", 400),
        id="the count that P0 finds before the header",
    ),
    pytest.param(
        Change(
            normal_form.with_fewer_rounds,
            "for $identity in $live:\n    $body",
            "for $identity in ():\n    $body",
        ),
        ("cleared-in-the-walk", "M3", 400),
        id="what cancels out on the other side",
    ),
]


@pytest.mark.parametrize(("change", "where"), FORGETFUL)
def test_a_normal_form_that_forgets_what_is_read_is_noticed(change: Change, where: tuple[str, str, int]) -> None:
    with planted(change):
        assert first_disagreement(*where) is not None
