"""A generated pytest file fails on the bug and passes without it."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cacheproof.lockstep.campaign import lockstep
from cacheproof.lockstep.properties import broken_by_call
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.trace import Violation, record
from cacheproof.present.show.moves import whole_calls
from cacheproof.present.show.pytest_file import to_pytest
from cacheproof.search.reference import explore
from cacheproof.targets.factory import open_target
from cachespec.kernel import NORMATIVE, Code
from cachespec.lru import Config

SCOPED = [component for component in components().values() if scope_file(component).is_file()]
LRU = component_named("lru")
CONFIG = Config(capacity=2, sizes=(1, 1, 2), lookups=100, pins=1)
ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "tests" / "examples" / "lru_child.py"


def outcome_of(text: str) -> str | None:
    """Run the one test of the file: None where it passes, else the message of its assertion."""
    names: dict[str, Any] = {}
    exec(compile(text, "generated", "exec"), names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    try:
        test()
    except AssertionError as error:
        return str(error)
    return None


def found_at_random(component: AnyComponent, tag: str) -> Iterator[Violation]:
    """Violations of an era, one for each property that random runs break."""
    variant, seen = component.variants[tag], set()
    for scope in scopes_of(component):
        if tag not in scope.variants:
            continue
        subject = Subject(component, variant, scope.config)
        for seed in range(20):
            source, state, operations = random.Random(seed), variant.start(scope.config), []
            for _ in range(30):
                offered = [one for one in variant.alphabet(scope.config, state) if type(one) in variant.transitions]
                if not offered:
                    break
                operations.append(source.choice(offered))
                before = state
                state, outcome = variant.call(scope.config, before, operations[-1])
                broken = broken_by_call(subject, before, operations[-1], outcome, state)
                if broken is not None:
                    if broken.name not in seen and outcome.code is not Code.DIVERGED:
                        seen.add(broken.name)
                        trace = record(component, variant, scope.config, operations, whole_calls=True)
                        yield Violation(broken.name, broken.statement, trace)
                    break


TAKES_LONG = ("scheduler",)
"""Components whose eras are tried nightly: half a minute"""


def by_duration(component: AnyComponent) -> Any:
    """The component as a parameter, nightly if it takes long."""
    marks = [pytest.mark.nightly] if component.name in TAKES_LONG else []
    return pytest.param(component, id=component.name, marks=marks)


@pytest.mark.parametrize("component", [by_duration(component) for component in SCOPED])
def test_violations_of_every_era_are_reproduced(component: AnyComponent) -> None:
    """The file fails for the era; for the normative variant, which holds the property, the same run passes."""
    tags = {tag for scope in scopes_of(component) for tag in scope.variants} - {NORMATIVE}
    reproduced = 0
    for tag in sorted(tags):
        for violation in found_at_random(component, tag):
            text = to_pytest(violation)
            wrong = outcome_of(text)
            assert wrong is not None
            assert wrong.startswith(f"{violation.property} does not hold after operation")
            assert outcome_of(text.replace(f'variant="{tag}"', 'variant="normative"')) is None
            reproduced += 1
    assert reproduced >= 1


@pytest.mark.parametrize("granularity", list(Granularity))
def test_counterexamples_of_the_explorer_are_reproduced_lassos_too(granularity: Granularity) -> None:
    era, config = LRU.variants["M2"], Config(capacity=2, sizes=(1, 1), lookups=1)
    explored = explore(LRU, era, config, Plan(granularity=granularity, symmetry=False, liveness=True))
    assert "LRU-6" in {violation.property for violation in explored.violations}
    for violation in explored.violations:
        text = to_pytest(violation)
        assert f"whole_calls={whole_calls(violation.trace)}" in text
        wrong = outcome_of(text)
        assert wrong is not None, violation
        assert violation.property in wrong
        assert outcome_of(text.replace('variant="M2"', 'variant="normative"')) is None, violation


def test_the_files_of_the_example_child(tmp_path: Path) -> None:
    """As a user has it: fuzz writes a file, pytest runs it; it fails on the bug, and passes once that is mended."""
    target = f"exec:{sys.executable} {EXAMPLE}"
    opened = open_target(target, LRU, LRU.normative)
    finding = lockstep(LRU, LRU.normative, CONFIG, opened, steps=2_000, seed=1, name=target).finding
    opened.close()
    assert isinstance(finding, Difference)
    text = to_pytest(finding)
    (tmp_path / "test_wrong.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_right.py").write_text(text.replace("lru_child.py", "lru_child.py --correct"), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
    )
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout
    assert "after call 3: order: the specification has [1, 0], the target [0, 1]" in ran.stdout


def test_a_target_that_fails_does_not_pass() -> None:
    opened = open_target("exec:false", LRU, LRU.normative)
    finding = lockstep(LRU, LRU.normative, CONFIG, opened, steps=10, seed=1, name="exec:false").finding
    assert finding is not None
    assert "the target failed: asked to hello" in (outcome_of(to_pytest(finding)) or "")


def test_generated_files_are_typed(tmp_path: Path) -> None:
    """What is written into somebody's repository does not upset its checks."""
    path = tmp_path / "test_generated.py"
    violation = next(found_at_random(LRU, "M2"))
    path.write_text(to_pytest(violation), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E,F,W,I", "--line-length", "120", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout
