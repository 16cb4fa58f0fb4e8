"""The items of a plan, through a whole round: what its chunks touch is resident at the end, and encoded once.

The round runs as in `LIFE` of `scheduler_requests`, with what `PASSES` shows of an encoder pass and its allocation. Of
the queues it keeps only what tells that a request with a part is not preempted later in the round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    SymbolicBoolean,
    Term,
    assume,
    both,
    demand,
    integer,
    integer_term,
    path,
)
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Law, Move
from cacheproof.prove.scheduler_entries import (
    ENCODER_WITH_ITEMS,
    PAIRS,
    Entries,
    fewer_entries,
    holds_still,
    is_item,
    item_of,
    lets_go_of,
)
from cacheproof.prove.scheduler_life import of_each, queues_are_apart, runs, waits
from cacheproof.prove.scheduler_passes import claims_of_allocation, environment, reads
from cacheproof.prove.scheduler_queues import ANSWERS, INTEGERS, Members
from cacheproof.prove.scheduler_requests import LIFE
from cacheproof.prove.scheduler_rounds import is_start_of, renewed_round, scheduled_by_itself, the_same
from cacheproof.prove.scheduler_rounds import LOOPS as LOOPS_OF_LIFE
from cacheproof.prove.scheduler_settings import RULES
from cacheproof.prove.scheduler_stand_ins import any_answer, is_fit
from cacheproof.prove.sequences import Unknown, length
from cacheproof.prove.values_of_inputs import fresh, lift
from cachespec.kernel import Operation
from cachespec.scheduler import normative, parts, rounds
from cachespec.scheduler.operations import Schedule

ROW = "loops"
