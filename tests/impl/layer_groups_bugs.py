"""Bugs in the tensor code of groups of layers: by name, the scope that shows each, and the change; and a load."""

from __future__ import annotations

from tests.planting import Change

from cacheimpl.layer_groups import execution, groups, operations, prefix, queue, releasing, retention, slots, state
from cacheproof.tensor_models.layer_groups_environment import Asking
from cachespec.layer_groups import Config

CROWDED = Config(
    blocks=24,
    kinds=(0, 1, 3, 2),
    spans=(0, 5, 0, 4),
    many=1,
    chains=((0, 1, 2, 3, 4), (0, 1, 2, 5), (0, 6, 7), (8, 9, 10), (0, 1, 2, 3, 4)),
    lengths=(10, 9, 7, 6, 11),
    prompts=(7, 9, 4, 6, 8),
    hash_size=2,
    steps=(1, 3, 8),
    external=2,
    ahead=1,
    resets=1,
)
"""Four kinds, blocks of two tokens, and fewer blocks than all requests need: the free queue turns round many times."""


SCOPES = {
    "states apart": Config(
        *(9, (0, 3), ((0, 1, 2), (0, 1, 2)), (6, 7)), hash_size=2, prompts=(6, 5), steps=(2, 4), drafting=(1, 1)
    ),
    "a short prompt": Config(
        *(6, (0,), ((0, 1), (0, 1)), (4, 4)), hash_size=2, prompts=(4, 3), steps=(2, 4), drafting=(1,)
    ),
}
"""Scopes beside those of the scope file: no default scope has a prompt that ends within a block of its request, or with
draft layers a checkpoint that the checkpoint behind it outlives."""

