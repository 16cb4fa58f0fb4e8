"""One exploration shared by several processes finds what one process finds; a death is told, not waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from typing import Any, Self

import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search import clock
from cacheproof.search.campaign import SHARED_FROM, Effort
from cacheproof.search.crew import Alone, Answer, Arguments, Crew
from cacheproof.search.engines import engine_named
from cacheproof.search.processes import Piped, Processes
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration, Snapshot
from cacheproof.search.shard import Arrival, Shard
from cacheproof.search.tasks import Task
from cacheproof.search.worker import Subject

RUNS = [
    ("lru", "M2", "turns"),
    ("mirror", "M3", "larger-request"),
    ("mirror", "M1", "drop"),
    ("encoder_cache", "E1", "any-call"),
]
"""A lasso and three traces; four lassos with calls in progress; a search that ends early; properties of steps."""


def subject(component: str, variant: str, scope: str) -> Subject:
    found = scope_named(component_named(component), scope)
    return Subject(component, variant, found.config, found.plan_for(variant))


def explored(what: Subject, crew: Crew | None = None) -> Exploration:
    component = component_named(what.component)
    found = explore(component, component.variants[what.variant], what.config, what.plan, crew=crew)
    return replace(found, seconds=0.0, peak_bytes=0)


class InTurn:
    """Several shards in this process: the work is divided as among processes, without waiting for any to start."""

    def __init__(self, what: Subject, owners: int, slice_states: int) -> None:
        component = component_named(what.component)
        variant = component.variants[what.variant]
        self.owners, self.slice_states = owners, slice_states
        self.shards = [Shard(component, variant, what.config, what.plan, place, owners) for place in range(owners)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def begin(self) -> None:
        self._exchange(self.ask(Shard.begin))

    def expand(self) -> None:
        self._exchange(self.ask(Shard.expand, self.slice_states, 9.0))

    def ask(self, question: Callable[[Shard, *Arguments], Answer], *arguments: *Arguments) -> list[Answer]:
        return [question(shard, *arguments) for shard in self.shards]

    def ask_each(
        self, question: Callable[[Shard, *Arguments], Answer], arguments: Sequence[tuple[*Arguments]]
    ) -> list[Answer]:
        return [question(shard, *own) for shard, own in zip(self.shards, arguments, strict=True)]

    def _exchange(self, outgoing: Sequence[Sequence[list[Arrival]]]) -> None:
        """The last one's first: the order in which messages come must not matter."""
        for shard in self.shards:
            for of_one in reversed(outgoing):
                shard.absorb(of_one[shard.place])


@pytest.mark.parametrize("run", RUNS, ids="-".join)
@pytest.mark.parametrize(("owners", "slice_states"), [(2, 1), (3, 7), (5, 1000)])
def test_however_it_is_divided_the_same_is_found(run: tuple[str, str, str], owners: int, slice_states: int) -> None:
    what = subject(*run)
    alone = explored(what)
    assert alone.violations, "traces are compared too"
    assert explored(what, InTurn(what, owners, slice_states)) == alone


def test_two_processes_find_what_one_finds() -> None:
    what = subject("lru", "M2", "turns")
    crew = Processes(what, 2)
    assert explored(what, crew) == explored(what)
    assert [process.exitcode for process in processes(crew)] == [0, 0]


def processes(crew: Processes) -> list[BaseProcess]:
    links = [member.link for member in crew.members]
    return [link.process for link in links if isinstance(link, Piped)]


class Killed(Processes):
    """A crew that loses its second worker in the middle of the second level."""

    exchanges = 0

    def _exchange(self, outgoing: Sequence[Sequence[bytes]]) -> None:
        self.exchanges += 1
        if self.exchanges == 3:
            process = processes(self)[1]
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        super()._exchange(outgoing)


def test_the_death_of_a_worker_is_told() -> None:
    what = subject("lru", "M2", "turns")
    crew = Killed(what, 2)
    with pytest.raises(InconclusiveError, match=r"worker 2 of 2 was ended by signal 9: this exploration has no result"):
        explored(what, crew)
    assert not any(process.is_alive() for process in processes(crew))


def test_with_a_journal_another_worker_takes_the_place() -> None:
    what = subject("lru", "M2", "turns")
    crew = Killed(what, 2, recovers=True)
    assert explored(what, crew) == explored(what)
    assert crew.exchanges > 3


def test_what_goes_wrong_in_a_worker_is_told() -> None:
    with Processes(subject("lru", "M2", "turns"), 1) as crew, pytest.raises(InconclusiveError, match="ValueError"):
        crew.ask_each(Shard.settle, [([7],)])


def test_an_interruption_ends_it_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "BETWEEN_SNAPSHOTS", -1.0)

    def watch(snapshot: Snapshot) -> None:
        if snapshot.states > 100:
            signal.raise_signal(signal.SIGINT)

    what = subject("lru", "M2", "turns")
    component = component_named("lru")
    found = explore(component, component.variants["M2"], what.config, what.plan, watch, crew=InTurn(what, 2, 4))
    assert found.ending is Ending.INTERRUPTED
    assert 100 < found.states < explored(what).states
    assert found.violations, "those that were seen by then"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_limit_counts_the_states_of_all() -> None:
    what = subject("lru", "M2", "turns")
    limited = what._replace(plan=replace(what.plan, limit_states=300))
    found = explored(limited, InTurn(limited, 3, 1))
    assert (found.ending, found.states >= 300) == (Ending.STATES, True)


# Who shares what ------------------------------------------------------------------------------------------------------


def test_one_large_run_is_shared_by_the_processes_that_have_nothing_else_to_do() -> None:
    large, small = Task("mirror", "normative", "two-senders", "reference"), Task("lru", "M2", "turns", "reference")
    scope = scope_named(component_named("mirror"), "two-senders")
    assert (scope.expectation("normative").states or 0) >= SHARED_FROM
    assert Effort(jobs=4).shared_by([large]) == 4
    assert Effort(jobs=4).shared_by([small]) == 1
    assert Effort(jobs=4).shared_by([large, small]) == 1
    assert Effort(jobs=4, split=3).shared_by([large, small]) == 3
    assert Effort(jobs=4, split=1).shared_by([large]) == 1


def test_the_verb_shares_a_run(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    status = dispatch(["check", "lru", "--variant", "M3", "--scope", "pins", "--split", "2", "--json"])
    assert (status, '"ok":true' in capsys.readouterr().out.replace(" ", "")) == (ExitStatus.AS_EXPECTED, True)


def test_alone_is_a_crew_of_one() -> None:
    what = subject("lru", "M2", "turns")
    component = component_named("lru")
    crew = Alone(Shard(component, component.variants["M2"], what.config, what.plan, 0, 1))
    assert explored(what, crew) == explored(what)
    assert crew.ask(Shard.states) == [explored(what).states]


def test_a_plan_that_ends_at_once() -> None:
    what = subject("lru", "M2", "turns")._replace(plan=Plan(depth=0))
    assert explored(what, InTurn(what, 3, 1)) == explored(what)
    assert explored(what).states == 1


def test_engines_refuse_what_they_cannot_do() -> None:
    what = subject("lru", "normative", "turns")
    variant = component_named("lru").normative
    with pytest.raises(InputError, match="only the reference engine shares a run"):
        engine_named("tensor")(component_named("lru"), variant, what.config, what.plan, None, crew=InTurn(what, 2, 4))
    with pytest.raises(InputError, match="there is nothing to compare it with"):
        engine_named("reference")(component_named("lru"), variant, what.config, what.plan, None, share=1.0)
