"""`explore`: the same seed gives the same configurations and findings, in however many processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command_line import ran

from cacheproof.catalogue.attribution import Attribution
from cacheproof.foundation.errors import InputError
from cacheproof.model.configurations import drawn
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.model.scope import STATES_OF_DRAWN, drawn_name, scope_named, scopes_of
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.model.trace import Violation
from cacheproof.model.varied import varied
from cacheproof.releases.repeating import refusal
from cacheproof.search import drawn as module
from cacheproof.search.campaign import Run
from cacheproof.search.drawn import Amount, Broken, Drawn, explore_drawn
from cacheproof.search.path import Graph, UnsoundReductionError
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.worker import REFERENCE

LRU, RING = component_named("lru"), component_named("ring")


def quiet(line: str) -> None:
    """No progress."""


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is compiled for these few states, and no test sees the runs that another one keeps."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    monkeypatch.setattr(module, "_engine", lambda component, variant, announce: REFERENCE)


def results(component: AnyComponent, variant: str, *, first: int = 0, configurations: int = 6, jobs: int = 1) -> Drawn:
    amount = Amount(configurations=configurations, first=first, states=400, seconds=None, shrinking=0)
    done = explore_drawn([(component, component.variants[variant])], 1, amount, jobs, quiet, quiet)
    assert done.whole
    assert not done.interrupted
    (one,) = done.drawn
    return one


def of_property(one: Drawn) -> dict[str, Broken]:
    """Here no two violations of a property are told apart."""
    return {sort.property: broken for sort, broken in one.broken.items()}


def shown(one: Drawn) -> dict[str, tuple[str, int, int]]:
    return {
        name: (broken.run.task.scope, len(broken.violation.trace.steps), broken.configurations)
        for name, broken in sorted(of_property(one).items())
    }


def test_an_era_breaks_what_the_normative_rules_hold() -> None:
    era, normative = results(LRU, "M2", configurations=12), results(LRU, "normative")
    assert normative.broken == {}
    assert {"LRU-5", "LRU-8"} <= set(of_property(era))
    assert of_property(era)["LRU-5"].violation.trace.variant == "M2"
    assert len(of_property(era)["LRU-5"].violation.trace.steps) == 1, "a touch of a key that is not there"


def test_the_number_of_processes_changes_nothing() -> None:
    alone, shared = results(LRU, "M2"), results(LRU, "M2", jobs=2)
    assert shown(alone) == shown(shared)
    assert (alone.states, alone.exhausted, alone.witnessed) == (shared.states, shared.exhausted, shared.witnessed)


def test_another_seed_and_other_numbers_are_other_configurations() -> None:
    first = [drawn(LRU, 1, number) for number in range(4)]
    assert first != [drawn(LRU, 2, number) for number in range(4)]
    assert first != [drawn(LRU, 1, number) for number in range(4, 8)]
    assert results(LRU, "normative").states != results(LRU, "normative", first=6).states


def test_a_limit_is_no_exhaustion() -> None:
    one = results(LRU, "normative")
    assert one.configurations == 6
    assert one.exhausted < 6
    assert one.states >= 400


def test_the_shortest_trace_of_the_lowest_number_is_shown() -> None:
    best = of_property(results(LRU, "M2", configurations=12))["LRU-8"]
    length, number = len(best.violation.trace.steps), module.number_of(best.run.task.scope)
    for earlier in range(number):
        alone = of_property(results(LRU, "M2", first=earlier, configurations=1))
        assert "LRU-8" not in alone or len(alone["LRU-8"].violation.trace.steps) > length
    assert len(of_property(results(LRU, "M2", first=number, configurations=1))["LRU-8"].violation.trace.steps) == length


def test_time_that_is_over_ends_it() -> None:
    amount = Amount(configurations=500, first=0, states=400, seconds=0.001, shrinking=0)
    done = explore_drawn([(LRU, LRU.normative), (RING, RING.normative)], 1, amount, 1, quiet, quiet)
    assert not done.whole
    assert not done.interrupted
    assert sum(one.configurations for one in done.drawn) == 1


def test_an_interrupted_run_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> Iterator[Run]:
        yield from ()  # as when the variants are still compiled

    monkeypatch.setattr(module, "perform_all", interrupted)
    done = explore_drawn([(LRU, LRU.normative)], 1, Amount(3, 0, 400, None, 0), 1, quiet, quiet)
    assert done.interrupted
    assert not done.whole


def test_an_interruption_of_the_shortening_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*given: object) -> Exploration:
        return Exploration("lru", "M2", REFERENCE, 0, 0, 0, "", Ending.INTERRUPTED)

    monkeypatch.setattr("cacheproof.search.plainest.engine_named", lambda name: ended)
    done = explore_drawn([(LRU, LRU.variants["M2"])], 1, Amount(2, 0, 400, None, 10), 1, quiet, quiet)
    assert (done.interrupted, done.whole) == (True, True)
    assert "LRU-5" in of_property(done.drawn[0])


# By name ------------------------------------------------------------------------------------------------------------


def test_a_drawn_configuration_is_a_scope() -> None:
    scope = scope_named(LRU, drawn_name(1, 4))
    assert scope.config == drawn(LRU, 1, 4)
    assert scope.plan.limit_states == STATES_OF_DRAWN
    assert scope.variants == tuple(LRU.variants)


def test_every_second_configuration_is_a_change_of_a_scope() -> None:
    """A generator draws what it was written for; a change reaches every field."""
    configurations = [scope.config for scope in scopes_of(LRU)]
    assert scope_named(LRU, drawn_name(1, 3)).config == varied(LRU, configurations, 1, 3)


@pytest.mark.parametrize(
    ("component", "name", "wrong"),
    [
        ("lru", "drawn-99999999999-1", "has no scope"),
        ("lru", "drawn-1", "has no scope"),
        ("lru", "drawn-9999999999-1", "at most 4,294,967,296"),
    ],
)
def test_what_is_no_drawn_scope_is_refused(component: str, name: str, wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        scope_named(component_named(component), name)


# The verb -----------------------------------------------------------------------------------------------------------


def test_a_violation_fails_and_can_be_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    call = ("lru", "--variant", "M2", "--seed", "1", "--configurations", "3", "--states", "400", "--jobs", "1")
    report = tmp_path / "explore.xml"
    ended = ran(capsys, "explore", *call, "--junit", report, "--json")
    assert ended.status == 1
    assert (ended.json["seed"], ended.json["whole"]) == (1, True)
    (variant,) = ended.json["variants"]
    violated = {one["property"]: one for one in variant["violated"]}
    first = violated["LRU-5"]
    assert first["drawn"]["capacity"] == drawn(LRU, 1, 0).capacity
    assert (first["configuration"]["capacity"], len(first["configuration"]["sizes"])) == (1, 1), "made plainer"
    assert "LRU-5" in report.read_text(encoding="utf-8")
    again = ran(capsys, "show", violated["LRU-5"]["run"], "--property", "LRU-5")
    assert again.status == 0
    assert "LRU-5 does not hold" in again.out
    assert "configuration: capacity 1, sizes [0]" in again.out


@pytest.mark.parametrize(
    ("target", "same", "says"),
    [
        ("spec:M2", True, "spec:M2 does the same in 1 call"),
        ("spec:normative", False, "spec:normative does otherwise in call 1: order: the era M2 has [0], the target []"),
    ],
)
def test_a_trace_is_repeated_on_a_target(
    target: str, same: bool, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ("lru", "--variant", "M2", "--seed", "1", "--configurations", "1", "--states", "400", "--jobs", "1")
    ended = ran(capsys, "explore", *call, "--target", target, "--json")
    violated = {one["property"]: one for one in ended.json["variants"][0]["violated"]}
    assert violated["LRU-5"]["target"]["same"] == same
    assert violated["LRU-5"]["target"]["sentence"] == says
    assert violated["LRU-5"]["catalogue"] == ["C-MIR-10"]


def test_a_configuration_that_a_release_is_not_compared_in_is_no_evidence() -> None:
    scheduler = component_named("scheduler")
    variant = scheduler.variants["S3"]
    config = drawn(scheduler, 1, 0)._replace(ahead=2, external=(1,), running_resets=1)
    assert "is not compared with vllm==0.33.0" in (refusal("vllm==0.33.0", scheduler, variant, config) or "")
    assert refusal("spec:S3", scheduler, variant, config) is None


def test_a_field_for_which_a_release_has_one_value_is_compared_with_that() -> None:
    store = component_named("object_store")
    config = drawn(store, 1, 0)
    released, other = (refusal("vllm==0.33.0", store, store.variants["M3"], config._replace(header=n)) for n in (8, 4))
    assert released is None
    assert other == "header other than 8 is not compared with vllm==0.33.0"
    small = config._replace(header=8, payloads=(4, *config.payloads[1:]))
    said = refusal("vllm==0.33.0", store, store.variants["M3"], small)
    assert said == "payloads below 5 are not compared with vllm==0.33.0"


def test_a_suitable_configuration_is_shown_rather_than_a_shorter_trace() -> None:
    amount = Amount(configurations=6, first=0, states=400, seconds=None, shrinking=0)
    subjects = [(LRU, LRU.variants["M2"])]
    plain = of_property(explore_drawn(subjects, 1, amount, 1, quiet, quiet).drawn[0])["LRU-5"]
    small = plain.run.scope.config
    asked = lambda component, variant: lambda config: config != small  # noqa: E731  # shorter so
    other = of_property(explore_drawn(subjects, 1, amount, 1, quiet, quiet, asked).drawn[0])["LRU-5"]
    assert other.run.scope.config != small
    assert other.configurations == plain.configurations


def test_a_property_is_shown_once_for_each_cause() -> None:
    """Also in the plainest configuration, the violation has the cause for which it is shown."""

    def by_capacity(violation: Violation) -> str:
        return "odd" if violation.trace.config.capacity % 2 else "even"

    amount = Amount(configurations=6, first=0, states=400, seconds=None, shrinking=20)
    one = explore_drawn(
        [(LRU, LRU.variants["M2"])], 1, amount, 1, quiet, quiet, sorts=lambda component, variant: by_capacity
    ).drawn[0]
    found = {
        sort.cause: broken.violation.trace.config for sort, broken in one.broken.items() if sort.property == "LRU-5"
    }
    assert {cause: config.capacity for cause, config in found.items()} == {"odd": 1, "even": 2}
    assert all(by_capacity(broken.violation) == sort.cause for sort, broken in one.broken.items())
    together = of_property(results(LRU, "M2"))["LRU-5"].configurations
    assert sum(broken.configurations for sort, broken in one.broken.items() if sort.property == "LRU-5") == together


def without_mends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault of the catalogue: nothing mends C-MIR-10."""
    monkeypatch.setattr("cacheproof.command.explore.attribution", lambda subject, rule, calls: Attribution())
    monkeypatch.setattr("cacheproof.command.explore.together", lambda subject, rule, calls: ())


