"""That states which are taken for one behave as one: ranks, exchangeable names, and the normal form of the mirror.

`tests/proofs/search/test_canonical.py` looks at every scope of every normative variant; here the eras are looked at
as well, each in every default scope. Numbers of the eras are compared and copied, never counted up across a gap.
"""

from __future__ import annotations

from itertools import islice

import pytest
from tests.planting import Change, planted
from tests.proofs.search.soundness import disagreements

from cacheproof.model.plan import Plan
from cacheproof.model.scope import DEFAULT, scope_named, scopes_of
from cachespec.kernel import NORMATIVE
from cachespec.mirror import COMPONENT, era_environment, normal_form
from cachespec.mirror.configuration import Config

ERAS = [
    pytest.param(scope.name, tag, id=f"{scope.name}-{tag}")
    for scope in scopes_of(COMPONENT)
    if scope.set == DEFAULT
    for tag in scope.variants
    if tag != NORMATIVE
]


def first_disagreement(tag: str, config: Config, limit_states: int) -> str | None:
    found = disagreements(COMPONENT, COMPONENT.variants[tag], config, Plan(), limit_states=limit_states)
    return next(iter(islice(found, 1)), None)


@pytest.mark.parametrize(("scope", "tag"), ERAS)
def test_the_eras_are_explored_soundly(scope: str, tag: str) -> None:
    assert first_disagreement(tag, scope_named(COMPONENT, scope).config, 120) is None


@pytest.mark.nightly
@pytest.mark.parametrize(("scope", "tag"), ERAS)
def test_the_eras_are_explored_soundly_for_longer(scope: str, tag: str) -> None:
    assert first_disagreement(tag, scope_named(COMPONENT, scope).config, 5_000) is None


@pytest.mark.parametrize("scope", ["reset", "drop", "larger-request"])
def test_the_normative_mirror_is_explored_soundly(scope: str) -> None:
    """Further than in every scope."""
    assert first_disagreement(NORMATIVE, scope_named(COMPONENT, scope).config, 1_200) is None


@pytest.mark.nightly
@pytest.mark.parametrize("scope", ["all-faults", "two-senders", "mixed-sizes", "impatient"])
def test_the_normative_mirror_is_explored_soundly_under_every_fault(scope: str) -> None:
    assert first_disagreement(NORMATIVE, scope_named(COMPONENT, scope).config, 6_000) is None


# That this can fail -------------------------------------------------------------------------------------------------

LOSS = Config(2, (1, 1), drop=1)


def test_numbers_that_mean_more_than_their_order_are_noticed() -> None:
    """Planted: a message follows another that is two before it; but of a gap only that it is one is kept."""
    further = Change(era_environment.in_flight, "$link.applied + 1", "$link.applied + 2")
    assert first_disagreement("M3", LOSS, 400) is None
    with planted(further):
        assert first_disagreement("M3", LOSS, 400) is not None


FORGETFUL = [
    Change(normal_form.normal_message, "$message.generation >= $partition.generation", "False"),
    Change(normal_form.normal_answer, "$answer.generation == $sender.generation", "False"),
    Change(normal_form.normal_sender, "$sender.joined == 1", "$sender.joined == 2"),
]


@pytest.mark.parametrize("change", FORGETFUL, ids=lambda change: change.function.__name__)
def test_a_normal_form_that_forgets_what_is_read_is_noticed(change: Change) -> None:
    with planted(change):
        assert first_disagreement(NORMATIVE, LOSS._replace(reorder=1), 400) is not None
