"""What a peer says of itself is read once, and heeded; what cannot be is refused, and every failure has a name."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.plan import PROFILES, Plan, perform
from cacheproof.lockstep.tally import Limit
from cacheproof.model.declaration import declaration_from, declared_by
from cacheproof.model.finding import Breakdown, Subject
from cacheproof.model.finding_json import finding_from_message, finding_to_message
from cacheproof.model.registry import component_named
from cacheproof.model.serve import Oracle
from cacheproof.model.target import Failure, TargetError
from cacheproof.targets.child import ChildTarget
from cachespec import SPECIFICATION_VERSION
from cachespec.lru import Config, Touch

LRU = component_named("lru")
CONFIG = Config(capacity=3, sizes=(1, 1, 2))

CHILD = """
import json, os, sys, time
hello = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    answer = {{"answer": "state", "used": 0, **json.loads(sys.argv[2])}}
    if asked["do"] == "hello": answer = {{"answer": "hello", **hello}}
    if asked["do"] == "bye": break
    if asked["do"] == "apply":
        known = asked["op"] in ("touch", "lookup", "pop")
        answer["answer"], answer["code"] = "outcome", "absent" if known else "unsupported"
        {then}
    print(json.dumps(answer), flush=True)
"""

Child = Callable[..., str]


@pytest.fixture
def child(tmp_path: Path) -> Child:
    """The command of a child that greets as it is told to, shows some observables, and does something at each call."""

    def command(shown: dict[str, Any] | None = None, then: str = "pass", **hello: Any) -> str:
        path = tmp_path / "child.py"
        path.write_text(CHILD.format(then=then), encoding="utf-8")
        greeting = json.dumps({"protocol": "1.0", **hello})
        return f"{sys.executable} {path} '{greeting}' '{json.dumps(shown or {})}'"

    return command


UNKNOWN = (
    "lru has no operation 'putt': did you mean 'put'?",
    "lru has no observable 'hist': did you mean 'hits'?",
)
"""Names that are misspelt: wrong input, and no failure of the driver."""


def opened(command: str, seconds: float = 10.0) -> ChildTarget:
    return ChildTarget(command, LRU, LRU.normative, seconds=seconds)


def test_what_a_child_says_is_read(child: Child) -> None:
    target = opened(child(implementation="x 3", spec="0.1", features=["lru/operation/touch"], deviations=["C-LRU-2"]))
    said = declared_by(LRU, target)
    target.close()
    assert (said.implementation, said.spec, said.deviations) == ("x 3", "0.1", ("C-LRU-2",))
    assert said.missing(LRU) == {kind.wire_name() for kind in LRU.operations} - {"touch"}
    assert not said.refuses


@pytest.mark.parametrize("version", ["0.1", "1.0", "1.7"])
def test_versions_that_are_spoken(child: Child, version: str) -> None:
    target = opened(child(protocol=version, unheard_of=["later"]))
    target.reset(CONFIG)
    target.close()


@pytest.mark.parametrize("version", ["2.0", "0.2", "1", "1.x", "", None, 1, "1.0.0", "\u0661.0"])
def test_versions_that_are_not(child: Child, version: Any) -> None:
    hello = {} if version is None else {"protocol": version}
    target = opened(child(**{"protocol": [], **hello}))
    with pytest.raises(TargetError, match="speaks protocol") as error:
        target.reset(CONFIG)
    assert error.value.failure is Failure.WRONG_VERSION


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        ({"components": ["mirror"]}, "no component 'lru': there are mirror"),
        ({"components": "lru"}, "components must be an array of strings"),
        ({"features": ["lru/operation/putt"]}, UNKNOWN[0]),
        ({"features": ["lru/observable/hist"]}, UNKNOWN[1]),
        ({"features": ["everything"]}, "'everything' is no feature"),
        ({"features": [1]}, "features must be an array of strings"),
        ({"deviations": ["LRU-2"]}, "no number of the catalogue"),
        ({"longest_line": 0}, "longest_line must be a number of bytes"),
        ({"spec": 3}, "spec must be a string"),
    ],
)
def test_what_cannot_be_said(child: Child, hello: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as wrong:
        declaration_from(LRU, hello)
    assert said in str(wrong.value)
    with pytest.raises((TargetError, InputError)) as error:
        opened(child(**hello)).reset(CONFIG)
    unknown = isinstance(error.value, InputError)
    assert unknown == (said in UNKNOWN)
    assert unknown or getattr(error.value, "failure", None) is Failure.GARBAGE


def test_a_peer_of_another_specification_may_have_more() -> None:
    said = declaration_from(LRU, {"spec": "7.1", "features": ["lru/operation/putt", "lru/operation/put"]})
    assert "put" not in said.missing(LRU)


def test_observables_of_its_own_are_not_looked_at(child: Child) -> None:
    target = opened(child({"evictions": 7}, own=["evictions"]))
    target.reset(CONFIG)
    assert target.observe() == {"used": 0}
    target.close()


def found(command: str, seconds: float = 10.0) -> Any:
    pair = Pair(Subject(LRU, LRU.normative, CONFIG), opened(command, seconds), "exec:child")
    return pair.restart() or pair.apply(Touch(0))


def test_observables_that_nobody_has_are_refused(child: Child) -> None:
    finding = found(child({"evictions": 7}))
    assert isinstance(finding, Breakdown)
    assert finding.failure is Failure.GARBAGE
    assert "shows evictions" in finding.reason


@pytest.mark.parametrize(
    ("then", "failure"),
    [
        ("time.sleep(1000)", Failure.TIMED_OUT),
        ("os._exit(3)", Failure.CRASHED),
        ("os.write(1, b'rubbish' + bytes([10])); time.sleep(1000)", Failure.GARBAGE),
        ("os.write(1, b'{} ' * 3 + bytes([10, 10]))", Failure.SPOKE_UNASKED),
        ("answer = {'answer': 'error', 'error': 'no', 'text': 'no'}", Failure.REFUSED),
        ("print('x' * 2000000)", Failure.TOO_LONG),
    ],
)
def test_every_failure_has_a_name(child: Child, then: str, failure: Failure) -> None:
    finding = found(child(then=then), 2.0)
    assert isinstance(finding, Breakdown)
    assert finding.failure is failure
    told = finding_to_message(finding)
    assert told["failure"] == finding.failure.value
    assert finding_from_message(told) == finding
    with pytest.raises(InputError, match="a failure is one of"):
        finding_from_message({**told, "failure": "bad luck"})


def test_a_line_that_the_child_cannot_read_is_not_sent(child: Child) -> None:
    target = opened(child(longest_line=60))
    with pytest.raises(TargetError, match=r"the line has .* bytes, and the child takes 60") as error:
        target.reset(CONFIG)
    assert error.value.failure is Failure.TOO_LONG


def test_operations_that_a_child_does_not_have_are_not_asked_for(child: Child) -> None:
    """This child is right about two operations, and knows no other one."""
    features = ["lru/operation/touch", "lru/operation/pop"]
    for named, differs in ((features, False), ([], True)):
        campaign = perform(
            Plan(
                {"three-keys": Subject(LRU, LRU.normative, CONFIG)},
                *(f"exec:{child(features=named)}", Limit(40), 1),
                reuse=False,
                profile=PROFILES["ci"],
                driver="lockstep",
                left_out=frozenset(),
                seconds_to_answer=10.0,
            )
        )
        assert (campaign.finding is not None) is differs
        if not differs:
            assert set(campaign.tally.by_operation()) == {"touch", "pop"}


def test_an_implementation_in_this_process_says_it_by_attributes() -> None:
    class Target:
        implementation = "ours"
        features = frozenset({"lru/operation/put", "refusals"})
        deviations = ("C-LRU-1",)

    said = declared_by(LRU, Target())
    assert said.implementation == "ours"
    assert said.refuses
    assert said.missing(LRU) == {kind.wire_name() for kind in LRU.operations} - {"put"}
    assert declared_by(LRU, object()).missing(LRU) == frozenset()


def hello(**fields: Any) -> dict[str, Any]:
    return Oracle().answer(json.dumps({"do": "hello", **fields}).encode())


def test_the_oracle_greets() -> None:
    said = hello(protocol="1.4", component="lru", later=[["x"]])
    assert (said["protocol"], said["spec"]) == ("1.0", SPECIFICATION_VERSION)
    assert set(said["features"]) == {"refusals", *(f"lru/operation/{kind.wire_name()}" for kind in LRU.operations)}
    assert declaration_from(LRU, said).missing(LRU) == frozenset()
    assert set(hello(protocol="0.1")) == {"answer", "protocol", "components"}
    assert hello(protocol="0.1", component="lru")["error"] == "wrong_field"
    assert hello(protocol="1.0", component="no-such")["error"] == "wrong_field"
    assert hello(protocol="2.0")["error"] == "unknown_request"
