"""The eras of the encoder's budgets, each without one of their faults."""

from __future__ import annotations

from dataclasses import replace

from cacheproof.catalogue.mends import AnyTransition, Change, Mend, around, together
from cacheproof.model.finding import Subject
from cachespec.encoder_budget.configuration import Config
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import Budget, Settings, settings_of
from cachespec.encoder_budget.transitions import is_enabled, largest_item, longest_item, splits_items
from cachespec.kernel import DONE, REFUSED, TOO_LARGE, Outcome

Result = tuple[Budget, Outcome]
EVERY = ("B3", "B4", "B5")


def too_long(settings: Settings, embeds: int, tokens: int) -> str:
    """The entry that is about an item of this size, if it is not split and never fits a chunk; empty if it fits."""
    if splits_items(settings) or tokens <= longest_item(settings):
        return ""
    if tokens > settings.batch_tokens:
        return "C-ENC-15" if embeds <= settings.batch_tokens else "C-ENC-11"
    if 0 < settings.threshold < tokens:
        return "C-ENC-16"
    return "C-ENC-24"


def turned_down(*entries: str) -> Change:
    """Items that these entries are about are turned down, and an engine whose largest item is one does not start."""

    def admitting(own: AnyTransition, config: Config, budget: Budget, op: Admit) -> Result:
        modality, embeds, tokens = config.items[op.item]
        is_sent = budget.configured == 1 and is_enabled(budget.settings, modality)
        if is_sent and too_long(budget.settings, embeds, tokens) in entries:
            return budget, TOO_LARGE
        return own(config, budget, op)

    def configuring(own: AnyTransition, config: Config, budget: Budget, op: Configure) -> Result:
        settings = settings_of(op)
        largest = largest_item(config.embeds, settings), largest_item(config.tokens, settings)
        changed: Result = own(config, budget, op)
        if changed[1] == DONE and too_long(settings, *largest) in entries:
            return budget, REFUSED
        return changed

    return together(around(admitting, Admit), around(configuring, Configure))


def held_against_both_budgets(own: AnyTransition, config: Config, budget: Budget, op: Admit) -> Result:
    """C-ENC-11: an item that is larger than a budget is turned down."""
    modality, embeds, _ = config.items[op.item]
    is_sent = budget.configured == 1 and is_enabled(budget.settings, modality)
    if is_sent and embeds > min(budget.compute, budget.space):
        return budget, TOO_LARGE
    return own(config, budget, op)


def charging_embeddings(subject: Subject) -> Subject:
    """C-ENC-17: an item is as large as its embeddings."""
    config: Config = subject.config
    return replace(subject, config=config._replace(tokens=config.embeds))


MENDS = (
    Mend("C-ENC-11", EVERY, together(turned_down("C-ENC-11"), around(held_against_both_budgets, Admit))),
    Mend("C-ENC-15", EVERY, turned_down("C-ENC-15")),
    Mend("C-ENC-16", EVERY, turned_down("C-ENC-16")),
    Mend("C-ENC-17", ("B3", "B4"), charging_embeddings),
    Mend("C-ENC-24", EVERY, turned_down("C-ENC-24")),
)