BUGS: dict[str, tuple[str, Change]] = {
    # what each kind reads
    "a window is a token too narrow": (
        "window",
        Change(vars(groups.Layers)["back"].fget, "self.reach.span - 1", "self.reach.span - 2"),
    ),
    "a chunk goes on over its end": (
        "chunks",
        Change(state.first_needed, "$tokens % $config.chunk", "($tokens - 1) % $config.chunk"),
    ),
    "the table of cross attention grows with the tokens": (
        "encoder",
        Change(state.slots_of, "torch.where($config.encoder > 0, $config.encoder, $tokens)", "$tokens"),
    ),
    "the last block of a table is left out": (
        "partial-states",
        Change(state.slots_of, "$config.size - 1", "0"),
    ),
    # the prefix
    "the whole prompt is a hit": (
        "states",
        Change(prefix.look_up, "$config.prefixes < $prompt", "$config.prefixes <= $prompt"),
    ),
    "one group is enough for a hit": ("window", Change(prefix.look_up, "$there.all(0)", "$there.any(0)")),
    "the shortest prefix is found": (
        "chunks",
        Change(
            prefix.look_up,
            "torch.where($good, $config.prefixes, 0).amax()",
            "torch.where($good & ($config.prefixes > 0), $config.prefixes, 1 << 40).amin() % (1 << 40)",
        ),
    ),
    "all blocks before the window must be there": (
        "window",
        Change(prefix.look_up, "($config.first, $config.last)", "(0 * $config.first, $config.last)"),
    ),
    "draft layers need no block behind the hit": (
        "drafting",
        Change(vars(groups.Layers)["proofs"].fget, "1 if $x else 0", "0"),
    ),
    "states have draft layers": (
        "states apart",
        Change(
            vars(groups.Layers)["proofs"].fget,
            "self.drafting and self.reach.kind is not Kind.STATE",
            "self.drafting",
        ),
    ),
    "the block behind the hit is not one of the prompt": (
        "a short prompt",
        Change(prefix.look_up, "$config.last * $config.size <= $prompt", "$config.last >= 0"),
    ),
    "the last copy is found": (
        "states",
        Change(
            prefix.first_copies, "$pool.stamp[:-1] << bits_of($pool)", "(1 << 20) - $pool.stamp[:-1] << bits_of($pool)"
        ),
    ),
    "a block that nothing needs is in the hit": (
        "window",
        Change(prefix.hits, "$places >= first_needed($x, $y)[:, None]", "$places >= 0"),
    ),
    # slots
    "each group alone has room": (
        "window",
        Change(slots.allocate_running, "$new.sum()", "$new.sum((0, 2)).amax()"),
    ),
    "hits that are free are not counted": (
        "window",
        Change(slots.allocate_new, "$new.sum() + $leaving.sum()", "$new.sum()"),
    ),
    "the last free block is never given": (
        "ahead",
        Change(slots.has_room, "$needed <= $pool.free", "$needed < $pool.free"),
    ),
    "nothing is something": ("any-call", Change(slots.has_room, "$tokens > 0", "$tokens >= 0")),
    "a request outgrows its length": (
        "any-call",
        Change(slots.allocate_running, "$end > row($config.lengths, $request)", "$end > $config.lengths.amax()"),
    ),
    "what is scheduled is behind the window": (
        "ahead",
        Change(slots.give_back, "row($pool.computed, $request)", "row($pool.scheduled, $request)"),
    ),
    "a state at every position": ("states", Change(slots._behind, "torch.where($x, $y, $since)", "$since")),
    "a loaded state has no block": (
        "three-kinds",
        Change(slots.new_places, "torch.where($loaded > 0, $x, 0)", "torch.where($loaded > 0, 0 * $x, 0)"),
    ),
    "a block of the hit behind the window is adopted": (
        "three-kinds",
        Change(slots.allocate_new, "places_of($config) >= $first[:, None]", "places_of($config) >= 0"),
    ),
    "a hit stays in the free queue": ("window", Change(slots.adopt, "without_held($touched, $write)", "$touched")),
    "what is taken can still be found": (
        "window",
        Change(slots.with_slots, "$write.put($pool.carried, $blocks, $nothing)", "$pool.carried"),
    ),
    "blocks are taken from the back": (
        "chunks",
        Change(queue.taken, "$pool.head + $wanted.cumsum(0) - 1", "$pool.head + $pool.free - $wanted.cumsum(0)"),
    ),
    "a step too few is in flight": ("ahead", Change(slots.scheduled_to, "$flying + 1", "torch.ones_like($flying)")),
    "the newest step ends where the oldest did": (
        "ahead",
        Change(
            slots.scheduled_to, "torch.where($places == $flying, $end, $ends)", "torch.where($places == 0, $end, $ends)"
        ),
    ),
    # giving back
    "useful blocks come to the front": (
        "window",
        Change(
            queue.let_go,
            "$freed & ~$cached, ($freed & $cached).flip(1).flatten()",
            "$freed, ($freed & ~$freed).flip(1).flatten()",
        ),
    ),
    "a block that another request holds is freed": (
        "window",
        Change(queue.let_go, "$references.index_select(0, $flat) == 0", "$references.index_select(0, $flat) >= 0"),
    ),
    "the beginning of a sequence goes first": (
        "chunks",
        Change(queue.let_go, "($freed & $cached).flip(1).flatten()", "($freed & $cached).flatten()"),
    ),
    "useless blocks come back from their end": (
        "partial-states",
        Change(
            releasing.free_request, "let_go($a, $b, $c, $d, forwards=True)", "let_go($a, $b, $c, $d, forwards=False)"
        ),
    ),
    # execution
    "registration goes on where it was": (
        "window",
        Change(execution.register_full, "registered=_put($a, $b, $c, $d)", "registered=$a"),
    ),
    "later copies come first": (
        "states",
        Change(
            execution.register_full, "$write.put($pool.stamp, $blocks, $x)", "$write.put($pool.stamp, $blocks, -$x)"
        ),
    ),
    "every block of a window can be found": (
        "retention",
        Change(execution.register_full, "$fresh & row($config.retained, $request)", "$fresh"),
    ),
    "the prompt goes on behind its last token": (
        "retention",
        Change(retention.prefixes, "whole($prompts - 1)", "whole($prompts)"),
    ),
    "a multiple too late": (
        "retention-interval",
        Change(retention.retained, "$behind + $interval - 1", "$behind + $interval"),
    ),
    "draft layers find no block within the prompt": (
        "retention-drafting",
        Change(retention.prefixes, "whole(prompts - proof)", "whole(prompts - proof - 1)"),
    ),
    "the newest step is executed": ("ahead", Change(execution.commit, "$ends[0]", "$ends.amax()")),
    "a step is executed twice": (
        "ahead",
        Change(execution.commit, "$flying - $done.long()", "$flying"),
    ),
    "a request without a step is executed": (
        "any-call",
        Change(execution.commit, "$known & ($flying > 0)", "$known"),
    ),
    "what was loaded is not written": (
        "three-kinds",
        Change(execution.executed, "torch.where($loads, $found, $start)", "$start"),
    ),
    "the state of a part is that of the whole": (
        "partial-states",
        Change(execution._write_states, "torch.where($end % $config.size == 0, $key, -1)", "$key"),
    ),
    "steps in flight are lost with their request": (
        "window",
        Change(execution.executed_all, "$flying > $step", "$flying < 0"),
    ),
    # the rest
    "states of the step before are those of this one": (
        "states",
        Change(releasing.new_step, "$write.fill($pool.this_step, 0)", "$pool.this_step"),
    ),
    "the prefix cache is emptied under a request": (
        "drafting-alone",
        Change(
            releasing.reset_prefix_cache, "torch.where($used, $pool.carried, -1)", "torch.full_like($pool.carried, -1)"
        ),
    ),
    "blocks of the answer are one too far": (
        "window",
        Change(operations.get_computed_blocks, "1 + $counts.cumsum(0) - $counts", "1 + $counts.cumsum(0)"),
    ),
    "a step in flight more is asked for": (
        "ahead",
        Change(Asking.may_ask, "$x <= self.config.ahead", "$x < self.config.ahead"),
    ),
}
"""The last one is in the guards: a call that the specification makes is not made."""
