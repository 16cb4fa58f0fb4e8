"""The decisions of a scheduling step in which schedulers differ: normative ones, and those of the eras.

The functions of a step take a table of rules first. The normative table is in `normative`; an era is that table with
some entries replaced, each with its number in the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cachespec.kernel import Variant

Rules = Any
"""For the annotations of the entries themselves, which are called with the table that they are in."""


class Table(NamedTuple):
    """The parts, and the decisions."""

    kv: Variant[Any, Any, Any]
    encoder: Variant[Any, Any, Any]
    accepts: Callable[..., bool]
    """`(config, request)`: whether it is queued when it arrives."""
    serve_running: Callable[..., Any]
    """`(rules, config, round) -> round`: the first phase."""
    admit_waiting: Callable[..., Any]
    """`(rules, config, round) -> round`: the second phase."""
    wanted: Callable[..., int]
    """`(config, state, request, start)`: the tokens that a running request has to compute."""
    offered: Callable[..., int]
    """`(config, state, request, start, tokens, budget)`: how many of them before the items are looked at."""
    fit_item: Callable[..., Any]
    """`(rules, config, fit, request, place, start) -> fit`: one item of the encoder pass."""
    trimmed: Callable[..., int]
    """`(config, state, request, start, tokens)`: what of it is scheduled, after the items were looked at."""
    is_count: Callable[[int], bool]
    """`(tokens)`: whether this many tokens are scheduled."""
    passed_over: Callable[..., Any]
    """`(rules, config, round, request, fit) -> round`: nothing of a running request is scheduled now."""
    victim: Callable[..., int]
    """`(config, state)`: who is preempted."""
    lose: Callable[..., Any]
    """`(rules, config, state, victim) -> state`: what a preempted request gives back."""
    joined: Callable[..., Any]
    """`(config, running, request) -> running`: where an admitted request is served."""
    back_in_line: Callable[..., Any]
    """`(config, waiting, victim) -> waiting`: where a preempted request waits."""
    found: Callable[..., Any]
    """`(rules, config, state, request) -> prefix`: where a waiting request begins."""
    offered_whole: Callable[..., int]
    """`(config, state, request, start, tokens, budget)`: as `offered`, for a waiting request."""
    slots: Callable[..., Any]
    """`(rules, config, state, request, prefix, tokens) -> slots`: blocks for a waiting request."""
    allocated: Callable[..., Any]
    """`(rules, config, state, request, computed, tokens, hits) -> slots`: the call that takes blocks."""
    turned_down: Callable[..., Any]
    """`(rules, config, round, request, cause) -> round`: a waiting request is not admitted now."""
    after_round: Callable[..., Any]
    """`(rules, config, state, scheduled) -> state`: what happens when the plan is made, before it is executed."""
    executed: Callable[..., Any]
    """`(rules, config, state, scheduled, accepted) -> state`: one part of a plan was executed."""
    leave: Callable[..., Any]
    """`(rules, config, state, request) -> state`: what a finished request gives back."""
    abort: Callable[..., Any]
    """`(rules, config, state, request) -> state`: what an aborted request gives back."""
