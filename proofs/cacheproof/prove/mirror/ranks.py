"""The rank of a request of the mirror: five natural numbers, of which an earlier one counts more.

- The *phase*: 2 if P0 has joined and P1 has no partition for it, so that P1 refuses; 1 if P0 has to join; 0 otherwise.
- Whether the current generation is not *whole*: a complaint about it is under way, or one of its messages is a gap.
- How many messages up to the request have not gone out in this generation.
- How many requests up to this one are unanswered.
- How many answers and messages are before the first *decisive* one. P1 answers a decisive message decisively, and a
  decisive answer makes one of the numbers above smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, Term, boolean_term, both, integer_term, path
from cacheproof.prove.fifo import Fifo
from cacheproof.prove.mirror.invariants import own
from cacheproof.prove.mirror.links import log_of
from cacheproof.prove.proof import Move
from cachespec.mirror import protocol


def every(queue: Any, holds: Callable[[Any, Any], Any]) -> SymbolicBoolean:
    """`(number, entry) -> condition`, for all entries of a queue, or of a tuple."""
    if type(queue) is Fifo:
        return queue.every(holds)
    return both(True, *(holds(number, entry) for number, entry in enumerate(queue)))


def base(link: Any) -> Term:
    """The number of the first unanswered request."""
    return log_of(link.sender).base


def going_out(link: Any) -> Term:
    """The number of the message that goes out next."""
    return base(link) + integer_term(link.sender.sent)


def phase(link: Any) -> Term:
    """2: P1 refuses what P0 sends; 1: P0 has to join; 0: both are of one epoch."""
    refused = z3.If(integer_term(link.partition.granted) == 0, z3.IntVal(2), z3.IntVal(0))
    return z3.If(integer_term(link.sender.joined) == 0, z3.IntVal(1), refused)


def reached(message: Any) -> Term:
    """The number that P1 expects at least, once it has taken this message without a gap."""
    items = boolean_term(message.items != ())
    return integer_term(message.sequence) + z3.If(items, z3.IntVal(1), z3.IntVal(0))


def is_current(link: Any, one: Any) -> Term:
    """A message or answer of the sender's generation."""
    return integer_term(one.generation) == integer_term(link.sender.generation)


def is_whole(link: Any) -> Term:
    """No complaint about this generation is under way, and none of its messages will be a gap."""
    messages, answers = link.messages, link.answers
    expected = integer_term(link.partition.expected)

    def no_complaint(_: Term, answer: Any) -> SymbolicBoolean:
        return SymbolicBoolean(z3.Not(z3.And(is_current(link, answer), boolean_term(answer.verdict == protocol.GAP))))

    def follows(sequence: Term, number: Term) -> Term:
        """Whether a message of this sequence number is no gap behind the entry of this number."""
        entry = messages.at(number)
        there = z3.And(number >= messages.first, is_current(link, entry), sequence <= reached(entry))
        return z3.Or(sequence <= expected, there)

    def is_no_gap(number: Term, message: Any) -> SymbolicBoolean:
        fits = follows(integer_term(message.sequence), number - 1)
        return SymbolicBoolean(z3.Implies(is_current(link, message), fits))

    no_gap = z3.And(boolean_term(every(messages, is_no_gap)), follows(going_out(link), messages.next - 1))
    return z3.Or(
        phase(link) == 1,
        z3.And(boolean_term(every(answers, no_complaint)), z3.Or(phase(link) == 2, no_gap)),
    )


def unsent(link: Any, request: Term) -> Term:
    """How many messages up to the request have not gone out in this generation."""
    left = request + 1 - going_out(link)
    return z3.If(left > 0, left, z3.IntVal(0))


def unanswered(link: Any, request: Term) -> Term:
    """How many requests up to this one are unanswered."""
    left = request + 1 - base(link)
    return z3.If(left > 0, left, z3.IntVal(0))


def is_decisive_answer(link: Any, request: Term, answer: Any) -> Term:
    """It answers the request, or has P0 begin a new generation or epoch."""
    expected, current = integer_term(answer.expected), is_current(link, answer)
    gap = z3.And(boolean_term(answer.verdict == protocol.GAP), current, expected >= base(link))
    stale = z3.And(boolean_term(answer.verdict == protocol.STALE), current)
    return z3.If(phase(link) == 2, stale, z3.Or(expected > request, gap))


def is_decisive_message(link: Any, request: Term, message: Any) -> Term:
    """P1 will answer it decisively."""
    return z3.And(is_current(link, message), z3.Or(phase(link) == 2, reached(message) > request))


def can_stand(link: Any, request: Term, place: Term) -> Term:
    """Whether something decisive is at this place of the answers and messages; or the place is behind all of them.

    The last part of the rank is the least such place.
    """
    answers, messages = link.answers, link.messages
    behind = place - answers.length
    at_answer = is_decisive_answer(link, request, answers.at(answers.first + place))
    at_message = is_decisive_message(link, request, messages.at(messages.first + behind))
    looked_for = z3.And(phase(link) != 1, unanswered(link, request) > 0)
    return z3.Or(
        place == answers.length + messages.length + 1,
        z3.And(looked_for, place >= 0, place < answers.length, at_answer),
        z3.And(looked_for, behind >= 0, behind < messages.length, at_message),
    )


def less(before: tuple[Term, ...], after: tuple[Term, ...], last: Term) -> Term:
    """The numbers after are smaller, or they are the same and the last part holds."""
    if not before:
        return last
    return z3.Or(after[0] < before[0], z3.And(after[0] == before[0], less(before[1:], after[1:], last)))


def is_request(link: Any, request: Term) -> Term:
    """An unanswered request of the link; or, if there is none, the last one that was answered."""
    log = log_of(link.sender)
    last = integer_term(link.sender.next)
    return z3.Or(z3.And(request >= log.base, request < last), z3.And(log.base == last, request == last - 1))


def compared(move: Move, *, strictly: bool) -> SymbolicBoolean:
    """The rank after the step is smaller; or, if not strictly, no larger."""
    before, after = own(move)
    request, place = (path().fresh(name, z3.IntSort()) for name in ("request", "place"))
    numbers = [tuple(part(link, request) for part in (unsent, unanswered)) for link in (before, after)]
    nearer = can_stand(after, request, place - 1)
    last = nearer if strictly else z3.Or(nearer, can_stand(after, request, place))
    mended = z3.And(z3.Not(is_whole(before)), is_whole(after))
    smaller = z3.Or(phase(after) < phase(before), mended, less(numbers[0], numbers[1], last))
    premise = z3.And(is_request(before, request), can_stand(before, request, place))
    return SymbolicBoolean(z3.Implies(premise, smaller))
