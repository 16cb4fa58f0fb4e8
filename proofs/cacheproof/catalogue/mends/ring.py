"""The eras of the ring, each without one of their faults."""

from __future__ import annotations

from dataclasses import replace

from cacheproof.catalogue.mends import AnyTransition, Mend, around, together, transitions
from cacheproof.model.finding import Subject
from cachespec.kernel import REFUSED, Outcome
from cachespec.ring.configuration import Config
from cachespec.ring.eras import BEGINNING_AGAIN, KEEPING_IDS, NORMATIVE_RING
from cachespec.ring.operations import Allocate, Clear, Free
from cachespec.ring.state import Segment

EVERY = ("M1", "M2", "M3")


def beginning_empty(subject: Subject) -> Subject:
    """C-SHM-1: there is no chunk that is not."""
    return replace(subject, variant=replace(subject.variant, initial=NORMATIVE_RING.initial))


def with_a_free_id(own: AnyTransition, config: Config, segment: Segment, op: Allocate) -> tuple[Segment, Outcome]:
    """C-SHM-11: an id is given again only if no live chunk and no handle has it."""
    identity = segment.ring.id_end
    if segment.contents.has(identity) or any(handle[2] == identity for handle, _ in segment.handles.items()):
        return segment, REFUSED
    return own(config, segment, op)


def naming_what_went(own: AnyTransition, config: Config, segment: Segment, op: Free) -> tuple[Segment, Outcome]:
    """C-SHM-21: the answer names each chunk that was freed, all of them too."""
    after, outcome = own(config, segment, op)
    by_age = ((segment.ring.id_start + age) % config.modulus for age in range(segment.ring.starts.length))
    return after, outcome._replace(values=tuple(one for one in by_age if not after.ring.starts.has(one)))


MENDS = (
    Mend("C-SHM-1", ("M1",), together(transitions({Free: BEGINNING_AGAIN.transitions[Free]}), beginning_empty)),
    Mend("C-SHM-7", ("M1", "M2"), transitions({Clear: KEEPING_IDS.transitions[Clear]})),
    Mend("C-SHM-11", EVERY, around(with_a_free_id, Allocate)),
    Mend("C-SHM-12", EVERY, transitions({Clear: NORMATIVE_RING.transitions[Clear]})),
    Mend("C-SHM-21", EVERY, around(naming_what_went, Free)),
)
