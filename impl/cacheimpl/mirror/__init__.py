"""The mirrored cache for real: both sides of the normative protocol, with messages that any transport can carry.

A single look-up as tensors is hundreds of times slower than a dictionary, so these are host structures.
"""

from cacheimpl.mirror.messages import Answer, Grant, Item, JoinRequest, Message, Reason, Refusal, Verdict
from cacheimpl.mirror.receiver import Delivery, MirrorReceiver
from cacheimpl.mirror.sender import MirrorSender

__all__ = [
    "Answer",
    "Delivery",
    "Grant",
    "Item",
    "JoinRequest",
    "Message",
    "MirrorReceiver",
    "MirrorSender",
    "Reason",
    "Refusal",
    "Verdict",
]