def test_a_violation_without_a_known_cause_comes_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("lru", "--variant", "M2", "--seed", "1", "--configurations", "3", "--states", "400", "--jobs", "1")
    ended = ran(capsys, "explore", *call)
    assert "LRU-5 is violated in 1 operation: drawn-1-0, and 2 other configurations (caused by C-MIR-10)" in ended.out
    without_mends(monkeypatch)
    ended = ran(capsys, "explore", *call, "--json")
    assert {one["certainty"] for one in ended.json["variants"][0]["violated"]} == {"new"}
    ended = ran(capsys, "explore", *call)
    assert "(no entry of the catalogue is known to cause it)" in ended.out


@pytest.mark.parametrize(("target", "status"), [("spec:M2", 1), ("spec:normative", 0)])
def test_what_is_known_can_be_left_out(
    target: str, status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A violation of no known cause counts if the target does the same."""
    call = ("lru", "--variant", "M2", "--seed", "1", "--configurations", "2", "--states", "400", "--jobs", "1")
    known = ran(capsys, "explore", *call, "--unknown")
    assert known.status == 0
    assert "is violated" not in known.out
    without_mends(monkeypatch)
    assert ran(capsys, "explore", *call, "--unknown").status == 1
    ended = ran(capsys, "explore", *call, "--unknown", "--target", target)
    assert ended.status == status
    assert ("LRU-5 is violated" in ended.out) == (status == 1)


def test_a_violation_that_no_release_can_show_is_no_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    """S3: items that are not split, in a model whose states are kept at multiples. 0.33.0 does not start with both."""
    call = ("scheduler", "--variant", "S3", "--seed", "1", "--from", "60", "--configurations", "1", "--shrink", "0")
    reason = "alignment together with whole_items is not compared with vllm==0.33.0"
    ended = ran(capsys, "explore", *call)
    assert ended.status == 1
    assert "SCH-8 is violated" in ended.out
    assert f"no release is compared in this configuration: {reason}" in ended.out
    (violated,) = ran(capsys, "explore", *call, "--json").json["variants"][0]["violated"]
    assert violated["not_compared"] == reason
    assert ran(capsys, "explore", *call, "--unknown").status == 0


def test_a_wrong_reduction_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: all counterexamples are none. The run is made again without reductions, and says so."""

    def never(graph: Graph, *given: object) -> None:
        raise UnsoundReductionError("planted")

    monkeypatch.setattr("cacheproof.search.reference.violation_at", never)
    call = ("lru", "--variant", "M2", "--seed", "1", "--configurations", "1", "--states", "400", "--jobs", "1")
    ended = ran(capsys, "explore", *call)
    assert ended.status == 1
    assert "lru M2 drawn-1-0: planted; " in ended.out


def test_what_holds_passes(capsys: pytest.CaptureFixture[str]) -> None:
    call = ("ring", "--seed", "1", "--configurations", "2", "--states", "400", "--jobs", "1")
    ended = ran(capsys, "explore", *call)
    assert ended.status == 0
    assert "2 configurations" in ended.out
    assert "seed 1" in ended.err


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (("lru", "--variant", "M9"), "no variant 'M9'"),
        (("--variant", "M99"), "no component has a variant 'M99'"),
    ],
)
def test_wrong_input(given: tuple[str, ...], wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended = ran(capsys, "explore", *given)
    assert ended.status == 2
    assert wrong in ended.err


def test_a_target_that_is_none_is_refused_before_anything_is_explored(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def explored(*given: object) -> None:
        raise AssertionError("it was explored first")

    monkeypatch.setattr("cacheproof.command.explore.explore_drawn", explored)
    ended = ran(capsys, "explore", "lru", "--variant", "M2", "--target", "nonsense")
    assert ended.status == 2
    assert "nonsense" in ended.err
