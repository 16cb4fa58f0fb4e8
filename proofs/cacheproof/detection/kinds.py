"""How each kind of evidence is asked, and whether a component has it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from cacheproof.detection import concrete, symbolic
from cacheproof.detection.evidence import NOTHING, Answer, Ask, Cell, Evidence, Question, error_in_words, not_decided
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.mutants.apart import EndedError, apart
from cacheproof.mutants.watch import Stopped

MEMORY_BYTES = 6 << 30
"""Address space of one answer; torch takes some of it before anything is asked."""


class Kind(NamedTuple):
    """One kind of evidence."""

    exists: Callable[[AnyComponent], bool]
    ask: Ask
    prepare: Callable[[AnyComponent], None] = lambda _: None
    """What is done once for a component, before anything is changed."""


KINDS: Mapping[Evidence, Kind] = MappingProxyType(
    {
        Evidence.EXPLORED: Kind(lambda _: True, concrete.explored),
        Evidence.INDUCTION: Kind(symbolic.is_proved, symbolic.by_induction, symbolic.prepare_induction),
        Evidence.TENSORS: Kind(symbolic.has_correspondences, symbolic.on_tensors, symbolic.prepare_tensors),
        Evidence.CONTRACTS: Kind(symbolic.has_contracts, symbolic.with_contracts, symbolic.prepare_contracts),
        Evidence.REGIONS: Kind(concrete.has_numbers, concrete.regions, concrete.prepare_regions),
        Evidence.LOCKSTEP: Kind(concrete.has_tensors, concrete.in_lockstep),
        Evidence.VECTORS: Kind(concrete.has_vectors, concrete.with_vectors),
    }
)


def has(evidence: Evidence, component: AnyComponent) -> bool:
    """Whether there is such evidence of the component at all."""
    return KINDS[evidence].exists(component)


def asked(evidence: Evidence, question: Question, stopped: Stopped) -> Cell:
    """What one kind of evidence says of one mutant: in a process of its own, which ends when its time is over.

    Raises KeyboardInterrupt soon after `stopped` says so.
    """
    kind, component = KINDS[evidence], component_named(question.mutant.component)
    if not kind.exists(component):
        return NOTHING
    kind.prepare(component)
    try:
        found: Cell = apart(lambda: _timed(kind.ask, question), question.seconds, MEMORY_BYTES, stopped)
    except EndedError as error:
        return Cell(Answer.OPEN, f"over {question.seconds:g} s" if error.late else str(error), question.seconds)
    return found


def _timed(ask: Ask, question: Question) -> Cell:
    began = time.process_time()
    try:
        cell = ask(question)
    except MemoryError:
        cell = not_decided("no more memory")
    except BaseException as error:  # noqa: BLE001  # the process has to answer
        cell = not_decided(error_in_words(error))
    return replace(cell, seconds=round(time.process_time() - began, 3))
