"""A bug for each claim that is proved of the object store."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.object_store import accounting

BUGS = (
    Bug(
        accounting.issue,
        "$store.issued.get($identity, 0) + 1",
        "$store.issued.get($identity, 0)",
        "SHM-3/tickets/issue",
    ),
    Bug(
        accounting.settle,
        "$store.tickets.remove($slot)",
        "$store.tickets",
        "SHM-3/tickets/settle",
    ),
    Bug(
        accounting.settle,
        "if not $store.tickets.has($slot):\n    return $store",
        "",
        "SHM-3/tickets/settle",
    ),
    Bug(accounting.may_go, "$store.issued.get($identity, 0) == 0", "True", "SHM-2/gone/forget"),
    Bug(accounting.forget, "$left.epochs.remove($identity)", "$left.epochs", "SHM-4/tables/forget"),
    Bug(accounting.enter, "$store.issued.set($identity, 0)", "$store.issued", "SHM-4/tables/enter"),
    Bug(accounting.enter, "$store.epoch + 1", "$store.epoch - 1", "SHM-5/epoch/enter"),
)
