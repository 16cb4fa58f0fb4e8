"""Which cases of large families of tests are left to the night, and which stand for them when a change is taken.

Every case runs in `make nightly-tests`. For a change, the first case of each group runs, and one in `every` of the
others. A group is what the name of a case begins with: a component, or the function where a bug is planted. Whole cases
that take long are named by themselves: other cases of the same file go through the same code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

GROUP = re.compile(r"\w+")


@dataclass(frozen=True)
class Family:
    """The cases of one parametrized test."""

    test: str
    every: int
    """0: none but the first of each group."""


FAMILIES = (
    Family("tests/impl/test_block_content_mutants.py::test_each_bug_is_caught", 3),
    Family(
        "tests/proofs/prove/implementation/test_planted_bugs.py"
        "::test_a_bug_is_refuted_by_a_counterexample_that_was_run",
        4,
    ),
    Family("tests/proofs/prove/test_planted_bugs.py::test_a_planted_bug_is_refuted", 4),
    Family("tests/proofs/prove/test_scheduler_bugs.py::test_a_planted_bug_is_refuted", 3),
    Family("tests/proofs/search/test_canonical.py::test_they_do_in_every_scope_of_the_normative_variant", 0),
    Family("tests/proofs/search/test_tensor_agrees.py::test_the_engines_agree_in_every_scope", 0),
)

TAKE_LONG = (
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/bench.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/commands.md]",
    "tests/impl/test_object_store_values.py::test_what_cannot_be_stored_right_is_refused[doubled again and again]",
    (
        "tests/proofs/prove/implementation/test_implementation_verb.py"
        "::test_the_operations_of_a_component_are_proved_at_its_shape_and_kept"
    ),
    (
        "tests/proofs/prove/test_encoder_budget_bugs.py::test_what_is_let_in_by_a_wrong_rule_is_found"
        "[admit: ($budget._replace(space=0), REFUSED) -> refused/admit]"
    ),
    "tests/proofs/replay/test_hostile_traces.py::test_a_capacity_that_no_machine_has",
    "tests/proofs/replay/test_token_traces.py::test_a_smaller_budget_needs_more_rounds_and_longer_waits",
    (
        "tests/proofs/search/test_faster_engines.py"
        "::test_without_a_compiler_large_scopes_are_explored_if_they_are_asked_for"
    ),
    "tests/proofs/search/test_tensor_checkpoint.py::test_it_goes_on_after_kill_9",
    "tests/proofs/validate/test_input.py::test_random_changes_of_bytes_give_a_verdict_or_one_line[mirror]",
    "tests/spec/test_mirror_requests.py::test_the_scopes_reach_what_they_are_about[duplicates]",
)


def left_to_the_night(names: Iterable[str]) -> set[str]:
    """Of the collected tests, by their whole names in the order of their files."""
    families = {family.test: family for family in FAMILIES}
    night: set[str] = set()
    groups: set[tuple[str, str]] = set()
    others = dict.fromkeys(families, 0)
    for name in names:
        test, _, case = name.partition("[")
        if name in TAKE_LONG:
            night.add(name)
        if test not in families:
            continue
        found = GROUP.match(case)
        group = test, found[0] if found else ""
        if group not in groups:
            groups.add(group)
            continue
        others[test] += 1
        every = families[test].every
        if not every or others[test] % every:
            night.add(name)
    return night
