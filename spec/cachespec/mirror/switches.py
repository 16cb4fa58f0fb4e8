"""Which operations a configuration of the mirror rules out."""

from __future__ import annotations

from collections.abc import Mapping

from cachespec.kernel import Operation
from cachespec.mirror.configuration import Config
from cachespec.mirror.operations import (
    Abort,
    Drop,
    DropAnswer,
    Expire,
    Reject,
    Render,
    Reorder,
    ReorderAnswers,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
    Send,
    Submit,
    SubmitRejected,
    Transmit,
)

FAULTS: Mapping[str, tuple[type[Operation], ...]] = {
    "reorder": (Reorder, ReorderAnswers),
    "drop": (Drop, DropAnswer),
    "reject": (Reject, SubmitRejected),
    "abort": (Abort,),
    "reset": (ResetSender, ResetReceiver),
    "restart": (RestartReceiver,),
}


def switched_off(config: Config) -> Mapping[type[Operation], str]:
    """Each operation that cannot happen, with the switch that says so."""
    off: dict[type[Operation], str] = {}
    for name, operations in FAULTS.items():
        if not getattr(config, name):
            off.update(dict.fromkeys(operations, f"{name} = 0"))
    separate, bundled = (Render, Send, Reject), (Submit, SubmitRejected)
    if config.rendered == 0:
        off.update(dict.fromkeys(separate, "rendered = 0: rendering and sending are one step"))
    else:
        off.update(dict.fromkeys(bundled, "rendered > 0: rendering and sending are two steps"))
    if not (config.drop or config.restart or config.reorder or config.impatient):
        off[Expire] = "every answer arrives, in its turn"
    if not (config.drop or config.restart or config.reorder or config.reset):
        off[Transmit] = "every message arrives in its turn"
    return off
