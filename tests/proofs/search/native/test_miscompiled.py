"""Planted faults of the compiler and its runtime: the comparison with the reference engine catches each of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search import native, reference
from cacheproof.search.crew import Alone
from cacheproof.search.linked import Link, Linked
from cacheproof.search.native import build, library
from cacheproof.search.native.glue import Glue
from cacheproof.search.native.shard import NativeShard
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.result import Exploration
from cacheproof.search.shard import Shard
from cacheproof.search.worker import Reply, Subject, Worker
from cachespec.lru.configuration import Config

pytestmark = pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")

LRU = component_named("lru")
CONFIG = Config(capacity=2, sizes=(1, 1, 2), grown=(2, 2, 2), lookups=1, pins=1)
PLAN = Plan(granularity=Granularity.STEP, liveness=True, limit_states=5_000)

IN_FUNCTIONS = (
    ("put_", "(p_op.size > p_config.capacity)", "(p_op.size >= p_config.capacity)"),
    ("cannot_fit", "p_cache.pinned.get(p_key, Int(0))", "Int(0)"),
    ("lacks_room", " > p_config.capacity", " < p_config.capacity"),
    ("begin_or_store", "r_1.putting = p_key;", ""),
    ("stored", "r_1.pinned = v_pinned;", ""),
    ("stored", "r_1.used =", "r_1.hits ="),
    ("recent", ".push(", ".push_front("),
    ("get_", "r_1.total = plus(p_cache.total, Int(1));", ""),
    ("lookup", "(!p_cache.entries.has(p_op.key))", "(p_cache.entries.has(p_op.key))"),
    ("evict", "(!(p_cache.doing == Int(1)))", "(p_cache.doing == Int(1))"),
    ("evict_oldest", "oldest_outside(p_cache.pinned, Int(-1))", "oldest(Int(-1))"),
    ("without_", "r_1.pinned = p_cache.pinned.remove(p_key);", ""),
    ("pin", "p_cache.entries.get(p_op.key, Int(0))", "Int(0)"),
    ("clear_", "r_1.total = Int(0);", ""),
    ("stat", "v_hits = t_1.f0", "v_hits = t_1.f1"),
    ("alphabet", "< p_config.lookups", "<= p_config.lookups"),
    ("counters_agree", "<=", "<"),
    ("continuation", "(!(p_cache.doing == Int(0)))", "(p_cache.doing == Int(2))"),
)
IN_HEADERS = (
    ("runtime.hpp", "const Int size = n + (known ? 0 : 1);", "const Int size = n + 1; if (known) return *this;"),
    (
        "runtime.hpp",
        "if (back) made[count++] = {key, weight};",
        "if (back && weight > 1) made[count++] = {key, weight};",
    ),
    ("bytes.hpp", "uint64_t z = (uint64_t(a) << 1)", "uint64_t z = (uint64_t(uint8_t(a)) << 1)"),
    ("blake.hpp", "0x01010000 ^ 8", "0x01010000 ^ 4"),
    ("memory.hpp", "__builtin_sub_overflow(a, b, &made)", "__builtin_sub_overflow(b, a, &made)"),
    ("names.hpp", "key(own[j], own[j - 1]) < 0", "key(own[j], own[j - 1]) > 0"),
    ("names.hpp", "moved = moved || old != now;", ""),
    ("explorer.hpp", "++tally.coverage[", "tally.coverage["),
    ("explorer.hpp", "tally.transitions += taken;", ""),
    ("explorer.hpp", "if (!next.has && !supported(op.tag)) continue;", "if (!next.has && op.tag == 0) continue;"),
    ("explorer.hpp", "own.stays = eq(own.moved.f0, state);", "own.stays = true;"),
    ("explorer.hpp", "{row.data() + forms[i].begin, forms[i].size}", "{row.data() + forms[0].begin, forms[0].size}"),
    ("explorer.hpp", "unseen[i] = unseen.back();", ""),
    ("packing.hpp", "second.bits << first.size", "second.bits << second.size"),
    ("packing.hpp", "<< 8 * own.count++;", "<< 4 * own.count++;"),
    ("memory.hpp", "if (!before(*at, at[-1])) continue;", "if (before(*at, at[-1])) continue;"),
    ("blake.hpp", "c = __builtin_shufflevector(c, c, 2, 3, 0, 1);", ""),
)
IN_JUDGEMENTS = (
    ("explorer.hpp", "if (!every_step_holds(", "if (false && !every_step_holds("),
    ("explorer.hpp", "if (!every_safety_holds(", "if (false && !every_safety_holds("),
)
"""Faults that show only where a property is violated."""
IN_SHARING = (
    (
        "owners.hpp",
        "add(owner_of(hashed(row.data, row.size)), row",
        "add((owner_of(hashed(row.data, row.size)) + 1) % count, row",
    ),
    ("owners.hpp", "add(owner_of(hash), row, at, 0);", "if (found % 9) add(owner_of(hash), row, at, 0);"),
    ("owners.hpp", "put(to, named);", "put(to, Int(0));"),
    ("explorer.hpp", "return found_by[a] < found_by[b];", "return found_by[a] > found_by[b];"),
    ("explorer.hpp", "at < found_by[place]) found_by[place] = at;", "at > found_by[place]) found_by[place] = at;"),
    ("states.hpp", "rows[first + i] = moved[i];", ""),
)
"""Faults that show only where several processes own the states."""
QUICK = (IN_FUNCTIONS[4], IN_FUNCTIONS[16])


def seen(found: Exploration) -> tuple[Any, ...]:
    counts = (found.states, found.transitions, found.depth, found.digest, found.ending)
    return (*counts, found.witnessed, found.coverage, found.violations)


def differs(config: Config = CONFIG) -> bool:
    """Whether the compiled code, as it is now, finds anything else than the reference engine does."""
    expected = seen(reference.explore(LRU, LRU.normative, config, PLAN))
    try:
        found = [seen(native.explore(LRU, LRU.normative, config, PLAN, threads=threads)) for threads in (1, 3)]
    except (InputError, UnsoundReductionError):
        return True
    return found != [expected, expected]


def planted(text: str, function: str, old: str, new: str) -> str:
    """The unit with a fault in one function: from the comment before it to the end of its body."""
    found = re.search(
        rf"^// lru/\w+\.py:\d+ [\w.<>]+\nstatic [^\n]* {function}\(.*?(?=^// |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None, function
    assert old in found[0], (function, old)
    return text[: found.start()] + found[0].replace(old, new) + text[found.end() :]


def test_without_a_fault_nothing_differs(alone: Path) -> None:
    assert not differs()


def test_a_library_that_finds_no_room_near_its_threads_is_compiled_for_memory_that_is_far(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """glibc refuses the first one as it does where many libraries are loaded."""
    loaded, files = library.loaded, list[Path]()

    def refused_once(file: Path, glue: Glue) -> library.Compiled:
        files.append(file)
        if len(files) == 1:
            raise OSError(f"{file}: cannot allocate memory in static TLS block")
        return loaded(file, glue)

    monkeypatch.setattr(library, "loaded", refused_once)
    assert not differs()
    assert len(set(files)) == 2


def owed(owner: Shard | NativeShard) -> tuple[Any, ...]:
    """The steps for the search for lassos, with their operations."""
    steps = owner.owed_steps()
    operations = [steps.operations[label] for label in steps.labels]
    return list(steps.sources), list(steps.moves), operations, list(steps.targets)


def owed_by_both() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What the reference engine and the native one owe, on three threads, in a scope that has lassos."""
    variant, scope = LRU.variants["M2"], scope_named(LRU, "turns")
    plan = replace(scope.plan, until=frozenset())
    shard = Shard(LRU, variant, scope.config, plan, 0, 1)
    reference.explore(LRU, variant, scope.config, plan, crew=Alone(shard))
    with NativeShard(LRU, variant, scope.config, plan, threads=3) as native_shard:
        crew = native.NativeCrew(native_shard)
        reference.ReferenceSearch(LRU, variant, scope.config, plan, None, crew, None).search()
        return owed(shard), owed(native_shard)


