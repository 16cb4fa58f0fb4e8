"""That each property of the KV blocks can fail: one planted bug for each, in a scope where the specification holds."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.kv_blocks import COMPONENT, NORMATIVE_KV_BLOCKS, Config, configuration, groups
from cachespec.kv_blocks import rolling_back as back
from cachespec.kv_blocks import transitions as t
from cachespec.kv_blocks.state import Pool

SHARED = Config(1, 3, ((0, 1), (0, 2, 3)), (2, 3), steps=(1, 3), withdrawals=1, resets=1)
PARTIAL = Config(2, 3, ((0, 1), (0, 2)), (4, 3), steps=(1, 2))
ALIKE = Config(1, 4, ((0, 1), (0, 1)), (2, 2))
EVICTED = Config(1, 3, ((0, 1, 2),), (3,), steps=(1, 3), evictions=1)
COPIED = Config(1, 4, ((0,), (0, 1), (0, 1, 2)), (1, 2, 3), prompts=(1, 1, 3), steps=(1,), evictions=1)
COLLIDING = Config(1, 4, ((0, 2), (1, 3)), (2, 2), hashes=(0, 0, 2, 3))
CASCADE = Config(1, 4, ((0, 1), (0, 1), (2,)), (2, 2, 1), commons=1)
DRAFTS = Config(2, 3, ((0, 1),), (4,), steps=(2,), drafts=1)
ANY_CALL = Config(2, 3, ((0, 1), (0, 2)), (4, 3), steps=(2, 4), withdrawals=1, repeats=1, disciplined=0)
SHORT = Config(2, 2, ((0,), ()), (3, 1), evictions=1, resets=1, disciplined=0)
AGAIN = Config(2, 3, ((0, 1), (0,)), (4, 3), steps=(2, 3), rollbacks=1)
GROUPS = Config(1, 4, ((0, 1), (2, 3)), (2, 2), groups=1)
SCOPES = (GROUPS, AGAIN, SHORT, SHARED, PARTIAL, ALIKE, EVICTED, COLLIDING, CASCADE, DRAFTS, ANY_CALL)


class Planted(NamedTuple):
    """One change of the specification, where it shows, and the property that it breaks."""

    breaks: str
    where: Config
    change: Change


BUGS = (
    Planted("KV-1", SHARED, Change(t.let_go, "$count > 0", "$count > 1")),
    Planted("KV-2", SHARED, Change(t.touch, "$pool.free.remove($block)", "$pool.free")),
    Planted("KV-2/counted", SHARED, Change(Pool.free_count, "$pool.free.length", "$pool.free.length + 1")),
    Planted("KV-3", SHARED, Change(t.forget, "$pool.registered.remove($block)", "$pool.registered")),
    Planted("KV-3", COLLIDING, Change(configuration.hash_of, "$content >= 0", "$content < 0")),
    Planted("KV-3/listed", SHARED, Change(t.forget, "len($left) > 0", "len($left) >= 0")),
    Planted("KV-3/order", ALIKE, Change(t.register, "(*$copies, $block)", "($block, *$copies)")),
    Planted("KV-3/kept", EVICTED, Change(t.forget_behind, "$behind = False", "$behind = True")),
    Planted(
        "KV-3/first",
        ALIKE,
        Change(
            t.first_of_content,
            "for $block in $copies:\n    $body",
            "for $block in reversed($copies):\n    $body",
        ),
    ),
    Planted(
        "KV-3/kept",
        SHARED,
        Change(
            t.free_request,
            "$flying = min(*$rest)",
            "pool = forget(config, pool, pool.tables.get((op.request, 0), NOTHING))\n$flying = min(*$rest)",
        ),
    ),
    Planted(
        "KV-3/evicted",
        EVICTED,
        Change(t.evict_block, "forget($config, $pool, $op.block)", "$pool"),
    ),
    Planted("KV-7/again", AGAIN, Change(back.unwrite, "forget($config, $pool, $block)", "$pool")),
    Planted("KV-4", AGAIN, Change(back.roll_back, "shared_behind($pool, $request, $first) > 0", "False")),
    Planted("KV-10/counted", AGAIN, Change(back.roll_back, "scheduled=op.computed", "scheduled=holding.scheduled")),
    Planted("KV-4", ALIKE, Change(t.take, "touch($pool, $block)", "$pool")),
    Planted(
        "KV-4/immutable",
        SHARED,
        Change(
            t.take,
            "$pool = forget(*$rest)\nreturn touch($pool, $block)._replace(bytes=$bytes), $block",
            "return touch($pool, $block), $block",
        ),
    ),
    Planted("KV-5", SHARED, Change(t.append, "($request, $holding.blocks)", "($request, 0)")),
    Planted(
        "KV-6",
        COPIED,
        Change(
            t.evict_block,
            "for $request in $x:\n    $pool = $y",
            (
                "for $request in (one for one in range(3) if $pool.tables.get((one, 0), NOTHING) == "
                "op.block):\n    $pool = $y"
            ),
        ),
    ),
    Planted(
        "KV-6",
        EVICTED,
        Change(t.forget_behind, "if $behind:\n    $body", "if False:\n    $body"),
    ),
    Planted(
        "KV-6/chain",
        SHARED,
        Change(t.register_next, "content_of($config, $request, $position)", "content_of($config, $request, 0)"),
    ),
    Planted(
        "KV-6/written",
        SHARED,
        Change(
            t.is_unregistered,
            "holding_of($pool, $request).cached_blocks",
            "holding_of($pool, $request).cached_blocks + 1",
        ),
    ),
    Planted("KV-7", ANY_CALL, Change(t.are_cached, "return False", "return True")),
    Planted(
        "KV-7/found",
        SHARED,
        Change(
            t.withdraw,
            "return release($pool, op.request), DONE",
            "$pool = register_full(config, $pool, op.request, 1)\nreturn release($pool, op.request), DONE",
        ),
    ),
    Planted("KV-7/longest", SHARED, Change(t.get_computed_blocks, "$op.tokens - 1", "$op.tokens - 2")),
    Planted(
        "KV-7/executed",
        SHARED,
        Change(
            t.allocate_slots,
            "($pool, Outcome(Code.DONE, blocks_from($pool, $op.request, $owned)))",
            (
                "(register_full(config, $pool, $op.request, end), Outcome(Code.DONE, blocks_from($pool, "
                "$op.request, $owned)))"
            ),
        ),
    ),
    Planted("KV-7/flying", SHARED, Change(t.free_request, "write($config, $pool, $op.request, $flying)", "$pool")),
    Planted("KV-7/reset", SHARED, Change(t.reset_prefix_cache, "$pool.references.length > 0", "False")),
    Planted(
        "KV-8",
        SHARED,
        Change(t.allocate_slots, "($pool, REFUSED)", "(touch($pool, $pool.free.oldest(0)), REFUSED)"),
    ),
    Planted("KV-8/answered", DRAFTS, Change(t.allocate_slots, "($pool, TOO_LARGE)", "($pool, Outcome(Code.FAILED))")),
    Planted("KV-8/reasons", SHARED, Change(t.allocate_slots, "$needed - $owned > $x", "$needed - $owned >= $x")),
    Planted(
        "KV-8/reasons", GROUPS, Change(groups.allocate_groups, "$end > limit_of($config)", "$end >= limit_of($config)")
    ),
    Planted("KV-7/taken", SHARED, Change(t.take, "$x(bytes=$pool.bytes.remove($block))", "touch($pool, $block)")),
    Planted("KV-8/moment", ANY_CALL, Change(t.are_cached, "return False", "return True")),
    Planted("KV-10/counted", SHARED, Change(t.allocate_slots, "scheduled=$end", "scheduled=limit_of(config)")),
    Planted("KV-8/moment", SHORT, Change(t.are_cached, "$content < 0 or $x", "$x")),
    Planted("KV-8/turned-down", SHARED, Change(t.are_cached, "$x != $content", "$x == $content")),
    Planted("KV-9", ANY_CALL, Change(t.adopt, "touch($pool, $hits[$position])", "$pool")),
    Planted(
        "KV-9/table",
        SHARED,
        Change(
            t.allocate_slots, "blocks_from($pool, $op.request, $owned)", "blocks_from($pool, $op.request, $owned + 1)"
        ),
    ),
    Planted("KV-10", DRAFTS, Change(t.allocate_slots, "$end > limit_of($config)", "False")),
    Planted(
        "KV-10/covers",
        PARTIAL,
        Change(t.allocate_slots, "blocks_for($config, $end)", "full_blocks($config, $end)"),
    ),
    Planted(
        "KV-11",
        SHARED,
        Change(
            t.release,
            "if $pool.tables.has(($request, $blocks - 1 - $turn)):\n    $pool = drop(*$first, $blocks - 1 - $turn)",
            "if $pool.tables.has(($request, $turn)):\n    $pool = drop(*$first, $turn)",
        ),
    ),
    Planted("KV-11/useless", SHARED, Change(t.let_go, "$pool.free.push_front", "$pool.free.push")),
    Planted(
        "KV-11/first",
        ALIKE,
        Change(
            t.take,
            "$x(bytes=$pool.bytes.remove($block))",
            "$x(free=$pool.free.remove($block).push($pool.free.remove($block).oldest($block), 1))",
        ),
    ),
    Planted("KV-12", PARTIAL, Change(t.get_computed_blocks, "$op.tokens - 1", "$op.tokens")),
    Planted(
        "KV-13",
        CASCADE,
        Change(
            t.common_prefix,
            "is_common($pool, $op.running, $x, $count)",
            "$pool.references.get($x, 0) == len($op.running)",
        ),
    ),
    Planted("KV-13/all", CASCADE, Change(t.common_prefix, "($count,)", "(max(0, $count - 1),)")),
)


def plan(*until: str) -> Plan:
    """To the end, or until these have been refuted."""
    return Plan(until=frozenset(until), limit_states=20_000)


@pytest.mark.parametrize("where", SCOPES, ids=lambda where: f"{where.chains}")
def test_the_specification_holds_where_bugs_are_planted(where: Config) -> None:
    assert COMPONENT.invalid(where) is None
    found = explore(COMPONENT, NORMATIVE_KV_BLOCKS, where, plan())
    assert found.ending is Ending.EXHAUSTED
    assert found.violations == ()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.breaks)
def test_a_planted_bug_is_found(bug: Planted) -> None:
    with planted(bug.change):
        found = explore(COMPONENT, NORMATIVE_KV_BLOCKS, bug.where, plan(bug.breaks))
    assert bug.breaks in {violation.property for violation in found.violations}


def test_every_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties()} == {bug.breaks for bug in BUGS}
