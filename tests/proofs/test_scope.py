"""Scope files: every mistake is one line that says where it is, and nothing of a wrong file is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import components
from cacheproof.model.scope import DEFAULT, NIGHTLY, read, scope_named, scopes_of
from cacheproof.search.scope_edit import accept
from cachespec.lru import COMPONENT as LRU
from cachespec.lru import Config

RIGHT = """
[[scope]]
name = "small"
about = "Two keys."
set = "nightly"
variants = ["normative", "M3"]
granularity = "step"
symmetry = false
liveness = true
depth = 9
limit_states = 1000
limit_seconds = 2.5

[scope.config]
capacity = 2
sizes = [1, 2]

[scope.uncovered]
pin = "no pins"

[scope.expect.M3]
states = 12
violations = [{ property = "LRU-8", length = 4, catalogue = "C-LRU-1", about = "half evicted" }]
uncovered = { get = "no look-ups" }
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lru.toml"


def test_a_file_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("scope = " + "[" * 100_000 + "]" * 100_000)
    with pytest.raises(InputError, match="not TOML: nested too deep"):
        read(LRU, path)


def test_a_file_that_has_changed_is_read_again(path: Path) -> None:
    path.write_text(RIGHT)
    before = read(LRU, path)
    assert read(LRU, path) is before
    path.write_text(RIGHT.replace("depth = 9", "depth = 8"))
    assert read(LRU, path)[0].plan.depth == 8
    other = replace(LRU, variants={tag: LRU.variants[tag] for tag in ("normative", "M2")})
    with pytest.raises(InputError, match="has no variant 'M3'"):
        read(other, path)


def test_what_a_scope_says(path: Path) -> None:
    path.write_text(RIGHT)
    (scope,) = read(LRU, path)
    assert (scope.name, scope.set, scope.variants) == ("small", NIGHTLY, ("normative", "M3"))
    assert scope.config == Config(capacity=2, sizes=(1, 2))
    plan = Plan(Granularity.STEP, symmetry=False, liveness=True, depth=9, limit_states=1000, limit_seconds=2.5)
    assert scope.plan_for("normative") == plan
    assert scope.plan_for("M3").until == {"LRU-8"}
    assert scope.expectation("M3").states == 12
    assert scope.expectation("normative").states is None
    assert scope.reasons("M3") == {"pin": "no pins", "get": "no look-ups"}


def test_defaults(path: Path) -> None:
    path.write_text('[[scope]]\nname="a"\nabout=""\nvariants=["M2"]\nconfig={capacity=1,sizes=[1]}')
    (scope,) = read(LRU, path)
    assert (scope.set, scope.plan) == (DEFAULT, Plan())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "small"', 'nmae = "small"', "scope number 1: Object contains unknown field `nmae`"),
        ('name = "small"', 'name = "s/mall"', "name must be of letters, digits and hyphens"),
        ('name = "small"', 'name = "drawn-5-0"', "name 'drawn-5-0' is that of a random configuration"),
        ('about = "Two keys."', "about = 2", "Expected `str`, got `int` at `about`"),
        ('about = "Two keys."', 'abuot = "Two keys."', "abuot"),
        ('set = "nightly"', 'set = "weekly"', "weekly"),
        ('variants = ["normative", "M3"]', "variants = []", "variants must name at least one of normative"),
        ('variants = ["normative", "M3"]', 'variants = ["M9"]', "has no variant 'M9'"),
        ('variants = ["normative", "M3"]', 'variants = ["normative"]', "expect.M3: the scope is not run for that"),
        ('granularity = "step"', 'granularity = "turn"', "turn"),
        ("symmetry = false", "symmetry = true", "liveness needs symmetry = false"),
        ("depth = 9", "depth = 0", "depth must be positive, not 0"),
        ("limit_states = 1000", "limit_states = -1", "limit_states must be positive, not -1"),
        ("limit_seconds = 2.5", 'limit_seconds = "long"', "limit_seconds"),
        ("capacity = 2", "capacity = 0", "capacity must be positive, not 0"),
        ("capacity = 2", "capacity = -2", "capacity must be positive, not -2"),
        ("capacity = 2", 'capacity = "two"', "capacity must be an integer"),
        ("capacity = 2", "capacity = 2.0", "capacity must be an integer"),
        ("capacity = 2", "capacity = true", "capacity must be an integer"),
        ("capacity = 2", "capacitty = 2", "capacitty"),
        ("capacity = 2\n", "", "needs capacity"),
        ("sizes = [1, 2]", "sizes = [1, -2]", "none of them negative"),
        ("sizes = [1, 2]", "sizes = 1", "sizes must be an array"),
        ("sizes = [1, 2]", "sizes = [[1]]", "sizes must be an integer"),
        ('pin = "no pins"', 'pni = "no pins"', "has no operation 'pni'"),
        ('pin = "no pins"', 'pin = " "', "say why pin cannot happen"),
        ("states = 12", 'states = "12"', "Expected `int | null`, got `str` at `expect[...].states`"),
        ("states = 12", "stats = 12", "stats"),
        ('property = "LRU-8"', 'property = "LRU-88"', "has no property 'LRU-88'"),
        ("length = 4", "length = -4", "must not be negative"),
        (', about = "half evicted" }', ' }, { property = "LRU-8" }', "LRU-8 is listed twice"),
        ("[scope.expect.M3]", "[scope.expect.normative]", "the normative variant holds every property"),
        ('get = "no look-ups"', 'gte = "no look-ups"', "has no operation 'gte'"),
        ("[[scope]]", "[scope]", "no [[scope]] table"),
        ("[[scope]]", "limit = 3\n[[scope]]", "unknown key 'limit'"),
        ("[[scope]]", "[[scope]", "not TOML"),
        ("length = 4", f"length = {'9' * 5000}", "not TOML: a number has too many digits"),
    ],
)
def test_a_mistake_is_said_where_it_is(path: Path, old: str, new: str, said: str) -> None:
    assert old in RIGHT
    path.write_text(RIGHT.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        read(LRU, path)
    text = str(refused.value)
    assert text.startswith(f"{path}: ")
    assert said in text
    assert "\n" not in text


def test_two_scopes_of_one_name(path: Path) -> None:
    path.write_text(RIGHT + RIGHT)
    with pytest.raises(InputError, match="two scopes are named 'small'"):
        read(LRU, path)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"lru\.toml: (cannot be read|not UTF-8)"):
        read(LRU, path)


def test_an_unknown_scope_is_told_from_those_there_are() -> None:
    with pytest.raises(InputError, match="lru has no scope 'no-such': there are three-keys"):
        scope_named(LRU, "no-such")


def test_nothing_is_written_where_there_is_nothing_to_accept(path: Path) -> None:
    path.write_text(RIGHT)
    assert accept(path, []) == 0
    assert path.read_text() == RIGHT


@pytest.mark.parametrize("component", components().values(), ids=lambda component: component.name)
def test_the_scopes_of_every_component(component: object) -> None:
    scopes = scopes_of(component)  # type: ignore[arg-type]  # parametrized
    assert [scope for scope in scopes if scope.set == DEFAULT and "normative" in scope.variants]
    for scope in scopes:
        assert scope.about.endswith(".")
        for tag, expectation in scope.expect.items():
            assert None not in (expectation.states, expectation.digest), f"{scope.name} {tag}: no golden counts"
            for violation in expectation.violations:
                assert violation.catalogue, f"{scope.name} {tag} {violation.property}: no catalogue number"
                assert violation.about or scope.set != DEFAULT, (
                    f"{scope.name} {tag} {violation.property}: say what happens"
                )
                assert violation.length is not None
