"""How bad it is for an engine that a property does not hold: the one place that says so.

How a run ends comes first: a failed assertion ends the engine, and what never comes is a hang. Otherwise the property
decides, by its own name or that of its family (`KV-7` of `KV-7/found`); a property that is not named here is about
counts, order or answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from cachespec.kernel import Code


class Severity(Enum):
    """From what is worst for an engine to what is least."""

    DIES = "dies"
    HANGS = "hangs"
    WRONG_DATA = "wrong data"
    LEAK = "leak"
    ACCOUNTING = "accounting"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


SAYS: Mapping[Severity, str] = {
    Severity.DIES: "an assertion fails, which ends the engine or its request",
    Severity.HANGS: "a call, a request or a handle never ends",
    Severity.WRONG_DATA: "a request is computed from data that is not its own, or is not there",
    Severity.LEAK: "room, references or requests are held for good",
    Severity.ACCOUNTING: "counts, order or answers are wrong",
}

PROPERTIES: Mapping[Severity, tuple[str, ...]] = {
    Severity.DIES: ("KV-8/answered", "MIR-7", "MIR-9", "SCH-2/taken", "SHM-7/walk"),
    Severity.HANGS: (
        *("BUD-3", "BUD-4", "LRU-6", "MIR-7/served", "SCH-8", "SCH-9", "SCH-10", "SHM-8", "SHM-8/served"),
        "X-3/answered",
    ),
    Severity.WRONG_DATA: (
        *("ENC-6", "ENC-7", "ENC-8", "HASH-1", "HASH-3"),
        *("KV-4", "KV-6/chain", "KV-7", "KV-9", "KV-10", "KV-13"),
        *("MIR-2", "MIR-6", "SCH-1", "SCH-2/awaited", "SCH-2/drafts", "SCH-3", "SCH-5"),
        *("PH-4", "SCH-12", "SCH-13"),
        *("SHM-1", "SHM-2", "SHM-3", "SHM-5", "SHM-9", "SHM-10", "X-1", "X-2"),
    ),
    Severity.LEAK: (
        *(
            "ENC-5",
            "ENC-6/released",
            "ENC-11",
            "KV-1",
            "KV-2",
            "KV-8",
            "MIR-11",
            "PH-1",
            "PH-2",
            "SCH-5/blocks",
            "SCH-5/items",
        ),
        *("SHM-3/settled", "SHM-4", "SHM-8/drained", "SHM-8/freed", "SHM-8/released", "SHM-8/room", "X-3"),
    ),
    Severity.ACCOUNTING: (
        *("BUD-3/answered", "BUD-3/reason", "ENC-5/listed", "ENC-6/held", "ENC-7/once", "ENC-7/told"),
        *("HASH-1/answered", "HASH-1/written", "KV-7/flying", "KV-7/longest", "KV-7/registered", "KV-7/reset"),
        *("KV-8/reasons", "KV-8/turned-down", "KV-10/counted", "KV-13/all", "MIR-6/kept"),
        *("MIR-7/channel", "MIR-7/happens", "MIR-7/taken"),
        *("PH-4/executed", "PH-4/new", "PH-4/written"),
        *(
            "SCH-1/answered",
            "SCH-3/named",
            "SCH-3/whole",
            "SCH-5/named",
            "SCH-7/needed",
            "SCH-8/aligned",
            "SCH-8/line",
            "SCH-8/place",
        ),
        *(
            "SCH-8/far",
            "SCH-8/last",
            "SCH-8/reach",
            "SCH-8/reason",
            "SCH-9/answered",
            "SCH-9/queued",
            "SCH-13/awaited",
            "SHM-1/window",
            "SHM-4/metadata",
            "SHM-8/resent",
            "SHM-8/sent",
            "X-3/heard",
        ),
    ),
}
"""Families, and the parts of them that are another case."""

_BY_PROPERTY = {name: severity for severity, names in PROPERTIES.items() for name in names}

ENDS = {
    **dict.fromkeys(("stuck", "lasso", "diverged", "stall", "circling"), Severity.HANGS),
    "failed": Severity.DIES,
}
"""By the ending of a run."""


def severity_of(rule: str, ending: str = "", last: str = "") -> Severity:
    """Of a broken property, the ending of the run, and the code of its last answer."""
    if ending in ENDS:
        return ENDS[ending]
    if last == Code.FAILED.value:
        return Severity.DIES
    family = rule.partition("/")[0]
    return _BY_PROPERTY.get(rule) or _BY_PROPERTY.get(family, Severity.ACCOUNTING)