def test_the_owed_steps_are_those_of_the_reference_engine() -> None:
    expected, found = owed_by_both()
    assert expected[0]
    assert found == expected


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("PROVISIONAL | (resolved.size() + mine)", "PROVISIONAL | mine"),
        ("own.hash, own.target);", "own.hash, place);"),
    ],
)
def test_a_wrong_target_of_an_owed_step_is_noticed(alone: Path, old: str, new: str) -> None:
    """The verdicts alone do not show it."""
    path = alone / "explorer.hpp"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    expected, found = owed_by_both()
    assert found != expected


def test_equal_hashes_are_not_taken_for_equal_states(alone: Path) -> None:
    """Every state has the same hash then, and the rows decide."""
    path = alone / "states.hpp"
    text = path.read_text(encoding="utf-8")
    assert text.count("return multiplied(h ^ A, B);") == 1
    path.write_text(text.replace("return multiplied(h ^ A, B);", "return 7;"), encoding="utf-8")
    assert not differs()


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.nightly
def test_rows_that_are_remembered_are_compared(alone: Path) -> None:
    replaced(alone / "states.hpp", "return multiplied(h ^ A, B);", "return 7;")
    replaced(alone / "states.hpp", "&& same({row(entry), entry.size}, wanted)", "")
    assert differs()


