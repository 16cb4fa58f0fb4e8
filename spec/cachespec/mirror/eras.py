"""The mirror as released: M0 (0.7.3), M1 (0.11.0), M2 (0.20.2), M3 (0.33.0); in between, M0b and M2b."""

from __future__ import annotations

from cachespec.kernel import Variant
from cachespec.mirror import era_environment as environment
from cachespec.mirror.configuration import Config
from cachespec.mirror.era_state import State, initial
from cachespec.mirror.era_walks import (
    clear_at_once,
    clear_popping,
    frontend,
    frontend_m0,
    frontend_sending_all,
    receiver,
    receiver_by_adapter,
    receiver_m0,
    receiver_m3,
    touch_leaving_ghosts,
    touch_nothing,
    touch_present,
    update,
)
from cachespec.mirror.faults import Drop, Reject, ResetReceiver, ResetSender, RestartReceiver, SubmitRejected
from cachespec.mirror.operations import Deliver, FanOut, LookUp, Process, Render, Retry, Send, Submit, SubmitEmbeddings
from cachespec.mirror.view import View

KEPT = {
    "MIR-6/kept": "P0 keeps no request; a message carries its own contents",
    "MIR-6/drafts": "the eras show no drafts",
    "MIR-4/each": "P0 is updated where a request is rendered",
    "MIR-4/at-once": "P0 names the payloads when a request is rendered, and not when its message leaves",
}
REPEATED = dict.fromkeys(("MIR-10", "MIR-10/history"), "the eras do not account for repeated sends")
GENERATIONS = {"MIR-10/gap": "the eras have no generations"}
WALKED = dict.fromkeys(("MIR-5/recency", "MIR-9/fitting"), "each era has its own walk on each side")
NEEDED = {"MIR-10/needed": "each era has its own walk on each side", **WALKED}
MENDED = {"MIR-1/mended": "no era repairs a miss"}

UPDATE_M1 = update(touch_nothing, oversize_passes=False)
UPDATE_M2 = update(touch_leaving_ghosts, oversize_passes=False)
UPDATE_M3 = update(touch_present, oversize_passes=True)

IN_TWO_STEPS = {
    LookUp: "decides which items are processed; other requests may come before the update (C-MIR-24)",
    Process: "as Render from here on; a hit that has been evicted since is a failed assertion (C-MIR-24)",
}

TRANSITIONS_M3 = {
    **environment.transitions(frontend(UPDATE_M3), receiver_m3, clear_at_once, survives=True),
    **environment.in_two_steps(UPDATE_M3, retries=True),
}

M1: Variant[Config, State, View] = Variant(
    tag="M1",
    title="mirror-2025-10",
    state=State,
    initial=initial,
    transitions=environment.transitions(frontend(UPDATE_M1), receiver(touch_nothing), clear_at_once, survives=False),
    view=environment.view,
    alphabet=environment.alphabet,
    differences={
        Render: "P0 is updated when a request is rendered (C-MIR-5), modality by modality (C-MIR-7); a hit that the "
        "request itself evicts is a failed assertion (C-MIR-9), an item larger than the cache an error (C-MIR-16)",
        Submit: "as Render and Send",
        LookUp: "the thread that takes requests looks up and updates in one call",
        Process: "the thread that takes requests looks up and updates in one call",
        Send: "messages are sent in any order (C-MIR-5); P0 is not updated for further ones of a request (C-MIR-22)",
        FanOut: "P0 is updated once, and P1 for each of the messages, all with the same payloads (C-MIR-22)",
        SubmitEmbeddings: "P0 is neither asked nor updated, and P1 inserts the items (C-MIR-23)",
        Deliver: "every message is applied; a miss is a failed assertion that ends the input thread (C-MIR-1); "
        "a cached entry is used even if a payload came (C-MIR-17)",
        Reject: "P0 keeps the update of a request that is never sent (C-MIR-3, C-MIR-4)",
        SubmitRejected: "likewise",
        Drop: "P0 keeps the update of a request that never arrives (C-MIR-1)",
        ResetSender: "P1 is not notified (C-MIR-12)",
        ResetReceiver: "P0 is not notified (C-MIR-12)",
        RestartReceiver: "P0 is not notified",
    },
    exempt={**KEPT, **GENERATIONS, **REPEATED, **NEEDED, **MENDED},
)

M0 = M1.era(
    "M0",
    "mirror-2025-02",
    environment.transitions(frontend_m0, receiver_m0, clear_at_once, survives=False),
    {
        Render: "counts entries, not bytes; item by item in prompt order, after every check of the request",
        Deliver: "a payload replaces the entry; a miss is a failed assertion that ends the engine (C-MIR-1)",
    },
).lacking(
    {
        LookUp: "each item is looked up in the step that stores it",
        Process: "each item is looked up in the step that stores it",
        FanOut: "a request has one message",
        SubmitEmbeddings: "P0 is asked and updated for every item, however it came",
        Reject: "every check of the request precedes the update of P0",
        SubmitRejected: "likewise",
        ResetSender: "no call clears the caches yet",
        ResetReceiver: "no call clears the caches yet",
    }
)

M0B = M0.era(
    "M0b",
    "mirror-2025-03",
    {
        Render: environment.render(frontend_sending_all),
        Submit: environment.submit(frontend_sending_all),
        FanOut: environment.fan_out(frontend_sending_all),
    },
    {
        Render: "sends payloads that P1 already has (C-MIR-2)",
        FanOut: "P0 is updated once, and P1 for each of the messages (C-MIR-22)",
    },
    exempt={**KEPT, **GENERATIONS, **REPEATED, **MENDED, **WALKED},
)

M2 = M1.era(
    "M2",
    "mirror-2025-11",
    {
        **environment.transitions(frontend(UPDATE_M2), receiver(touch_leaving_ghosts), clear_popping, survives=True),
        **environment.in_two_steps(UPDATE_M2),
    },
    {
        **IN_TWO_STEPS,
        Render: "all items are touched first, and absent ones become ghosts: eviction may never end (C-MIR-10)",
        Deliver: "likewise at P1; a miss fails one request, and P0 is not corrected (C-MIR-1)",
        ResetSender: "clearing may meet a ghost (C-MIR-10); P1 is not notified (C-MIR-12)",
        ResetReceiver: "clearing may meet a ghost (C-MIR-10); P0 is not notified (C-MIR-12)",
    },
)

M2B = M2.era(
    "M2b",
    "mirror-2025-12",
    {Deliver: environment.deliver(receiver_by_adapter, survives=True)},
    {Deliver: "P1's keys include the adapter's name, P0's do not (C-MIR-15)"},
)

M3 = M1.era(
    "M3",
    "mirror-2026-07",
    environment.repairing(frontend(UPDATE_M3), TRANSITIONS_M3),
    {
        **IN_TWO_STEPS,
        Render: "present items are touched first; an item larger than the cache passes; a hit that the request itself "
        "evicts is still a failed assertion (C-MIR-9)",
        Deliver: "a payload replaces the entry; misses are reported for a retry, the rest is applied (C-MIR-5)",
        Retry: "P0 drops the missed items and renders again; the orders stay different (C-MIR-20)",
    },
    exempt={**KEPT, **GENERATIONS, **REPEATED, **NEEDED},
)
