"""A bug for each claim that is proved of requests that share a prefix."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.shared_prefix import transitions

REPORTING = "ask($config, $rules, $state, Report())[0]"

BUGS = (
    Bug(
        transitions.finish_by,
        "changed($state.computed, $op.request, 0)",
        "changed($state.computed, $op.request, -1)",
        "SCH-2/finish",
    ),
    Bug(
        transitions.add,
        "changed($state.status, $op.request, WAITING)",
        "changed($state.status, $op.request, RUNNING)",
        "SCH-6/add",
    ),
    Bug(
        transitions.finish_by,
        "changed($state.status, $op.request, GONE)",
        "changed($state.status, $op.request, RUNNING)",
        "running/finish",
    ),
    Bug(
        transitions.initial_by,
        "tuple(0 for _ in $config.requests)",
        "tuple(0 for _ in config.prompts)",
        "places/initial",
    ),
    Bug(
        transitions.initial_by,
        "tuple(0 for _ in $config.prompts)",
        "tuple(-1 for _ in config.prompts)",
        "reach/initial",
    ),
    Bug(
        transitions.step,
        "step_by($config, $state, NORMATIVE_RULES)",
        "($state, Outcome(Code.DONE, (*Plan($state, 0, 0).scheduled, 0, $config.batch_tokens + 1)))",
        "SCH-1/step",
    ),
    Bug(transitions.executed, REPORTING, f"{REPORTING}._replace(waiting=$state.waiting[1:])", "SCH-7/step"),
    Bug(
        transitions.step,
        "step_by($config, $state, NORMATIVE_RULES)",
        "($state, Outcome(Code.DONE, (*Plan($state, 0, 0).scheduled, 0, 1)))",
        "SCH-2/counted/step",
    ),
    Bug(
        transitions.executed,
        REPORTING,
        f"{REPORTING}._replace(reach=changed($state.reach, 0, 0))",
        "SCH-2/cached/step",
    ),
    Bug(transitions.add, "(*$state.waiting, $op.request)", "$state.waiting", "SCH-6/asked/add"),
    Bug(
        transitions.finish_by,
        "changed($state.computed, $op.request, 0)",
        "$state.computed",
        "SCH-6/asked/finish",
    ),
    Bug(transitions.up_to_the_item, "max(0, $start - $computed)", "$start - $computed", "loops/step"),
    Bug(transitions.schedule, "$plan.tokens - $tokens", "$plan.tokens", "loops/step"),
    Bug(transitions.admit, "$plan.state.waiting[1:]", "$plan.state.waiting", "loops/step"),
)

WITHOUT_A_LIMIT = Bug(
    transitions.admit, "$plan.state.status.count(RUNNING) == $config.sequences", "False", "loops/step"
)
"""It depends on what z3 was asked before in its process, and on what is imported, whether its steps suffice for a
counterexample: one of 40 seconds, or none in 100."""

UNREPORTED = Bug(transitions.executed, REPORTING, "$state", "ENC-7/step")
"""Of the proof that has the encoder cache's own report."""
