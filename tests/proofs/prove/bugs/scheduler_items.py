"""Bugs for what is proved of the items of a plan: in one encoder pass, through a round, and of computed tokens."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.scheduler import counts, items, normative, parts, requests, rounds

ADDED = "$state._replace(waiting=placed($config, $state.waiting, $request))"
PLANNED = "$state._replace(leaving=$leaving, plans=$plans)"
REJECTED = "$state.computed.get($part.request, 0) - $rejected"
ALL_ITEMS = "range(len(items_of($config, $request)))"

OF_PASSES = (
    Bug(items.fitted, ALL_ITEMS, "range(len(items_of($config, $request)) - 1)", "SCH-3/whole/schedule"),
    Bug(items.fitted, ALL_ITEMS, "range(len(items_of($config, $request)) - 1)", "SCH-3/listed/schedule"),
    Bug(items.fitted, ALL_ITEMS, "range(len(items_of($config, $request)) - 1)", "SCH-3/first/schedule"),
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
    Bug(
        rounds.look_at_items,
        "$current.state.encoder",
        "without_items(rules, config, current.state, request).encoder",
        "SCH-3/named/schedule",
    ),
    Bug(rounds.serve, "$current.state.computed.get($request, 0)", "0", "SCH-3/named/schedule"),
    Bug(
        rounds.serve,
        "$current.state.computed.get($request, 0)",
        "$current.state.computed.get($request, 0) - 2",
        "SCH-3/begins/schedule",
    ),
    Bug(normative.is_positive, "$tokens > 0", "$tokens >= 0", "X-2/schedule"),
    Bug(
        rounds.closing,
        "give_up($rules, $config, $fit.encoder, $request, ENCODER)",
        "give_up($rules, $config, $fit.encoder, $request + 1, ENCODER)",
        "loops/schedule",
    ),
    Bug(rounds.last_running, "$state.running[-1]", "$state.running[0]", "loops/schedule"),
)

OF_COMPUTED_TOKENS = (
    Bug(requests.add, ADDED, f"{ADDED[:-1]}, computed=$state.computed.set($request, 0))", "SCH-3/begun/add"),
    Bug(requests.executed, REJECTED, "$state.computed.get($part.request, 0)", "loops/update"),
    Bug(rounds.planned, PLANNED, f"{PLANNED[:-1]}, computed=$state.computed.set(0, 0))", "SCH-3/begun/schedule"),
    Bug(rounds.planned, PLANNED, "$state._replace(leaving=$leaving)", "SCH-2/computed/schedule"),
    Bug(
        counts.wanted,
        "verifying($state, $request) or awaits_output($config, $state, $request)",
        "awaits_output($config, $state, $request)",
        "loops/schedule",
    ),
)
