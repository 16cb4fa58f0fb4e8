"""Bugs for what is proved of the items of a plan: in one encoder pass with its allocation, and through a round."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.scheduler import items, parts, rounds

ALL_ITEMS = "range(len(items_of($config, $request)))"

OF_PASSES = (
    Bug(items.fitted, ALL_ITEMS, "range(len(items_of($config, $request)) - 1)", "SCH-3/whole/schedule"),
    Bug(items.fitted, ALL_ITEMS, "range(len(items_of($config, $request)) - 1)", "SCH-3/listed/schedule"),
    Bug(items.fitted, "return fit", "return fit._replace(encode=())", "SCH-3/pass/schedule"),
    Bug(items.fitted, "return fit", "return fit._replace(encode=fit.relies)", "SCH-4/pass/schedule"),
    Bug(items.fit_item, "$config.whole_items and cuts($item, $start, $tokens)", "False", "loops/schedule"),
    Bug(items.fit_item, "is_granted($config, $fit, $request, $item)", "False", "loops/schedule"),
    Bug(items.with_room, "$fit.granted + $item[LENGTH]", "$fit.granted", "loops/schedule"),
    Bug(parts.take, "Allocate($request, $index)", "Allocate($request, $index + 1)", "loops/schedule"),
)

OF_ROUNDS = (
    Bug(
        rounds.look_at_items,
        "rules.trimmed($config, $state, $request, $start, $tokens)",
        "rules.trimmed($config, $state, $request, $start, $tokens) + 1",
        "SCH-3/schedule",
    ),
    Bug(rounds.holding, "$fit.encoder", "current.state.encoder", "SCH-3/schedule"),
    Bug(
        rounds.look_at_items,
        "$current.state.encoder",
        "without_items(rules, config, current.state, current.state.running[0]).encoder",
        "SCH-4/once/schedule",
    ),
    Bug(rounds.last_running, "$state.running[-1]", "$state.running[0]", "loops/schedule"),
)
