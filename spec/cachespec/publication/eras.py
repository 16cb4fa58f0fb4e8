"""The normative steps, and what happens without one rule or the other."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, NORMATIVE, REFUSED, Outcome, Variant
from cachespec.publication.configuration import Config, ring_config
from cachespec.publication.environment import steps
from cachespec.publication.operations import Clear, Publish, Restart
from cachespec.publication.state import DATA, IDLE, Exchange, View, initial, view
from cachespec.publication.transitions import TRANSITIONS, forgotten, handed_out
from cachespec.ring.era_chunks import clear_keeping_ids

Result = tuple[Exchange, Outcome]

NORMATIVE_PUBLICATION: Variant[Config, Exchange, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Exchange,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=steps,
)


def publish_at_once(config: Config, exchange: Exchange, op: Publish) -> Result:
    """No process waits for the stores."""
    if exchange.writing.stage != DATA:
        return exchange, ABSENT
    return handed_out(exchange), DONE


def clear_whatever(config: Config, exchange: Exchange, op: Clear) -> Result:
    """C-SHM-12: frees chunks while readers read them."""
    if exchange.writing.stage != IDLE:
        return exchange, REFUSED
    gone = tuple(range(config.modulus))
    dropped = exchange._replace(ring=clear_keeping_ids(ring_config(config), exchange.ring))
    return forgotten(config, dropped, gone), DONE


WITHOUT_BARRIER = NORMATIVE_PUBLICATION.era(
    "no-barrier",
    "publication-without-barrier",
    {Publish: publish_at_once},
    {Publish: "C-SHM-16: a handle may arrive before the data"},
)

DROPPING = NORMATIVE_PUBLICATION.era(
    "M3",
    "publication-2026-11",
    {Clear: clear_whatever},
    {Clear: "C-SHM-12: frees chunks while readers read them"},
).lacking({Restart: "the engine dies with its frontend"})
