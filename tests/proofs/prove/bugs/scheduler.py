"""A bug for each claim that is proved of the requests of a scheduler."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.scheduler import counts, feasibility, readiness, requests, rounds, transfers

ADDED = "$state._replace(waiting=placed($config, $state.waiting, $request))"
COMPILED = "$state._replace(compiling=$state.compiling.remove($request))"
OUTPUT = "executed_all($rules, $config, $state, $accepted)"

BUGS = (
    Bug(requests.add, "state.gone.has(request)", "False", "SCH-6/add"),
    Bug(
        requests.gone,
        "produced=$state.produced.remove($request)",
        "produced=$state.produced",
        "SCH-6/forgotten/fail_load",
    ),
    Bug(
        transfers.ended_transfer,
        "without_blocks($rules, $config, $after, $request)",
        "$after",
        "SCH-5/blocks/finish_send",
    ),
    Bug(
        requests.compiled,
        COMPILED,
        "$state._replace(compiling=$state.compiling.remove($request), running=left_out($state.running, 0))",
        "SCH-5/items/compile",
    ),
    Bug(requests.add, "$state.compiling.set($request, 1)", "$state.compiling.set($request - 1, 1)", "SCH-13/add"),
    Bug(
        requests.add,
        ADDED,
        f"{ADDED[:-1]}, produced=$state.produced.set($request, 99))",
        "SCH-2/finished/add",
    ),
    Bug(
        requests.add,
        ADDED,
        f"{ADDED[:-1]}, proposed=$state.proposed.set($request, 99))",
        "SCH-2/proposed/add",
    ),
    Bug(requests.add, "is_turn($config, $request) and not $state.gone.has($request - 1)", "False", "SCH-16/add"),
    Bug(requests.add, "$state.queued.set($request, 1)", "$state.queued.set($request + 9, 1)", "SCH-6/existing/add"),
    Bug(
        requests.compiled,
        COMPILED,
        "$state._replace(compiling=$state.compiling.remove($request), gone=$state.gone.set($request + 1, 1))",
        "SCH-16/ended/compile",
    ),
    Bug(feasibility.is_feasible, "$config.prompts[$request] <= longest_prompt($config)", "True", "SCH-9/prompt/add"),
    Bug(
        requests.gone, "$state.leaving.set($request, 1)", "$state.leaving.set($request + 1, 1)", "SCH-6/apart/fail_load"
    ),
    Bug(transfers.arrived, "Transfer(LOADED, $tokens)", "Transfer(SENDING, $tokens)", "SCH-14/queues/finish_load"),
    Bug(counts.wanted, "final_length($config, $request) - 1", "final_length($config, $request)", "SCH-2/schedule"),
    Bug(
        counts.wanted,
        "$state.proposed.get($request, 0)",
        "2 * $state.proposed.get($request, 0)",
        "SCH-2/known/schedule",
    ),
    Bug(
        counts.wanted,
        "$state.proposed.get($request, 0)",
        "2 * $state.proposed.get($request, 0)",
        "SCH-2/drafts/schedule",
    ),
    Bug(
        rounds.serve,
        "$current.state.computed.get($request, 0)",
        "$current.state.computed.get($request, 0) + 1",
        "SCH-2/next/schedule",
    ),
    Bug(rounds.scheduled, "$end >= $length", "$end > $length", "SCH-2/samples/schedule"),
    Bug(
        counts.wanted,
        "verifying($state, $request) or awaits_output($config, $state, $request)",
        "verifying($state, $request)",
        "SCH-2/awaited/schedule",
    ),
    Bug(
        rounds.look_at_items,
        "rules.trimmed($config, $state, $request, $start, $tokens)",
        "rules.trimmed($config, $state, $request, $start, $tokens) + 1",
        "SCH-1/threshold/schedule",
    ),
    Bug(
        rounds.consider,
        "known_length($config, $state, $request) - $prefix.start",
        "known_length($config, $state, $request) - $prefix.start - 1",
        "SCH-1/uncut/schedule",
    ),
    Bug(
        rounds.planned,
        "$state._replace(leaving=$leaving, plans=$plans)",
        "$state._replace(leaving=$leaving, plans=$plans, proposed=$state.proposed.set(0, 1))",
        "SCH-2/once/schedule",
    ),
    Bug(rounds.planned, "listed($config, $leaving)", "current.scheduled", "SCH-5/schedule"),
    Bug(
        rounds.planned,
        "Plan($scheduled, $dropped, $finished, $preempted, $brought)",
        "Plan($scheduled, $dropped, $finished, (), $brought)",
        "SCH-5/named/schedule",
    ),
    Bug(requests.gone, "$state.gone.set($request, 1)", "$state.gone", "SCH-6/kept/fail_load"),
    Bug(requests.add, "($state, TOO_LARGE)", "($state, DONE)", "SCH-9/answered/add"),
    Bug(requests.add, "has_grammar($config, $request)", "False", "SCH-13/awaited/add"),
    Bug(rounds.run, "($state, REFUSED)", "($state, Outcome(Code.FAILED))", "SCH-2/taken/schedule"),
    Bug(
        requests.update,
        "executed_all($rules, $config, $state, $accepted)",
        "executed_all($rules, $config, $state, $accepted)._replace(queued=$state.queued.set(0, 1))",
        "SCH-16/next/update",
    ),
    Bug(requests.abort, "($state, ABSENT)", "($state, DONE)", "SCH-16/aborted/abort"),
    Bug(rounds.planned, "emptied($config, $leaving)", "$leaving", "X-1/schedule"),
    Bug(requests.gone, "$state.leaving.set($request, 1)", "$state.leaving", "X-1/fail_load"),
    Bug(rounds.planned, "shown($plan)", "(*shown($plan), 0)", "SCH-1/answered/schedule"),
    Bug(
        requests.update,
        OUTPUT,
        f"{OUTPUT}._replace(produced=$state.produced)",
        "SCH-2/output/update",
    ),
    Bug(transfers.fail_step, "executed_all($rules, $config, $after, 0)", "$after", "SCH-2/output/fail_step"),
    Bug(transfers.fail_step, "executed_all($rules, $config, $after, 0)", "$after", "SCH-2/offered/fail_step"),
    Bug(requests.update, "named($plan, $state, $after)", "(0,)", "SCH-2/least/update"),
    Bug(requests.update, "named($plan, $state, $after)", "named($plan, $after, $state)", "SCH-6/named/update"),
    Bug(
        requests.compiled,
        COMPILED,
        "$state._replace(compiling=$state.compiling.remove($request), gone=$state.gone.set($request, 1))",
        "SCH-6/named/compile",
    ),
    Bug(requests.abort, "($state, ABSENT)", "($state, DONE)", "X-3/abort"),
    # In the loops: what every turn keeps.
    Bug(rounds.preempt, "ended=1", "ended=0", "loops/schedule"),
    Bug(rounds.is_full, "len($line) >= $most", "len($line) > $most", "loops/schedule"),
    Bug(readiness.is_compiled, "not $state.compiling.has($request)", "True", "loops/schedule"),
    Bug(rounds.set_back, "$state.computed.remove($victim)", "$state.computed", "loops/schedule"),
    Bug(rounds.turned_down, "give_up($rules, $config, $encoder, $request, $cause)", "$encoder", "loops/schedule"),
    Bug(requests.withdrawn, "without_items($rules, $config, $freed, $request)", "$freed", "loops/abort"),
    Bug(requests.sampled, "$length == $whole", "$length > $whole", "loops/update"),
    Bug(requests.sampled, "$known + 1 + $part.drafts - $rejected", "$known + 1 + $part.drafts", "loops/update"),
    Bug(requests.sampled, "$final - 1 - $length", "$final - 2 - $length", "loops/update"),
    Bug(requests.named, "not $before.gone.has($part.request)", "True", "loops/update"),
    Bug(
        rounds.shown,
        "(*$values, $part.request, $part.start, $part.tokens)",
        "(*$values, $part.request, $part.tokens, $part.start)",
        "loops/schedule",
    ),
)
