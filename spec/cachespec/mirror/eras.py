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
)
from cachespec.mirror.operations import (
    Abort,
    Deliver,
    Drop,
    DropAnswer,
    Receive,
    Reject,
    Render,
    Reorder,
    ReorderAnswers,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
    Retry,
    Send,
    Submit,
    SubmitRejected,
)
from cachespec.mirror.view import View

KEPT = {"MIR-6/kept": "P0 keeps no request; a message carries its own contents"}
REPEATED = {"MIR-10": "the eras do not account for repeated sends"}
NEEDED = {"MIR-10/needed": "each era has its own walk on each side"}
MENDED = {"MIR-1/mended": "no era repairs a miss"}

FRONTEND_M1 = frontend(touch_nothing, oversize_passes=False)
FRONTEND_M2 = frontend(touch_leaving_ghosts, oversize_passes=False)
FRONTEND_M3 = frontend(touch_present, oversize_passes=True)

M1: Variant[Config, State, View] = Variant(
    tag="M1",
    title="mirror-2025-10",
    state=State,
    initial=initial,
    transitions={
        Render: environment.render(FRONTEND_M1),
        Send: environment.send,
        Submit: environment.submit(FRONTEND_M1),
        Deliver: environment.deliver(receiver(touch_nothing), survives=False),
        Receive: environment.receive_answer,
        Reject: environment.reject,
        SubmitRejected: environment.submit_rejected(FRONTEND_M1),
        Abort: environment.abort,
        Reorder: environment.reorder,
        ReorderAnswers: environment.reorder_answers,
        Drop: environment.drop,
        DropAnswer: environment.drop_answer,
        ResetSender: environment.reset_sender(clear_at_once),
        ResetReceiver: environment.reset_receiver(clear_at_once),
        RestartReceiver: environment.restart_receiver,
    },
    view=environment.view,
    alphabet=environment.alphabet,
    differences={
        Render: "P0 is updated when a request is rendered (C-MIR-5), modality by modality (C-MIR-7); a hit that the "
        "request itself evicts is a failed assertion (C-MIR-9), an item larger than the cache an error (C-MIR-16)",
        Submit: "as Render and Send",
        Send: "messages are sent in any order (C-MIR-5)",
        Deliver: "every message is applied; a miss is a failed assertion that ends the input thread (C-MIR-1); "
        "a cached entry is used even if a payload came (C-MIR-17)",
        Reject: "P0 keeps the update of a request that is never sent (C-MIR-3, C-MIR-4)",
        SubmitRejected: "likewise",
        Drop: "P0 keeps the update of a request that never arrives (C-MIR-1)",
        ResetSender: "P1 is not notified (C-MIR-12)",
        ResetReceiver: "P0 is not notified (C-MIR-12)",
        RestartReceiver: "P0 is not notified",
    },
    exempt={**KEPT, **REPEATED, **NEEDED, **MENDED},
)

M0 = M1.era(
    "M0",
    "mirror-2025-02",
    {
        Render: environment.render(frontend_m0),
        Submit: environment.submit(frontend_m0),
        Deliver: environment.deliver(receiver_m0, survives=False),
    },
    {
        Render: "counts entries, not bytes; item by item in prompt order, after every check of the request",
        Deliver: "a payload replaces the entry; a miss is a failed assertion that ends the engine (C-MIR-1)",
    },
).lacking(
    {
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
    },
    {Render: "sends payloads that P1 already has (C-MIR-2)"},
    exempt={**KEPT, **REPEATED, **MENDED},
)

M2 = M1.era(
    "M2",
    "mirror-2025-11",
    {
        Render: environment.render(FRONTEND_M2),
        Submit: environment.submit(FRONTEND_M2),
        SubmitRejected: environment.submit_rejected(FRONTEND_M2),
        Deliver: environment.deliver(receiver(touch_leaving_ghosts), survives=True),
        ResetSender: environment.reset_sender(clear_popping),
        ResetReceiver: environment.reset_receiver(clear_popping),
    },
    {
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
    {
        Render: environment.draining(environment.render(FRONTEND_M3)),
        Submit: environment.draining(environment.submit_retrying(FRONTEND_M3)),
        SubmitRejected: environment.draining(environment.submit_rejected(FRONTEND_M3)),
        Retry: environment.retry(FRONTEND_M3),
        Deliver: environment.deliver(receiver_m3, survives=True),
    },
    {
        Render: "present items are touched first; an item larger than the cache passes; a hit that the request itself "
        "evicts is still a failed assertion (C-MIR-9)",
        Deliver: "a payload replaces the entry; misses are reported for a retry, the rest is applied (C-MIR-5)",
        Retry: "P0 drops the missed items and renders again; the orders stay different (C-MIR-20)",
    },
    exempt={**KEPT, **REPEATED, **NEEDED},
)
