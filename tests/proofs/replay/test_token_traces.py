"""Prompts by blocks, and requests in rounds: counts against a plain cache, causes of differences, planted bugs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.replay.plain_blocks import plain_hits

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.replay.agenda import Agenda
from cacheproof.replay.driver import with_known_hash
from cacheproof.replay.readers import read
from cacheproof.replay.result import BY_CLOCK, ReplayResult, Setting
from cacheproof.replay.run import Replay, configuration, replay_of
from cacheproof.replay.shipped import DATA
from cacheproof.replay.workload import Arrival, Workload
from cachespec.kernel import MISS, Outcome, Tokens
from cachespec.kv_blocks import FreeRequest
from cachespec.scheduler import Schedule

MOONCAKE = DATA / "mooncake_slice.jsonl.gz"
WEKA = DATA / "weka_slice.jsonl.gz"
AZURE = DATA / "azure_code_slice.csv.gz"


def served(trace: Path, capacity: int, *, by_clock: bool = False, **options: str) -> ReplayResult:
    """Through the KV blocks, without full checks on the way."""
    chosen = component_named("kv_blocks")
    given = read([trace], {name.replace("_", "-"): value for name, value in options.items()})
    result = Replay(Setting(chosen, chosen.normative, given, capacity, 0, BY_CLOCK if by_clock else 1)).run()
    assert result.violations == []
    return result


def lines(trace: Path) -> list[dict[str, Any]]:
    """The rows as they are in the file."""
    with gzip.open(trace, "rt") as file:
        return [json.loads(line) for line in file]


# As a plain cache counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [240, 700])
def test_mooncake_as_table_has_the_hits_of_a_plain_cache(capacity: int) -> None:
    recorded = [tuple(row["hash_ids"][: row["input_length"] // 512]) for row in lines(MOONCAKE)[:150]]
    result = served(MOONCAKE, capacity, as_table="yes", requests="150")
    assert (result.references, result.hits) == (sum(map(len, recorded)), plain_hits(recorded, capacity))
    assert result.peaks["duplicates"] == 0


@pytest.mark.parametrize("capacity", [1019, 1500])
def test_weka_as_table_has_the_hits_of_a_plain_cache(capacity: int) -> None:
    """Merged here by hand: a session every 60 seconds, in the order of their numbers."""
    rows = lines(WEKA)
    begin = {session: 60 * place for place, session in enumerate(sorted({row["s"] for row in rows}))}
    rows.sort(key=lambda row: (begin[row["s"]] + row["t"], row["s"], row["k"]))
    named = [
        tuple(row["s"] * 10**6 + name for first, many in row["runs"] for name in range(first, first + many))
        for row in rows
    ]
    assert served(WEKA, capacity, as_table="yes").hits == plain_hits(named, capacity)


def test_all_names_as_full_blocks_are_more_references() -> None:
    rows = lines(MOONCAKE)[:60]
    result = served(MOONCAKE, 300, as_table="yes", ids="all", requests="60")
    assert result.references == sum(len(row["hash_ids"]) for row in rows)
    assert result.hits == plain_hits([tuple(row["hash_ids"]) for row in rows], 300)


# Where an engine differs --------------------------------------------------------------------------------------------


def made(tmp_path: Path, *prompts: tuple[int, int, list[int]]) -> Path:
    """A Mooncake trace: seconds, tokens, names of each request; ten tokens are generated."""
    path = tmp_path / "made.jsonl"
    rows = [
        {"timestamp": 1000 * seconds, "input_length": length, "output_length": 10, "hash_ids": names}
        for seconds, length, names in prompts
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_last_token_is_computed_again_and_its_block_is_there_twice(tmp_path: Path) -> None:
    path = made(tmp_path, (0, 1024, [0, 1]), (1, 1024, [0, 1]))
    assert served(path, 9, as_table="yes").hits == 2
    again = served(path, 9, decode="none", partial="no")
    assert (again.hits, again.peaks["duplicates"]) == (1, 1)
    assert served(path, 9, decode="none", partial="no", last_token="no").hits == 2  # a rule, no password


def test_a_block_that_is_not_full_takes_room(tmp_path: Path) -> None:
    path = made(tmp_path, (0, 1024, [0, 1]), (1, 600, [2, 3]), (2, 1024, [0, 1]))
    assert served(path, 3, as_table="yes").hits == 2
    assert served(path, 3, decode="none", last_token="no").hits == 1  # a rule, no password


def test_generated_tokens_fill_blocks_that_nobody_finds(tmp_path: Path) -> None:
    path = made(tmp_path, *[(n, 512 * 2 - 5, [0, n]) for n in range(1, 4)])
    assert served(path, 4, decode="none").hits == served(path, 4).hits == 2
    workload = read([path], {})
    assert [arrival.tokens for arrival in workload.arrivals] == [Tokens(1019, 1028, 10, (n,)) for n in range(1, 4)]


def test_what_the_next_prompt_has_may_be_what_was_generated(tmp_path: Path) -> None:
    """One more block of the third prompt is found; the fourth one goes another way, and says nothing of the third."""
    path = tmp_path / "made.jsonl"
    rows = [(0, 70, [1, 1]), (1, 140, [1, 2]), (2, 200, [1, 3]), (3, 130, [7, 2])]
    path.write_text(
        "".join(
            json.dumps({"s": 4, "k": k, "t": float(k), "in": length, "out": 130, "runs": [run]}) + "\n"
            for k, length, run in rows
        )
    )
    guessed = [arrival.tokens for arrival in read([path], {"decode": "next-prompt"}).arrivals]
    assert [one.appended[:1] for one in guessed if one] == [(1,), (2,), (7,), (9,)]
    assert served(path, 40, decode="next-prompt").hits == served(path, 40, decode="unique").hits + 2


def test_requests_in_flight_pin_what_they_hold_and_hide_what_is_not_computed_yet(tmp_path: Path) -> None:
    path = made(tmp_path, (0, 1100, [0, 1, 2]), (0, 1100, [0, 1, 3]), (9, 1100, [0, 1, 4]))
    alone, together = served(path, 6), served(path, 6, by_clock=True)
    assert (alone.hits, alone.peaks["duplicates"], alone.in_flight) == (4, 0, 1)
    assert (together.hits, together.peaks["duplicates"], together.in_flight) == (2, 2, 2)
    assert together.peaks["held"] == 6
    narrow = served(path, 4, by_clock=True)
    assert (narrow.waited, narrow.in_flight, narrow.hits) == (1, 1, 2)
    assert narrow.longest_wait == pytest.approx(1100 / 10_000 + 10 * 0.03)


def test_calls_are_due_in_the_order_of_their_time() -> None:
    agenda = Agenda()
    for seconds, ends in ((5.0, True), (2.0, False), (2.0, True)):
        agenda.enter(seconds, (), ends=ends)
    assert (agenda.in_flight, agenda.is_due(1.9), agenda.is_due(2.0)) == (2, False, True)
    assert [(due.seconds, due.order) for due in (agenda.next(), agenda.next(), agenda.next())] == [
        (2.0, 1),
        (2.0, 2),
        (5.0, 0),
    ]
    assert (agenda.now, agenda.in_flight) == (5.0, 0)


def test_a_workload_without_a_clock_is_not_replayed_by_one() -> None:
    chosen = component_named("kv_blocks")
    given = Workload("made", "slots", (1,), (Arrival((0,), Path("made"), 1),))
    with pytest.raises(InputError, match="does not say when its requests come"):
        Replay(Setting(chosen, chosen.normative, given, 3, concurrency=BY_CLOCK))


def test_a_pool_that_gives_nothing_back_is_noticed() -> None:
    chosen = component_named("kv_blocks")
    right = chosen.normative.transitions[FreeRequest]
    keeps = chosen.normative.era(
        "planted", "planted", {FreeRequest: lambda c, s, op: (s, right(c, s, op)[1])}, {FreeRequest: "planted"}
    )
    given = read([MOONCAKE], {"requests": "3"})
    (violation,) = Replay(Setting(chosen, keeps, given, 100, 1)).run().violations
    assert violation.property.startswith("KV-")


# Rounds -------------------------------------------------------------------------------------------------------------


def rounds(capacity: int = 3000, check_every: int = 0, **options: str) -> ReplayResult:
    """The Azure slice through the scheduler."""
    chosen = component_named("scheduler")
    return replay_of(Setting(chosen, chosen.normative, read([AZURE], options), capacity, check_every)).run()


def test_every_token_is_scheduled_once_where_nobody_is_preempted() -> None:
    result = rounds(requests="40", budget="2048")
    requests = [arrival.tokens for arrival in read([AZURE], {"requests": "40"}).arrivals]
    assert result.violations == []
    assert (result.requests, result.rejected, result.preempted, result.least) == (40, 0, 0, 1)
    assert result.tokens == sum(one.length for one in requests if one)
    assert result.longest_wait > 0


def test_a_preempted_request_computes_again() -> None:
    ample, scarce = rounds(requests="30"), rounds(capacity=500, requests="30")
    assert (ample.preempted, scarce.violations) == (0, [])
    assert scarce.preempted > 0
    assert scarce.tokens > ample.tokens


def test_a_smaller_budget_needs_more_rounds_and_longer_waits() -> None:
    small, large = rounds(requests="30", budget="512"), rounds(requests="30", budget="8192")
    assert small.rounds > large.rounds
    assert small.longest_wait > large.longest_wait
    assert small.tokens == large.tokens


def test_requests_that_do_not_fit_the_pool_are_rejected() -> None:
    result = rounds(capacity=100, requests="20")
    too_long = [row.tokens for row in read([AZURE], {"requests": "20"}).arrivals if row.tokens]
    assert result.rejected == sum(one.length > 1600 for one in too_long) > 0
    assert result.violations == []


def schedules(wrong: Any) -> ReplayResult:
    """Rounds with a planted transition in the place of `Schedule`."""
    chosen = component_named("scheduler")
    right = chosen.normative.transitions[Schedule]
    planted = chosen.normative.era(
        "planted", "planted", {Schedule: lambda c, s, op: wrong(c, *right(c, s, op))}, {Schedule: "planted"}
    )
    given = read([AZURE], {"requests": "5"})
    return replay_of(Setting(chosen, planted, given, 3000, 0)).run()


def negative(config: Any, state: Any, outcome: Outcome) -> Any:
    """The first count of a plan is made negative."""
    if not state.plans or not state.plans[-1].scheduled:
        return state, outcome
    plan = state.plans[-1]
    first, *others = plan.scheduled
    changed = plan._replace(scheduled=(first._replace(tokens=-first.tokens), *others))
    return state._replace(plans=(*state.plans[:-1], changed)), outcome


def test_a_count_that_is_not_positive_is_noticed() -> None:
    (violation,) = schedules(negative).violations
    assert violation.property == "SCH-1"


def test_a_scheduler_that_schedules_nobody_is_noticed() -> None:
    (violation,) = schedules(lambda config, state, outcome: (state._replace(plans=()), MISS)).violations
    assert violation.property == "rounds"


def test_a_workload_of_contents_has_no_rounds() -> None:
    chosen = component_named("scheduler")
    with pytest.raises(InputError, match="serves in rounds"):
        configuration(Setting(chosen, chosen.normative, read([MOONCAKE], {}), 100))


def test_a_configuration_with_a_known_hash_is_the_same_configuration() -> None:
    chosen = component_named("scheduler")
    given = configuration(Setting(chosen, chosen.normative, read([AZURE], {}), 100))
    known = with_known_hash(given)
    assert known == given
    assert hash(known) == hash(given)
    assert {given: 1}[known] == 1


def test_arrivals_are_exact_to_a_tick() -> None:
    workload = read([AZURE], {"requests": "3"})
    assert [arrival.seconds for arrival in workload.arrivals] == [0.0, 0.052, 0.098189]


# Files that are wrong -----------------------------------------------------------------------------------------------

PROMPT = {"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [0, 1]}
TURN = {"s": 1, "k": 0, "t": 0.5, "in": 130, "out": 1, "runs": [[1, 2]]}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**PROMPT, "hash_ids": [0]}, "600 tokens are 2 blocks of 512, and there are 1 names"),
        ({**PROMPT, "hash_ids": [0, "x"]}, "must be an array of names"),
        ({**PROMPT, "input_length": 0}, "a prompt has at least one token"),
        ({**PROMPT, "output_length": -1}, "an output is not negative"),
        ({**PROMPT, "timestamp": "now"}, "the field 'timestamp' must be an integer"),
        ({**TURN, "runs": [[1, 3]]}, "130 tokens fill 2 blocks of 64"),
        ({**TURN, "runs": [[1]]}, "must be an array of pairs"),
        ({**TURN, "t": "x"}, "the field 't' must be a number of seconds"),
        ({**TURN, "api_time": -1}, "the field 'api_time' must be a number of seconds"),
        ({**TURN, "in": 0}, "a prompt has at least one token"),
        ("2023-11-16 18:17:03.9799600,4808", "there must be three fields"),
        ("2023-11-16,4808,10", "there must be a time and two integers"),
        ("2023-11-16 18:17:03.9799600,4808,0", "a request has at least one token"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(tmp_path: Path, row: Any, said: str) -> None:
    path = tmp_path / "trace"
    good = "TIMESTAMP,ContextTokens,GeneratedTokens"
    if not isinstance(row, str):
        good = json.dumps(TURN if "s" in row else PROMPT)
    path.write_text(good + "\n" + (row if isinstance(row, str) else json.dumps(row)) + "\n")
    with pytest.raises(InputError, match=f"line 2: .*{said}"):
        read([path], {})


def test_a_mooncake_trace_is_called_by_its_file(tmp_path: Path) -> None:
    for name in ("conversation_trace.jsonl", "toolagent_trace.jsonl"):
        (tmp_path / name).write_bytes(gzip.decompress(MOONCAKE.read_bytes()))
    assert read([tmp_path / "toolagent_trace.jsonl"], {}).title.startswith("Mooncake trace toolagent_trace")
    assert read([tmp_path / "conversation_trace.jsonl"], {}).title.startswith("Mooncake trace conversation_trace")
