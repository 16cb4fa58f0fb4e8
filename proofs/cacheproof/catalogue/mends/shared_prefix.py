"""The eras of requests that share a prefix, each without one of their faults."""

from __future__ import annotations

from dataclasses import replace

from cacheproof.catalogue.mends import Mend, transitions
from cacheproof.model.finding import Subject
from cachespec.shared_prefix.configuration import Config
from cachespec.shared_prefix.eras import RULES, transitions_by
from cachespec.shared_prefix.transitions import largest, up_to_the_item


def never_back(subject: Subject) -> Subject:
    """C-SCH-1: nothing is scheduled for a request that is at the item already, or inside it."""
    rules = RULES[subject.variant.tag]
    return transitions(transitions_by(rules._replace(blocked=up_to_the_item)))(subject)


def with_room_for_an_item(subject: Subject) -> Subject:
    """C-ENC-22: the constant is as large as the largest item."""
    config: Config = subject.config
    return replace(subject, config=config._replace(constant=max(config.constant, largest(config))))


MENDS = (
    Mend("C-SCH-1", ("B0", "B1", "B2", "B1-shared"), never_back),
    Mend("C-ENC-22", ("B0",), with_room_for_an_item),
)
