"""Block numbers are compared up to renaming, and the order of eviction only if it is claimed; other bugs are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ended, Run, ran
from tests.examples.page_pool import BUGS, Adapter

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import Campaign, lockstep
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.reproduction import difference
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.model.target import factory_of
from cacheproof.model.wire import config_to_message, operation_to_message
from cacheproof.targets.factory import open_target
from cacheproof.targets.process import InProcessTarget
from cacheproof.vectors.files import RELEASED
from cachespec.kernel import FROZEN, Code, Observation, Operation, Outcome
from cachespec.kv_blocks import K1, AllocateSlots, Commit, FreeRequest, GetComputedBlocks, Pool
from cachespec.kv_blocks.state import taking

EXAMPLES = Path(__file__).parents[2] / "examples"
KV = component_named("kv_blocks")
VECTORS = (*sorted(RELEASED.glob("kv_blocks.*")), "--allow-partial")
"""All that are released, as a user would take them: the pool skips the cases that need groups or failed loads."""
SCOPES = ("any-call", "copies-evicted", "old-hit", "cascade", "drafts")
SHOWN_BY = {
    "finds one page too few": "shared-prefix",
    "shares what was not written": "drafts",
    "does not count a second holder": "copies-evicted",
    "takes pages for fewer tokens": "planned-again",
}
"""The scope that shows a bug, if it is not `old-hit`."""


def fuzzed(factory: Any, scope: str, steps: int = 400, variant: Any = KV.normative) -> Campaign:
    target = InProcessTarget(factory, KV)
    missing = target.declaration().missing(KV)
    config = scope_named(KV, scope).config
    return lockstep(KV, variant, config, target, steps=steps, seed=5, left_out=missing, seconds_to_shrink=2.0)


class Blind(Adapter):
    """Nothing but its answers is seen."""

    def observe(self) -> dict[str, list[int]]:
        return {}


@pytest.mark.parametrize("factory", [Adapter, Blind])
@pytest.mark.parametrize("scope", SCOPES)
def test_an_allocator_of_its_own_agrees(factory: type[Adapter], scope: str) -> None:
    campaign = fuzzed(factory, scope)
    assert campaign.finding is None
    assert campaign.tally.renaming == "blocks up to renaming, and the order of eviction not at all"
    assert campaign.tally.steps == 400


def test_it_evicts_other_blocks_than_the_specification_would() -> None:
    claiming = type("Claiming", (Adapter,), {"claims": ["eviction_order"]})
    finding = fuzzed(claiming, "old-hit").finding
    assert isinstance(finding, Difference)
    assert fuzzed(type("Numbered", (Adapter,), {"claims": ["names", "eviction_order"]}), "old-hit").finding is not None


@pytest.mark.parametrize("bug", BUGS)
def test_other_bugs_are_found(bug: str) -> None:
    finding = fuzzed(type("Wrong", (Adapter,), {"bug": bug}), SHOWN_BY.get(bug, "old-hit"), 800).finding
    assert isinstance(finding, Difference)
    assert len(finding.trace.steps) <= 9


@pytest.mark.parametrize("bug", ["takes a page that a request uses", "evicts a page and still finds it"])
def test_they_are_found_by_answers_alone(bug: str) -> None:
    finding = fuzzed(type("Wrong", (Blind,), {"bug": bug}), "old-hit", 800).finding
    assert isinstance(finding, Difference)
    assert finding.expected.outcome != finding.actual.outcome


class Renumbered:
    """The specification itself, with other numbers of blocks, in its own order of eviction."""

    claims = ("eviction_order",)
    variant = KV.normative

    def __init__(self, config: Any) -> None:
        self.config, self.state = config, self.variant.start(config)

    def apply(self, operation: Operation) -> Outcome:
        if isinstance(operation, AllocateSlots):
            hits = tuple((hit - 7) // 100 for hit in operation.hits)
            operation = AllocateSlots(operation.request, operation.computed, operation.tokens, hits)
        self.state, outcome = self.variant.call(self.config, self.state, operation)
        if isinstance(operation, GetComputedBlocks | AllocateSlots):
            return Outcome(outcome.code, tuple(100 * value + 7 for value in outcome.values))
        return outcome

    def observe(self) -> Mapping[str, Observation]:
        return {"free": tuple(100 * block + 7 for block in self.variant.view(self.config, self.state).free)}


@pytest.mark.parametrize("variant", [KV.normative, K1])
def test_the_order_of_eviction_can_be_claimed_without_the_numbers(variant: Any) -> None:
    claiming = type("Claiming", (Renumbered,), {"variant": variant})
    campaign = fuzzed(claiming, "old-hit", variant=variant)
    assert campaign.finding is None
    assert campaign.tally.renaming == "blocks up to renaming, and the order of eviction as claimed"


def test_a_name_that_was_never_shown_is_not_asked() -> None:
    pair = Pair(Subject(KV, KV.normative, scope_named(KV, "any-call").config), InProcessTarget(Blind, KV), "blind")
    assert pair.restart() is None
    assert not any(getattr(one, "hits", ()) for one in pair.offered)
    assert pair.replay([AllocateSlots(0, 0, 1, (1,))], only_offered=False) is None
    assert pair.operations == []


def test_the_finding_is_repeated_with_the_targets_own_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = fuzzed(type("Wrong", (Adapter,), {"bug": BUGS[1]}), "old-hit", 800).finding
    assert isinstance(finding, Difference)
    lines = "from page_pool import BUGS, Adapter\n\n\nclass Wrong(Adapter):\n    bug = BUGS[1]\n"
    (tmp_path / "wrong_pool.py").write_text(lines, encoding="utf-8")
    for folder in (EXAMPLES, tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    operations = [operation_to_message(one) for one in finding.trace.operations]
    config = config_to_message(finding.trace.config)
    again = difference("kv_blocks", "normative", config, "python:wrong_pool:Wrong", operations)
    assert again is not None
    assert again.endswith("; ".join(finding.statements))
    assert difference("kv_blocks", "normative", config, "python:page_pool:Adapter", operations) is None


def test_a_claim_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match="nothing is claimed by 'order': there are names, eviction_order"):
        fuzzed(type("Strange", (Adapter,), {"claims": ["order"]}), "old-hit")


def test_targets_of_ours_are_compared_number_by_number() -> None:
    ours = open_target("spec:normative", KV, KV.normative)
    for target in (ours, InProcessTarget(factory_of("kv_blocks", lambda: ours), KV)):
        pair = Pair(Subject(KV, KV.normative, scope_named(KV, "old-hit").config), target, "ours")
        assert pair.restart() is None
        assert pair.tally.renaming == ""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))
    return partial(ran, capsys)


def test_the_command_says_what_is_not_compared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    done = run("fuzz", "kv_blocks", "--target", "python:page_pool:Adapter", "--steps", "100", "--driver", "lockstep")
    assert done.status == 0
    assert "own names: blocks up to renaming, and the order of eviction not at all" in " ".join(done.out.split())


def test_vectors_are_made_with_the_targets_own_choices(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    done = run("consume", *VECTORS, "--target", "python:page_pool:Adapter")
    assert done.status == 0, done.out
    assert "own names: blocks up to renaming, and the order of eviction not at all" in " ".join(done.out.split())


@pytest.fixture
def consumed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Ended]:
    """What `consume` says of the pool with one attribute changed, from a module of this name."""
    for folder in (EXAMPLES, tmp_path):
        monkeypatch.syspath_prepend(str(folder))

    def consume(name: str, attribute: str) -> Ended:
        lines = f"from page_pool import BUGS, Adapter\n\n\nclass Wrong(Adapter):\n    {attribute}\n"
        (tmp_path / f"{name}.py").write_text(lines, encoding="utf-8")
        return run("consume", *VECTORS, "--target", f"python:{name}:Wrong")

    return consume


def test_vectors_find_most_bugs(consumed: Callable[[str, str], Ended]) -> None:
    """Today all twelve. Which are found depends on the cases that are released; that most are does not."""
    statuses = [consumed(f"wrong_{index}", f"bug = BUGS[{index}]").status for index in range(len(BUGS))]
    assert set(statuses) <= {0, 1}
    assert statuses.count(1) >= 10, dict(zip(BUGS, statuses, strict=True))


def test_vectors_find_a_wrong_claim(consumed: Callable[[str, str], Ended]) -> None:
    assert consumed("wrong_claim", "claims = ('eviction_order',)").status == 1


def test_taking_moves_free_blocks_to_the_front_and_no_others() -> None:
    config = scope_named(KV, "old-hit").config
    for variant in (KV.normative, K1):
        pool: Pool = variant.start(config, FROZEN)
        free = pool.free_order()
        last = free[-1]
        assert taking(config, pool, (last,)).free_order() == (last, *free[:-1])
        assert taking(config, pool, (last, last)) is pool
        held, outcome = variant.call(config, pool, AllocateSlots(0, 0, 1, ()))
        assert outcome.code is Code.DONE
        assert taking(config, held, outcome.values) is held
        again, _ = variant.call(config, held, Commit(0, 1))
        freed, _ = variant.call(config, again, FreeRequest(0))
        assert taking(config, freed, outcome.values).free_order()[0] == outcome.values[0]