@pytest.mark.nightly
def test_states_that_two_threads_find_are_one(alone: Path) -> None:
    """The threads take their blocks one after the other, so that each of them has some however busy the machine is."""
    path = alone / "explorer.hpp"
    one_by_one = "for (size_t own = 0; own < workers.size(); ++own) run(own);"
    replaced(path, "while (Clock::now() < end);", "while (seconds > 1000);")
    replaced(path, "if (threads && count > 1) threads->all(run);", f"if (threads && count > 1) {one_by_one}")
    assert not differs()
    replaced(path, "if (found != SIZE_MAX) return found;", "")
    library._LOADED.clear()
    assert differs()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("right", "wrong"), [("HIGH = 0xf0f0f0f0f0f0f0f0ull", "HIGH = 0"), ("held >>= used;", "held >>= begun.size;")]
)
def test_large_numbers_are_kept_whole(alone: Path, right: str, wrong: str) -> None:
    """Half a byte does not hold the bytes of these sizes, and the code has no short form of them."""
    config = Config(capacity=20, sizes=(10, 10, 20), grown=(20, 20, 20), lookups=1, pins=1)
    assert not differs(config)
    replaced(alone / "packing.hpp", right, wrong)
    library._LOADED.clear()
    assert differs(config)


@pytest.mark.nightly
def test_long_rows_are_kept_whole(alone: Path) -> None:
    """Every row counts as a long one, and has its size in four bytes."""
    replaced(alone / "states.hpp", "LONG = 255", "LONG = 3")
    assert not differs()


def check_function(monkeypatch: pytest.MonkeyPatch, bug: tuple[str, str, str]) -> None:
    glue = library.translated(LRU, LRU.normative)
    monkeypatch.setattr(glue, "text", planted(glue.text, *bug))
    assert differs()


@pytest.mark.parametrize("bug", QUICK)
def test_a_fault_in_a_function_is_noticed(
    alone: Path, monkeypatch: pytest.MonkeyPatch, bug: tuple[str, str, str]
) -> None:
    check_function(monkeypatch, bug)


@pytest.mark.nightly
@pytest.mark.parametrize("bug", IN_FUNCTIONS)
def test_every_fault_in_a_function_is_noticed(
    alone: Path, monkeypatch: pytest.MonkeyPatch, bug: tuple[str, str, str]
) -> None:
    check_function(monkeypatch, bug)


@pytest.mark.nightly
@pytest.mark.parametrize("bug", IN_HEADERS)
def test_every_fault_in_the_headers_is_noticed(alone: Path, bug: tuple[str, str, str]) -> None:
    header, old, new = bug
    path = alone / header
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert differs()


def judgement_differs() -> bool:
    """Whether the compiled code finds other violations of states and steps than the reference engine does."""
    variant, scope = LRU.variants["M2"], scope_named(LRU, "three-keys")
    expected = seen(reference.explore(LRU, variant, scope.config, scope.plan))
    assert expected[-1]
    return seen(native.explore(LRU, variant, scope.config, scope.plan)) != expected


@pytest.mark.nightly
@pytest.mark.parametrize("bug", IN_JUDGEMENTS)
def test_a_property_that_is_not_judged_is_noticed(alone: Path, bug: tuple[str, str, str]) -> None:
    header, old, new = bug
    path = alone / header
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert judgement_differs()


@pytest.mark.nightly
def test_without_a_fault_violations_are_the_same(alone: Path) -> None:
    assert not judgement_differs()


def sharing_differs() -> bool:
    """Whether three owners find anything else than the reference engine does, in a scope that has lassos."""
    variant, scope = LRU.variants["M2"], scope_named(LRU, "turns")
    plan = replace(scope.plan, until=frozenset())
    shard = Shard(LRU, variant, scope.config, plan, 0, 1)
    expected = seen(reference.explore(LRU, variant, scope.config, plan, crew=Alone(shard)))
    crew = Sharing(Subject("lru", "M2", scope.config, plan, "native"), 3)
    try:
        found = seen(native.explore(LRU, variant, scope.config, plan, crew=crew))
        numbered = [set(crew.ask(Shard.lookup, number)) - {None} for number in range(shard.states())]
    except Exception:  # noqa: BLE001  # a search that has lost something may end in any way
        return True
    return found != expected or numbered != [{shard.lookup(number)} for number in range(shard.states())]


class Sharing(Linked):
    """Native workers in this process."""

    slice_states = 40

    def __init__(self, what: Subject, owners: int) -> None:
        def begin(place: int) -> Link:
            return Here(what, place, owners)

        super().__init__(owners, begin, recovers=False)


class Here(Link):
    def __init__(self, what: Subject, place: int, owners: int) -> None:
        self.worker = Worker(what, place, owners)
        self.replies: list[Reply] = []

    def ask(self, number: int, question: str, arguments: tuple[Any, ...]) -> None:
        self.replies.append(self.worker.answer(number, question, arguments))

    def reply(self) -> Reply:
        return self.replies.pop(0)

    def close(self) -> None:
        pass


@pytest.mark.nightly
def test_without_a_fault_owners_find_the_same(alone: Path) -> None:
    assert not sharing_differs()


@pytest.mark.nightly
@pytest.mark.parametrize("bug", IN_SHARING)
def test_every_fault_between_owners_is_noticed(alone: Path, bug: tuple[str, str, str]) -> None:
    name, old, new = bug
    text = (alone / name).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (alone / name).write_text(text.replace(old, new), encoding="utf-8")
    assert sharing_differs()
