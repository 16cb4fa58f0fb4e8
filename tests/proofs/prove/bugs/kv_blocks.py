"""A bug for each claim that is proved of the KV blocks."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.kv_blocks import state, transitions

BUGS = (
    Bug(state.initial, "references=containers.map()", "references=containers.map().set(0, 1)", "KV-1/initial"),
    Bug(state.initial, "        free = free.push(block, 1)", "        free = free.push(0, 1)", "loops/initial"),
    Bug(state.initial, "tables=containers.map()", "tables=containers.map().set((0, 0), 0)", "KV-5/places/initial"),
    Bug(transitions.allocate_slots, "- free_among(pool, op.hits)", "", "loops/allocate_slots"),
    Bug(transitions.let_go, "if count > 0:", "if count > 1:", "loops/free_request"),
    Bug(transitions.let_go, "free=free)", "free=pool.free)", "loops/withdraw"),
    Bug(transitions.drop, "pool.tables.remove((request, position))", "pool.tables", "loops/withdraw"),
    Bug(
        transitions.release,
        "range(blocks):\n        if pool.tables",
        "range(blocks - 1):\n        if pool.tables",
        "KV-5/freed/withdraw",
    ),
    Bug(
        transitions.release,
        "holdings=pool.holdings.remove(request)",
        "holdings=pool.holdings",
        "KV-5/freed/free_request",
    ),
    Bug(
        transitions.allocate_slots,
        "    if op.tokens <= 0 or",
        "    pool = touch(pool, pool.free.oldest(0)) if pool.free.length > 0 else pool\n    if op.tokens <= 0 or",
        "KV-8/allocate_slots",
    ),
    Bug(
        transitions.allocate_slots,
        "    if len(op.hits) > 0 and holding.blocks > 0:",
        "    if holding.blocks > 0:\n        pool = pool._replace(tables=pool.tables.remove((op.request, 0)))\n"
        "    if len(op.hits) > 0 and holding.blocks > 0:",
        "KV-5/allocate_slots",
    ),
    Bug(
        transitions.allocate_slots,
        "    owned = ",
        "    pool = pool._replace(references=pool.references.remove(pool.tables.get((0, 0), 0)))\n    owned = ",
        "KV-9/held/allocate_slots",
    ),
    Bug(
        transitions.withdraw,
        "release(pool, op.request)",
        "release(pool._replace(tables=pool.tables.remove((op.request + 1, 0))), op.request)",
        "KV-5/others/withdraw",
    ),
    Bug(
        transitions.get_computed_blocks,
        "    hits = cached",
        "    pool = pool._replace(references=pool.references.remove(0))\n    hits = cached",
        "KV-2/get_computed_blocks",
    ),
    Bug(
        transitions.commit,
        "return register_full(config, pool, op.request, op.computed)",
        "return pool._replace(free=pool.free.remove(pool.free.oldest(0)))",
        "KV-2/count/commit",
    ),
    Bug(
        transitions.reset_prefix_cache,
        "return pool, DONE",
        "return pool._replace(references=pool.references.set(0, 1)), DONE",
        "KV-1/reset_prefix_cache",
    ),
)
