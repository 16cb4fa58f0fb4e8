"""A bug for each claim that is proved of the KV blocks."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.kv_blocks import state, transitions

BUGS = (
    Bug(
        transitions.free_request,
        "($pool, ABSENT)",
        "($pool._replace(tables=$pool.tables.set((0, 9), 0)), ABSENT)",
        "KV-5/given/free_request",
    ),
    Bug(state.initial, "references=$containers.map()", "references=$containers.map().set(0, 1)", "KV-1/initial"),
    Bug(state.initial, "$free.push($block, 1)", "$free.push(0, 1)", "loops/initial"),
    Bug(state.initial, "tables=$containers.map()", "tables=$containers.map().set((0, 0), 0)", "KV-5/places/initial"),
    Bug(
        transitions.allocate_slots,
        "$pool.free.length - free_among($pool, $op.hits)",
        "$pool.free.length",
        "loops/allocate_slots",
    ),
    Bug(transitions.let_go, "$count > 0", "$count > 1", "loops/free_request"),
    Bug(
        transitions.let_go,
        "$pool._replace(references=$x, free=$free)",
        "$pool._replace(references=$x, free=$pool.free)",
        "loops/withdraw",
    ),
    Bug(transitions.drop, "$pool.tables.remove(($request, $position))", "$pool.tables", "loops/withdraw"),
    Bug(
        transitions.release,
        "for $turn in range($blocks):\n    if $pool.tables.has($entry):\n        $body",
        "for $turn in range($blocks - 1):\n    if $pool.tables.has($entry):\n        $body",
        "KV-5/freed/withdraw",
    ),
    Bug(
        transitions.release,
        "$pool.holdings.remove($request)",
        "$pool.holdings",
        "KV-5/freed/free_request",
    ),
    Bug(
        transitions.allocate_slots,
        "if op.tokens <= 0 or $lacking:\n    $refused",
        "pool = touch(pool, pool.free.oldest(0)) if pool.free.length > 0 else pool\n"
        "if op.tokens <= 0 or $lacking:\n    $refused",
        "KV-8/allocate_slots",
    ),
    Bug(
        transitions.allocate_slots,
        "if len(op.hits) > 0 and $holding.blocks > 0:\n    $refused",
        "if $holding.blocks > 0:\n    pool = pool._replace(tables=pool.tables.remove((op.request, 0)))\n"
        "if len(op.hits) > 0 and $holding.blocks > 0:\n    $refused",
        "KV-5/allocate_slots",
    ),
    Bug(
        transitions.allocate_slots,
        "$owned = $holding.blocks + len(op.hits)",
        "pool = pool._replace(references=pool.references.remove(pool.tables.get((0, 0), 0)))\n"
        "$owned = $holding.blocks + len(op.hits)",
        "KV-9/held/allocate_slots",
    ),
    Bug(
        transitions.withdraw,
        "release($pool, $op.request)",
        "release($pool._replace(tables=$pool.tables.remove(($op.request + 1, 0))), $op.request)",
        "KV-5/others/withdraw",
    ),
    Bug(
        transitions.get_computed_blocks,
        "$hits = cached_prefix(*$rest)",
        "pool = pool._replace(references=pool.references.remove(0))\n$hits = cached_prefix(*$rest)",
        "KV-2/get_computed_blocks",
    ),
    Bug(
        transitions.commit,
        "register_full($config, $pool, $op.request, $op.computed)",
        "$pool._replace(free=$pool.free.remove($pool.free.oldest(0)))",
        "KV-2/count/commit",
    ),
    Bug(
        transitions.reset_prefix_cache,
        "($pool, DONE)",
        "($pool._replace(references=$pool.references.set(0, 1)), DONE)",
        "KV-1/reset_prefix_cache",
    ),
)
