"""What arrives and what is aborted between two steps is written together, and nobody sees that but the clock."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import torch
from tests.impl.scheduler_arrivals import Twins, engine, play_bursts, settings, step_of
from tests.impl.scheduler_engines import Asked, Both, Feature, Place, asked, settings_of
from tests.impl.scheduler_runs import crowded
from tests.planting import Change, planted

from cacheimpl.scheduler import feasibility, requests
from cacheimpl.scheduler.arrivals import Arrivals
from cacheimpl.scheduler.contents import Contents, among_blocks, common, packed
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    NeverServedError,
    TooManyRequestsError,
)
from cacheimpl.scheduler.settings import Settings
from cacheproof.tensor_models.scheduler import tables_of
from cachespec.scheduler import Config
from cachespec.scheduler.feasibility import is_feasible

torch.set_num_threads(1)


# Beside the specification, and beside one by one --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3, 6))
def test_bursts_are_the_specifications(seed: int) -> None:
    both = Both(crowded(40, seed, room=0.1)._replace(external=()), rows=16)
    play_bursts(both, seed, 150)
    assert both.state.gone.length > both.rows


def test_bursts_are_what_one_call_after_the_other_is() -> None:
    seen = Counter[str]()
    for seed in range(12):
        twins = Twins(settings(seed), seed)
        twins.play(50)
        seen += twins.seen
    refusals = (DuplicateRequestError, NeverServedError, TooManyRequestsError, InvalidRequestError)
    wanted = {"arrived", "aborted", "rounds", *(error.__name__ for error in refusals)}
    assert {what for what in wanted if seen[what] > 10} == wanted


def limited(draw: random.Random) -> Config:
    """One request, and an engine that has about as much of everything as it needs."""
    prompt, length = draw.randint(3, 9), draw.randint(1, 4)
    start = draw.randint(0, max(0, prompt - length))
    return Config(
        block_size=draw.choice((1, 2)),
        kv_blocks=draw.randint(4, 12),
        token_budget=draw.randint(3, 12),
        encoder_compute=draw.randint(1, 4),
        encoder_capacity=draw.randint(1, 4),
        max_running=2,
        max_model_len=draw.randint(9, 14),
        prompts=(prompt,),
        outputs=(draw.randint(1, 6),),
        items=(((0, start, length),) if start + length <= prompt else (),),
        long_prefill_threshold=draw.choice((0, 3)),
        alignment=draw.choice((0, 2)),
        whole_items=draw.randint(0, 1),
        chunked_prefill=draw.randint(0, 1),
    )


def limits_agree() -> bool:
    """Whether who is turned away on the host is turned away on the tables, and by the specification."""
    draw, seen = random.Random(3), set[bool]()
    for _ in range(600):
        config = limited(draw)
        wanted = is_feasible(config, 0)
        if accepted(Scheduler(settings_of(config, 2)), asked(config, 0)) != wanted:
            return False
        if bool(requests.feasible(tables_of(config, "cpu"))[0]) != wanted:
            return False
        seen.add(wanted)
    return seen == {False, True}


def accepted(made: Scheduler, request: Asked) -> bool:
    """Whether it can be served."""
    try:
        made.add_request(request)
    except NeverServedError:
        return False
    return True


def test_who_can_never_be_served_is_the_same_everywhere() -> None:
    assert limits_agree()


def priorities_count_where_asked() -> bool:
    """Whether the least one comes first in one engine, and the first one in the other."""
    served = []
    for by_priority in (False, True):
        made = engine(max_num_seqs=1, by_priority=by_priority)
        for name, priority in (("a", 2), ("b", 1), ("c", 1)):
            made.add_request(Asked(name, [1, 2, 3], 1, priority))
        served.append([name for _ in range(3) for name in step_of(made)])
    return served == [["a", "b", "c"], ["b", "c", "a"]]


def test_priorities_count_where_asked() -> None:
    assert priorities_count_where_asked()


def numbers_are_exact(seed: int) -> bool:
    """Whether numbers in use are equal where all up to there is, and nowhere else, while others are taken back."""
    draw, contents = random.Random(seed), Contents(90)
    used: list[tuple[list[int], list[tuple[str, int, int]], list[int]]] = []
    for _ in range(150):
        if contents.left < 6 or draw.random() < 0.1:
            used = draw.sample(used, len(used) // 2)
            carried = {number for number in range(90) if draw.random() < 0.1}
            contents.keep({number for *_, chain in used for number in chain} | carried)
        tokens = [draw.randrange(2) for _ in range(draw.randint(0, 12))]
        items = [(draw.choice("ab"), draw.randint(0, 6), 4)] if draw.random() < 0.5 else []
        chain = contents.of_prompt(packed(tokens), 2, items)
        used.append((tokens, items, chain))
        meant = dict[Any, int]()
        for asked_for, shown, numbers in used:
            if len(numbers) != len(asked_for) // 2:
                return False
            for end, number in zip(range(2, 14, 2), numbers, strict=False):
                known = tuple(asked_for[:end]), tuple(one for one in shown if one[1] < end)
                if meant.setdefault(known, number) != number:
                    return False
        if len({*meant.values()}) < len(meant):
            return False
    return True


@pytest.mark.parametrize("seed", range(10))
def test_numbers_are_exact(seed: int) -> None:
    assert numbers_are_exact(seed)


def long_prompts() -> bool:
    """Whether prompts that begin alike, or with the same item elsewhere, are found as far as they are alike."""
    config = Settings(4, 200, 400, 8, 64, 8, max_items=2, encoder_compute_budget=64, encoder_cache_size=64)
    engine, tokens = Scheduler(config), list(range(40))
    first, moved = Feature("one", Place(17, 6)), Feature("one", Place(16, 6))
    other = Feature("other", Place(17, 6))
    prompts = {
        "all": Asked("all", tokens, 1, 0, (first,)),
        "again": Asked("again", tokens, 1, 0, (first,)),
        "without": Asked("without", tokens, 1),
        "other": Asked("other", tokens, 1, 0, (other,)),
        "moved": Asked("moved", tokens, 1, 0, (moved,)),
        "half": Asked("half", [*tokens[:30], *range(10)], 1, 0, (first,)),
        "behind": Asked("behind", [*range(100, 104), *tokens[4:]], 1),
    }
    found = {}
    for name, one in prompts.items():
        engine.add_request(one)
        output = engine.schedule()
        assert output is not None
        found[name] = len(one.prompt_token_ids) - output.num_scheduled_tokens[name]
        engine.update_from_output()
    return found == {"all": 0, "again": 36, "without": 16, "other": 16, "moved": 16, "half": 28, "behind": 0}


def test_prompts_are_found_again_as_far_as_they_are_alike() -> None:
    assert long_prompts()


def differs() -> bool:
    """Whether on some run a burst is not what it stands for."""
    try:
        assert limits_agree()
        assert all(numbers_are_exact(seed) for seed in range(10))
        assert priorities_count_where_asked()
        assert long_prompts()
        for seed in range(3):
            play_bursts(Both(crowded(40, seed, room=0.1)._replace(external=()), rows=16), seed, 150)
        for seed in range(12):
            Twins(settings(seed), seed).play(50)
    except (AssertionError, LookupError, RuntimeError):
        return True
    return False


BUGS = {
    "the last one that arrives is the first": Change(
        Arrivals.flushed,
        "torch.arange(len($new), device=$rows.device)",
        "-torch.arange(len($new), device=$rows.device)",
    ),
    "priorities are forgotten": Change(Arrivals._write, "$noted.read.priority if $by_priority else 0", "0"),
    "priorities count where they must not": Change(
        Arrivals._write, "$noted.read.priority if $by_priority else 0", "$noted.read.priority"
    ),
    "a row remembers its last request": Change(Arrivals.flushed, "forgotten($state, $joining)", "$state"),
    "who is aborted first lets go last": Change(requests.aborted, "$x(0, $rows, $places)", "$x(0, $rows, -$places)"),
    "an abort is forgotten": Change(
        Arrivals.taken_leaving, "range(0, len($rows), $most)", "range(1, len($rows), $most)"
    ),
    "the output of a plan counts for who was aborted": Change(Arrivals.has_aborts, "bool(self._leaving)", "False"),
    "aborts wait for an arrival": Change(Arrivals.has_notes, "self._new or self._leaving", "self._new"),
    "who is aborted is not told": Change(requests.departed, "$state.leaving | $leaving", "$state.leaving"),
    "a row is given twice": Change(
        Arrivals._collect_rows,
        "$row in self.names and $x and ($row not in $new) and $other",
        "$row in self.names and $x and $other",
    ),
    "items of who is not written yet are taken back": Change(
        Arrivals._collect_items,
        "($one for $numbers in $x for $one in $numbers)",
        (
            "($one for row, $numbers in self._shown.items() if row not in {$one.row for $one in "
            "self._new} for $one in $numbers)"
        ),
    ),
    "items of requests are taken back": Change(Arrivals._collect_items, "self._shown.values()", "()"),
    "contents of who is written with them are taken back": Change(
        Arrivals._chain, "self._of_row[$noted.row] = $chain", "self._of_row.setdefault($noted.row, [])"
    ),
    "contents go to the row of the next one": Change(
        Arrivals._write_contents, "$lengths.cumsum(0) - $lengths", "$lengths.cumsum(0)"
    ),
    "a row keeps the contents of its last request": Change(
        Arrivals._write_contents, "$table.index_fill_(0, $rows, $y)", "pass"
    ),
    "starts and lengths are exchanged": Change(
        Arrivals._write_items,
        "($x, $config.encoder.claims, $config.item_starts)",
        "($x, $config.item_starts, $config.encoder.claims)",
    ),
    "items in a block do not count": Change(among_blocks, "($name, $start - $place * $block_size)", "()"),
    "where an item begins in a block does not count": Change(
        among_blocks, "($name, $start - $place * $block_size)", "($name, 0)"
    ),
    "an item does not count in its first block": Change(
        among_blocks, "range($start // $block_size, $x)", "range($start // $block_size + 1, $x)"
    ),
    "what comes before does not count": Change(
        Contents.of_prompt, "($rest.name, $known, $x, $among.get($place))", "(0, 0, $x, $among.get($place))"
    ),
    "where prompts part does not count": Change(
        Contents.of_prompt, "($rest.name, $known, $x, $among.get($place))", "($rest.name, 0, $x, $among.get($place))"
    ),
    "what is like a rest at its beginning is like all of it": Change(
        common, "$rest.memory[$here:$there] == $x", "$rest.memory[$here:$there] == $x or True"
    ),
    "items where prompts part do not count": Change(
        Contents.of_prompt, "($rest.name, $known, $x, $among.get($place))", "($rest.name, $known, $x, None)"
    ),
    "items of a rest are at other places": Change(Contents.of_prompt, "at - $place", "at"),
    "items of a rest do not count": Change(common, "$rest.among or $among", "False"),
    "a rest goes on behind what was taken back": Change(Contents.keep, "del $rest.numbers[$kept:]", "pass"),
    "what is new has a number of somebody else": Change(
        Contents.fresh, "del self._free[len(self._free) - $count:]", "pass"
    ),
    "a request that just fits is turned away": Change(
        feasibility.request_fits, "$computed <= $limits.room", "$computed < $limits.room"
    ),
    "an item that just fits is turned away": Change(
        feasibility.item_fits, "$length <= $limits.item", "$length < $limits.item"
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_seen(bug: str) -> None:
    with planted(BUGS[bug]):
        assert differs()


def test_without_a_bug_nothing_is_seen() -> None:
    assert not differs()
