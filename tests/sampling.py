"""Which cases of large families of tests are left to the night, and which stand for them when a change is taken.

`make nightly-tests` runs what `make test` leaves out. For a change, the first case of each group runs, and one in
`every` of the others. A group is what the name of a case begins with: a component, or the function where a bug is
planted; or it is the whole test. Whole cases that take long are named by themselves: other cases of the same file go
through the same code.
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
    grouped: bool = False
    """Whether a group is what the name of a case begins with, not the whole test."""


FAMILIES = (
    Family("tests/impl/interfaces/test_bad_input.py::test_bad_input_is_refused_and_changes_nothing", 3, grouped=True),
    Family("tests/impl/interfaces/test_kv_cache_lockstep.py::test_planted_bugs_are_found", 4),
    Family("tests/impl/interfaces/test_kv_cache_packed.py::test_planted_bugs_are_noticed", 4),
    Family("tests/impl/interfaces/test_kv_cache_packed.py::test_short_and_general_paths_agree", 3),
    Family("tests/impl/interfaces/test_kv_cache_packed_groups.py::test_planted_bugs_are_noticed", 4),
    Family("tests/impl/interfaces/test_kv_cache_packed_groups.py::test_short_and_general_paths_are_alike", 3),
    Family("tests/impl/interfaces/test_layer_groups.py::test_lockstep_in_every_scope", 0),
    Family("tests/impl/interfaces/test_layer_groups.py::test_planted_bugs_are_noticed", 4),
    Family("tests/impl/interfaces/test_partial_hits.py::test_planted_bugs", 4),
    Family("tests/impl/interfaces/test_vllm_plugin_encoder.py::test_no_step_reads_what_was_not_encoded", 3),
    Family("tests/impl/test_block_content_mutants.py::test_each_bug_is_caught", 12, grouped=True),
    Family("tests/impl/test_full_shared_memory.py::test_rings_are_made_and_refused_again_and_again", 0),
    Family("tests/impl/test_function_bugs.py::test_each_bug_is_caught", 4),
    Family("tests/impl/test_hisparse.py::test_every_run_is_served_and_leaves_nothing", 3),
    Family("tests/impl/test_hisparse_mutants.py::test_each_bug_is_noticed", 4),
    Family("tests/impl/test_kernels.py::test_a_planted_bug_is_noticed", 4),
    Family("tests/impl/test_kernels_rounds.py::test_a_planted_bug_is_noticed", 6),
    Family("tests/impl/test_kv_blocks.py::test_from_every_state_a_burst_is_its_calls_one_after_the_other", 3),
    Family("tests/impl/test_kv_blocks_indexed.py::test_each_bug_is_caught", 4),
    Family("tests/impl/test_kv_blocks_mutants.py::test_each_bug_is_caught", 3),
    Family("tests/impl/test_kv_blocks_mutants.py::test_without_a_bug_nothing_is_caught", 3),
    Family("tests/impl/test_layer_groups.py::test_a_call_is_recorded_once_and_repeated_in_every_state", 0),
    Family("tests/impl/test_layer_groups.py::test_long_runs_are_the_specifications", 0),
    Family("tests/impl/test_layer_groups_mutants.py::test_each_bug_is_caught", 3),
    Family("tests/impl/test_lru_eras.py::test_an_era_is_explored_as_the_specification_is", 3),
    Family("tests/impl/test_mirror_tensors.py::test_counts_and_digests_are_those_of_the_reference", 0),
    Family("tests/impl/test_mirror_tensors.py::test_each_bug_is_caught", 3),
    Family("tests/impl/test_mirror_tensors.py::test_every_triple_is_that_of_the_specification", 3),
    Family("tests/impl/test_mutants.py::test_each_bug_is_caught", 4),
    Family("tests/impl/test_object_store_lockstep.py::test_a_planted_bug_is_found", 4),
    Family("tests/impl/test_scheduler.py::test_every_triple_is_the_specifications", 6),
    Family("tests/impl/test_scheduler_arrivals.py::test_a_bug_is_seen", 4),
    Family("tests/impl/test_scheduler_mutants.py::test_each_bug_is_caught", 6),
    Family("tests/impl/test_scheduler_mutants.py::test_without_a_bug_nothing_is_caught", 3),
    Family("tests/impl/test_scheduler_plans.py::test_a_bug_of_bounds_is_seen_beside_the_specification", 4),
    Family("tests/impl/test_scheduler_plans.py::test_a_bug_of_other_sorts_is_seen_beside_the_specification", 8),
    Family("tests/impl/test_scheduler_plans.py::test_plans_are_the_specifications", 3),
    Family("tests/impl/test_scheduler_plans.py::test_plans_of_other_sorts_are_the_specifications", 4),
    Family("tests/impl/test_scheduler_plans.py::test_plans_with_bounds_are_the_specifications", 3),
    Family("tests/impl/test_scheduler_reserving.py::test_each_bug_is_caught", 4),
    Family("tests/proofs/catalogue/test_attribution.py::test_each_kept_trace_is_attributed_to_its_entry", 4),
    Family("tests/proofs/command/test_interrupted.py::test_sigterm_prints_what_is_known", 4),
    Family("tests/proofs/detection/test_detection.py::test_what_each_kind_of_evidence_says", 3),
    Family("tests/proofs/device/test_pretended.py::test_a_check_runs_on_a_device", 3),
    Family("tests/proofs/lockstep/test_lockstep.py::test_planted_in_every_operation_and_shrunk_to_the_least", 3),
    Family("tests/proofs/lockstep/test_lockstep.py::test_the_specification_agrees_with_itself", 3),
    Family("tests/proofs/lockstep/test_machine.py::test_the_specification_agrees_with_itself", 3),
    Family("tests/proofs/lockstep/test_macros_mutants.py::test_bursts_of_blocks", 3),
    Family("tests/proofs/mutants/test_native_mutants.py::test_a_fault_in_a_header_is_noticed", 0),
    Family("tests/proofs/mutants/test_native_mutants.py::test_mutants_of_components_have_the_same_verdict", 0),
    Family("tests/proofs/mutants/test_native_mutants.py::test_the_reference_engine_takes_over_by_name", 0),
    Family("tests/proofs/mutants/test_once_survived.py::test_a_property_notices_it", 3),
    Family("tests/proofs/prove/implementation/test_decoding.py::test_states_of_runs_are_decoded_alike_and_in_form", 0),
    Family("tests/proofs/prove/implementation/test_kinds.py::test_a_kind_means_what_torch_does", 4),
    Family(
        "tests/proofs/prove/implementation/test_planted_bugs.py"
        "::test_a_bug_is_refuted_by_a_counterexample_that_was_run",
        6,
    ),
    Family("tests/proofs/prove/implementation/turns/test_any_turns.py::test_a_bug_is_noticed", 4),
    Family("tests/proofs/prove/implementation/turns/test_any_turns.py::test_each_turn_has_the_numbers_of_torch", 4),
    Family("tests/proofs/prove/implementation/turns/test_any_turns.py::test_one_turn_does_not_show_it", 0),
    Family(
        "tests/proofs/prove/implementation/turns/test_any_turns.py::test_what_all_turns_write_is_what_torch_writes", 3
    ),
    Family("tests/proofs/prove/test_formulas.py::test_the_formula_is_the_property", 3),
    Family("tests/proofs/prove/test_mirror_progress.py::test_a_planted_bug_is_seen_in_a_scope", 3),
    Family("tests/proofs/prove/test_planted_bugs.py::test_a_planted_bug_is_refuted", 0, grouped=True),
    Family("tests/proofs/prove/test_publication_formulas.py::test_the_law_is_the_property", 3),
    Family("tests/proofs/prove/test_ring_formula.py::test_the_formula_is_the_property", 3),
    Family("tests/proofs/prove/test_scheduler_bugs.py::test_a_planted_bug_is_refuted", 0, grouped=True),
    Family("tests/proofs/prove/test_scheduler_items.py::test_a_planted_bug_of_a_pass_is_refuted", 0),
    Family("tests/proofs/prove/test_scheduler_items.py::test_a_planted_bug_of_a_round_is_refuted", 0),
    Family("tests/proofs/prove/test_scheduler_life.py::test_a_planted_bug_is_refuted", 15),
    Family("tests/proofs/prove/test_scheduler_life.py::test_the_formula_is_the_property", 6),
    Family("tests/proofs/prove/test_scheduler_life.py::test_the_law_is_the_property", 4),
    Family("tests/proofs/prove/test_shared_prefix_formulas.py::test_the_law_is_the_property", 3),
    Family("tests/proofs/prove/test_step_formulas.py::test_the_law_is_the_property", 3),
    Family("tests/proofs/prove/test_store_bugs.py::test_a_planted_bug_is_refuted", 8),
    Family("tests/proofs/prove/test_store_bugs.py::test_a_step_that_breaks_the_property_breaks_the_claim", 8),
    Family("tests/proofs/record/test_record.py::test_a_source_that_was_not_built_is_of_the_release_that_is_named", 0),
    Family("tests/proofs/replay/test_run.py::test_every_component_hits_the_items_that_a_plain_lru_hits", 4),
    Family("tests/proofs/results/test_findings.py::test_scripts_end_on_a_release_as_is_said", 0),
    Family("tests/proofs/rules/test_gives_up.py::test_a_rule_breaks_what_it_gives_up_and_nothing_else", 4),
    Family("tests/proofs/search/native/test_device_kernels.py::test_the_kernels_find_what_the_native_engine_finds", 0),
    Family("tests/proofs/search/native/test_following.py::test_a_planted_fault_is_noticed", 6),
    Family("tests/proofs/search/native/test_following.py::test_any_line_is_taken_or_refused_alike", 4),
    Family("tests/proofs/search/native/test_following.py::test_both_engines_say_the_same", 4),
    Family("tests/proofs/search/native/test_miscompiled.py::test_a_fault_in_a_function_is_noticed", 0),
    Family("tests/proofs/search/native/test_native_agrees.py::test_names_where_ways_meet", 0),
    Family("tests/proofs/search/native/test_versions.py::test_a_planted_fault_is_noticed", 6),
    Family(
        "tests/proofs/search/test_canonical.py::test_canonical_states_stand_for_the_states_themselves", 4, grouped=True
    ),
    Family(
        "tests/proofs/search/test_canonical.py::test_they_do_in_every_scope_of_the_normative_variant", 0, grouped=True
    ),
    Family("tests/proofs/search/test_checkpoint.py::test_it_goes_on_to_the_same_result", 3),
    Family(
        "tests/proofs/search/test_drawn_reductions.py::test_a_variant_can_be_explored_in_random_configurations",
        0,
        grouped=True,
    ),
    Family("tests/proofs/search/test_linked.py::test_however_it_is_divided_the_same_is_found", 3),
    Family("tests/proofs/search/test_plainest.py::test_nothing_more_can_be_left_out", 0),
    Family("tests/proofs/search/test_split.py::test_however_it_is_divided_the_same_is_found", 3),
    Family("tests/proofs/search/test_tensor_agrees.py::test_the_engines_agree_in_every_scope", 0, grouped=True),
    Family("tests/proofs/search/test_tensor_checkpoint.py::test_it_goes_on_to_the_same_result", 3),
    Family("tests/proofs/show/test_pytest_file.py::test_violations_of_every_era_are_reproduced", 0),
    Family("tests/proofs/targets/prefixes/test_own.py::test_each_bug_is_found", 3),
    Family("tests/proofs/targets/prefixes/test_walk.py::test_each_bug_is_found_by_its_property_and_shortened", 4),
    Family("tests/proofs/targets/test_child.py::test_the_oracle_is_a_child_that_agrees_with_the_specification", 0),
    Family("tests/proofs/validate/test_corrupted.py::test_a_run_is_possible_and_a_corrupted_one_is_not", 3),
    Family("tests/proofs/validate/test_corrupted.py::test_the_quick_way_says_what_the_slow_one_says", 4),
    Family("tests/spec/test_engine.py::test_cross_attention_that_is_read_and_was_not_written_is_noticed", 0),
    Family("tests/spec/test_engine.py::test_the_normative_engine_holds_where_the_bugs_are_planted", 3),
    Family("tests/spec/test_mirror_defences.py::test_a_removed_defence_is_missed", 4),
    Family("tests/spec/test_mirror_defences.py::test_with_all_its_defences_the_protocol_holds_there", 3),
    Family("tests/spec/test_mirror_properties.py::test_the_normative_variant_holds_where_the_bugs_are_planted", 4),
    Family("tests/spec/test_mirror_reductions.py::test_the_eras_are_explored_soundly", 4, grouped=True),
    Family("tests/spec/test_object_store_reductions.py::test_every_variant_is_explored_soundly", 3),
)

TAKE_LONG = (
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/any_numbers.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/bench.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/commands.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/formats/vectors.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/mirror.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/mutants.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/native_engine.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/reading_failures.md]",
    "tests/docs/test_pages.py::test_what_a_page_shows_can_be_done[docs/replay.md]",
    "tests/docs/test_layout.py::test_every_page_fits_its_column_or_scrolls",
    "tests/impl/interfaces/test_vllm_batched.py::test_each_mode_in_the_loop_of_the_release",
    "tests/impl/test_full_shared_memory.py::test_of_two_rings_that_do_not_fit_the_second_is_refused",
    "tests/impl/test_layer_groups.py::test_random_groups_are_the_specifications",
    "tests/impl/test_object_store_values.py::test_what_cannot_be_stored_right_is_refused[doubled again and again]",
    "tests/impl/test_scheduler.py::test_random_runs_with_an_encoder_connector_are_the_specifications",
    "tests/impl/test_scheduler.py::test_random_runs_with_bounds_are_the_specifications",
    "tests/impl/test_scheduler.py::test_random_runs_with_pictures_are_the_specifications",
    "tests/packaging/test_install.py::test_the_base_install_checks[editable]",
    "tests/proofs/catalogue/test_engines.py::test_both_engines_derive_the_same",
    "tests/proofs/command/test_names.py::test_every_name_can_be_explained_to_a_person",
    "tests/proofs/detection/test_detection.py::test_a_proof_that_got_weaker_falls_short",
    "tests/proofs/device/test_pretended.py::test_a_check_runs_on_a_device[recorded-rounds]",
    "tests/proofs/device/test_checks.py::test_a_check_passes_and_says_what_it_did[components]",
    "tests/proofs/lockstep/test_machine.py::test_a_deeper_one_is_shrunk_to_the_least",
    (
        "tests/proofs/lockstep/test_macros_scheduler.py"
        "::test_arrivals_of_more_than_64_that_come_in_another_order_are_shrunk_to_their_count"
    ),
    "tests/proofs/lockstep/test_own_names.py::test_vectors_find_most_bugs",
    "tests/proofs/mutants/test_native_mutants.py::test_mutants_are_compiled_if_they_are_many",
    "tests/proofs/mutants/test_native_mutants.py::test_the_verb_says_the_same_with_each_engine",
    "tests/proofs/prove/implementation/test_contracts.py::test_contracts_of_the_implementation_are_listed_and_kept",
    (
        "tests/proofs/prove/implementation/test_implementation_verb.py"
        "::test_the_operations_of_a_component_are_proved_at_its_shape_and_kept"
    ),
    (
        "tests/proofs/prove/test_encoder_budget_bugs.py::test_what_is_let_in_by_a_wrong_rule_is_found"
        "[admit: ($budget._replace(space=0), REFUSED) -> refused/admit]"
    ),
    (
        "tests/proofs/prove/test_encoder_budget_bugs.py::test_what_is_let_in_by_a_wrong_rule_is_found"
        "[admit: embeds > $budget.longest -> BUD-4/admit]"
    ),
    "tests/proofs/prove/test_planted_bugs.py::test_a_round_that_admits_without_a_limit_is_not_proved",
    "tests/proofs/prove/test_planted_bugs.py::test_a_handle_that_may_arrive_before_the_data_is_refuted",
    "tests/proofs/prove/test_scheduler_life.py::test_the_law_is_the_property[X-1]",
    (
        "tests/proofs/prove/test_scheduler_life.py::test_a_planted_bug_is_refuted"
        "[wanted: 2 * $state.proposed.get($request, 0) -> SCH-2/drafts/schedule]"
    ),
    "tests/proofs/prove/test_scheduler_life.py::test_an_encoder_pass_that_pins_for_another_request_is_refuted",
    (
        "tests/proofs/prove/test_scheduler_life.py::test_a_planted_bug_is_refuted"
        "[shown: (*$values, $part.request, $part.tokens, $part.start) -> loops/schedule]"
    ),
    "tests/proofs/prove/test_scheduler_life.py::test_a_planted_bug_is_refuted[preempt: ended=0 -> loops/schedule]",
    "tests/proofs/prove/test_scheduler_life.py::test_a_planted_bug_is_refuted[planned: $leaving -> X-1/schedule]",
    "tests/proofs/replay/test_hostile_traces.py::test_a_capacity_that_no_machine_has",
    "tests/proofs/replay/test_hostile_traces.py::test_a_compressed_line_of_gigabytes",
    "tests/proofs/replay/test_token_traces.py::test_a_preempted_request_computes_again",
    "tests/proofs/replay/test_token_traces.py::test_a_smaller_budget_needs_more_rounds_and_longer_waits",
    "tests/proofs/replay/test_token_traces.py::test_every_token_is_scheduled_once_where_nobody_is_preempted",
    "tests/proofs/search/native/test_following.py::test_large_numbers_overflow_nowhere",
    "tests/proofs/search/native/test_following.py::test_the_state_of_a_large_pool_comes_back_where_a_line_is_unusual",
    (
        "tests/proofs/search/native/test_largest_runs.py"
        "::test_the_largest_come_last_one_after_another_and_share_all_cores"
    ),
    "tests/proofs/search/native/test_libraries.py::test_a_trained_library_finds_the_same_and_leaves_no_counts",
    "tests/proofs/search/native/test_libraries.py::test_the_exercise_counts_what_runs",
    (
        "tests/proofs/search/native/test_miscompiled.py"
        "::test_a_library_that_finds_no_room_near_its_threads_is_compiled_for_memory_that_is_far"
    ),
    "tests/proofs/search/native/test_miscompiled.py::test_equal_hashes_are_not_taken_for_equal_states",
    "tests/proofs/search/native/test_native_agrees.py::test_every_variant_is_translated[engine]",
    "tests/proofs/search/native/test_native_agrees.py::test_every_variant_is_translated[scheduler]",
    "tests/proofs/search/test_checkpoint.py::test_it_goes_on_after_kill_9_and_after_an_interruption",
    (
        "tests/proofs/search/test_faster_engines.py"
        "::test_without_a_compiler_large_scopes_are_explored_if_they_are_asked_for"
    ),
    "tests/proofs/search/test_drawn.py::test_a_violation_that_no_release_can_show_is_no_evidence",
    "tests/proofs/search/test_symmetry.py::test_many_automorphisms",
    "tests/proofs/search/test_tensor_checkpoint.py::test_it_goes_on_after_kill_9",
    "tests/proofs/targets/vllm/test_exploring.py::test_compiled_code_finds_what_is_far_away",
    "tests/proofs/targets/vllm/test_exploring.py::test_two_processes_explore_what_one_does",
    "tests/proofs/targets/vllm/test_exploring.py::test_a_second_run_explores_nothing",
    "tests/proofs/targets/vllm/test_add.py::test_an_environment_that_fails_leaves_nothing",
    "tests/proofs/test_bench.py::test_contenders_answer_alike_and_are_counted[explore]",
    "tests/proofs/test_pytest_plugin.py::test_a_bug_is_shown_with_its_shortest_calls_and_comes_again",
    "tests/proofs/test_pytest_plugin.py::test_a_declared_rule_is_no_failure_and_one_that_never_shows_is_told",
    "tests/proofs/test_pytest_plugin.py::test_the_sample_project_passes_on_two_workers_that_share_a_seed",
    "tests/proofs/test_pytest_plugin.py::test_the_seed_and_the_database_are_those_of_hypothesis",
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
        found = GROUP.match(case) if families[test].grouped else None
        group = test, found[0] if found else ""
        if group not in groups:
            groups.add(group)
            continue
        others[test] += 1
        every = families[test].every
        if not every or others[test] % every:
            night.add(name)
    return night
