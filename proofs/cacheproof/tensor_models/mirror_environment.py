"""Every operation of the mirror in its environment, on tensors: the protocol's functions, the channel and its faults.

Every function takes (config, state, *operands) of one engine, operands of shape [], and gives the next state and the
answer, as the functions of `cacheimpl` do; where an operation names something that is not there, nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer
from cacheimpl.mirror.messages import Verdict
from cacheimpl.mirror.tensors import protocol
from cacheimpl.mirror.tensors.line import appended, doubled, nothing_of, overtaken, row_of, without, without_first
from cacheimpl.mirror.tensors.protocol import Message, Reply, chosen
from cacheimpl.mirror.tensors.walk import NOTHING, Config, absent
from cacheimpl.recency import OUTSIDE
from cacheimpl.table import choose, is_row
from cacheproof.tensor_models.mirror_links import Drafts, Link, State, all_links, link_of, with_all_links, with_link
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, RENDERED
from cachespec.mirror.normative_state import ALLOWANCE

Result = tuple[State, Answer]
Function = Callable[..., Result]


def code_where(condition: Tensor, met: Code, unmet: Tensor | Code) -> Tensor:
    """[] int64: the code where the condition ([] bool) holds, and the other elsewhere."""
    other = int(unmet) if isinstance(unmet, Code) else unmet
    return torch.where(condition, int(met), other).long()


def where_there(there: Tensor, after: State, before: State) -> Result:
    """Done, or nothing was there."""
    return choose(there, after, before), answer(code_where(there, Code.DONE, Code.ABSENT))


# Frontend -----------------------------------------------------------------------------------------------------------


def render(config: Config, state: State, sender: Tensor, length: Tensor, *items: Tensor) -> Result:
    """Nothing of P0 changes."""
    link = link_of(state, sender)
    return with_link(state, sender, with_draft(link, length, items, RENDERED, 1)), done(state)


def with_draft(link: Link, length: Tensor, items: tuple[Tensor, ...], stage: int, left: int) -> Link:
    """One more request that has still to be sent."""
    draft = (length, torch.full_like(length, stage), torch.full_like(length, left), torch.stack(items))
    return link._replace(drafts=appended(link.drafts, draft))


def look_up(config: Config, state: State, sender: Tensor, length: Tensor, *items: Tensor) -> Result:
    """Nothing of P0 changes; what is not there now is told."""
    link = link_of(state, sender)
    missing = absent(link.sender.ranks, torch.stack(items), length)
    after = with_draft(link, length, items, LOOKED_UP, 1)
    return with_link(state, sender, after), Answer(torch.full_like(state.faults_left, int(Code.DONE)), missing, length)


def processing(*, sends: bool) -> Function:
    """What was looked up is rendered; it is sent, too, where these are one step."""

    def rendered(config: Config, state: State, sender: Tensor, which: Tensor) -> Result:
        """It waits."""
        link = link_of(state, sender)
        _, stage, _, _ = row_of(link.drafts, which)
        stages = torch.where(is_row(link.drafts.stages, which), RENDERED, link.drafts.stages)
        there = (which < link.drafts.rows) & (stage == LOOKED_UP)
        after = with_link(state, sender, link._replace(drafts=link.drafts._replace(stages=stages)))
        return where_there(there, after, state)

    def sent(config: Config, state: State, sender: Tensor, which: Tensor) -> Result:
        """It leaves."""
        link = link_of(state, sender)
        length, stage, _, items = row_of(link.drafts, which)
        there = (which < link.drafts.rows) & (stage == LOOKED_UP)
        return leaving(config, state, sender, there, (items, length), without(link.drafts, which))

    return sent if sends else rendered


def leaving(
    config: Config, state: State, sender: Tensor, there: Tensor, request: tuple[Tensor, Tensor], drafts: Drafts
) -> Result:
    """A request (items, length) of a draft is sent, after which these drafts are left; refused, it stays."""
    link = link_of(state, sender)
    after, said = submitted(config, link, *request)
    changed = with_link(state, sender, chosen(link.sender.joined, after._replace(drafts=drafts), link))
    code = torch.where(there, said.code, int(Code.ABSENT))
    values = torch.where(there, said.values, NOTHING)
    return choose(there, changed, state), Answer(code, values, torch.where(there, said.length, 0))


def fanning_out(fan_out: int) -> Function:
    """The first of so many messages leaves."""

    def first_of_several(config: Config, state: State, sender: Tensor, length: Tensor, *items: Tensor) -> Result:
        """The rest waits; refused, nothing does."""
        link = link_of(state, sender)
        after, said = submitted(config, link, torch.stack(items), length)
        waiting = with_draft(after, length, items, PARTLY_SENT, fan_out - 1)
        return with_link(state, sender, chosen(link.sender.joined, waiting, link)), said

    return first_of_several


def submitted(config: Config, link: Link, items: Tensor, length: Tensor) -> tuple[Link, Answer]:
    """One message at once, or one more in the log; refused without a partition."""
    backlog = link.sender.sent < link.sender.log.rows
    waiting = link._replace(sender=protocol.commit(config, link.sender, items, length))
    out, message = transmitted(waiting)
    joined = link.sender.joined
    after = chosen(joined, chosen(backlog, waiting, out), link)
    values = torch.where(joined & ~backlog, message.payloads, NOTHING)
    told = torch.where(joined & ~backlog, length, 0)
    return after, Answer(code_where(joined, Code.DONE, Code.REFUSED), values, told)


def transmitted(link: Link) -> tuple[Link, Message]:
    """The next message of the log goes out."""
    sender, message = protocol.transmit(link.sender)
    return link._replace(sender=sender, messages=appended(link.messages, message)), message


def submit(config: Config, state: State, sender: Tensor, length: Tensor, *items: Tensor) -> Result:
    """Rendered and sent."""
    after, said = submitted(config, link_of(state, sender), torch.stack(items), length)
    return with_link(state, sender, after), said


def send(config: Config, state: State, sender: Tensor, which: Tensor) -> Result:
    """What was rendered is sent, or its next message."""
    link = link_of(state, sender)
    length, stage, left, items = row_of(link.drafts, which)
    there = (which < link.drafts.rows) & (stage != LOOKED_UP)
    here = is_row(link.drafts.stages, which)
    in_part = link.drafts._replace(
        stages=torch.where(here, PARTLY_SENT, link.drafts.stages), left=link.drafts.left - here.long()
    )
    drafts = chosen(left > 1, in_part, without(link.drafts, which))
    return leaving(config, state, sender, there, (items, length), drafts)


def receive_answer(config: Config, state: State, sender: Tensor) -> Result:
    """The oldest answer; where a request of after the last fault was answered, what that fault did is repaired."""
    link = link_of(state, sender)
    reply = Reply(*row_of(link.answers, torch.zeros_like(sender)))
    after = link._replace(
        sender=protocol.answered(link.sender, reply),
        answers=without_first(link.answers, torch.ones_like(sender)),
        allowance=torch.where(reply.expected > link.marked, 0, link.allowance),
        marked=torch.where(reply.expected > link.marked, NOTHING, link.marked),
    )
    return where_there(link.answers.rows > 0, begun(state, sender, link, after), state)


def transmit(config: Config, state: State, sender: Tensor) -> Result:
    """The next of the backlog."""
    link = link_of(state, sender)
    there = link.sender.joined & (link.sender.sent < link.sender.log.rows)
    after, message = transmitted(link)
    values, length = torch.where(there, message.payloads, NOTHING), torch.where(there, message.length, 0)
    changed, said = where_there(there, with_link(state, sender, after), state)
    return changed, Answer(said.code, values, length)


def expire(config: Config, state: State, sender: Tensor) -> Result:
    """A probe."""
    link = link_of(state, sender)
    there = link.sender.joined & (link.sender.log.rows > 0)
    after = link._replace(messages=appended(link.messages, protocol.probe(link.sender)))
    return where_there(there, with_link(state, sender, after), state)


def joining(partitions: int) -> Function:
    """P1 grants no more than it has room for."""

    def join(config: Config, state: State, sender: Tensor) -> Result:
        """An epoch begins."""
        link = link_of(state, sender)
        granted = link.partition.granted | (state.granted.sum() < partitions)
        ours, theirs = protocol.join(config, link.sender)
        after = begun(state, sender, link, link._replace(sender=ours, partition=theirs))
        return choose(granted, after, state), answer(code_where(granted, Code.DONE, Code.REFUSED))

    return join


# Receiver -----------------------------------------------------------------------------------------------------------


def deliver(config: Config, state: State, sender: Tensor) -> Result:
    """The oldest message. Its items are told where it is applied, those that are missing where it cannot be."""
    link = link_of(state, sender)
    message = Message(*row_of(link.messages, torch.zeros_like(sender)))
    partition, receipt = protocol.receive(config, link.partition, message)
    after = link._replace(
        partition=partition,
        messages=without_first(link.messages, torch.ones_like(sender)),
        answers=appended(link.answers, receipt.reply),
    )
    there, failed = link.messages.rows > 0, receipt.missing.any()
    verdict = receipt.reply.verdict
    refused = code_where(verdict == int(Verdict.STALE), Code.STALE, Code.DONE)
    refused = code_where(verdict == int(Verdict.GAP), Code.RETRY, refused)
    code = code_where(failed, Code.FAILED, code_where(receipt.applied, Code.HIT, refused))
    used = torch.where(receipt.applied, message.items, NOTHING)
    length = torch.where(receipt.applied, message.length, 0)
    said = Answer(
        code=torch.where(there, code, int(Code.ABSENT)),
        values=torch.where(there, torch.where(failed, first(receipt.missing, message.items), used), NOTHING),
        length=torch.where(there, torch.where(failed, receipt.missing.sum(), length), 0),
    )
    return choose(there & ~failed, with_link(state, sender, after), state), said


def first(wanted: Tensor, values: Tensor) -> Tensor:
    """[values] int64: the wanted values ([values] bool) in their order, then -1."""
    size = values.shape[0]
    place = torch.where(wanted, wanted.cumsum(0) - 1, size)
    return torch.full((size + 1,), NOTHING, device=values.device).scatter(0, place, values)[:size]


def reset_receiver(config: Config, state: State) -> Result:
    """Everybody's partition is forgotten."""
    return counted(with_all_links(state, forgotten(all_links(state)))), done(state)


def restart_receiver(config: Config, state: State) -> Result:
    """And everything on its way is lost."""
    links = forgotten(all_links(state))
    lost = links._replace(messages=nothing_of(links.messages), answers=nothing_of(links.answers))
    return counted(with_all_links(state, lost)), done(state)


def forgotten(links: Link) -> Link:
    """Links of which P1 knows nothing; of one engine, with a row for each sender."""
    return touched(links._replace(partition=protocol.revoked(links.partition)))


# Faults -------------------------------------------------------------------------------------------------------------


def reject(config: Config, state: State, sender: Tensor, which: Tensor) -> Result:
    """Never sent, no trace."""
    link = link_of(state, sender)
    _, stage, _, _ = row_of(link.drafts, which)
    after = with_link(state, sender, link._replace(drafts=without(link.drafts, which)))
    return where_there((which < link.drafts.rows) & (stage == RENDERED), counted(after), state)


def submit_rejected(config: Config, state: State, sender: Tensor, length: Tensor, *items: Tensor) -> Result:
    """Likewise."""
    return counted(state), done(state)


def abort(config: Config, state: State, sender: Tensor, which: Tensor) -> Result:
    """The request goes on."""
    return where_there(which < link_of(state, sender).sender.log.rows, counted(state), state)


def of_channel(queue: str, change: Callable[[Any, Tensor], Any], *, behind: int = 0, touches: bool = False) -> Function:
    """The fault that changes a queue of a link with this many messages `behind` the one that it names."""

    def fault(config: Config, state: State, sender: Tensor, which: Tensor) -> Result:
        link = link_of(state, sender)
        waiting = getattr(link, queue)
        after = (touched(link) if touches else link)._replace(**{queue: change(waiting, which)})
        return where_there(which + behind < waiting.rows, counted(with_link(state, sender, after)), state)

    return fault


cancel = of_channel("drafts", without)
"""The rest of a request is never sent."""
reorder = of_channel("messages", overtaken, behind=1, touches=True)
"""The message after this one comes first."""
reorder_answers = of_channel("answers", overtaken, behind=1)
"""The answer after this one comes first."""
drop = of_channel("messages", without, touches=True)
"""A message is lost."""
drop_answer = of_channel("answers", without)
"""An answer is lost."""
duplicate = of_channel("messages", doubled)
"""A message arrives twice."""
duplicate_answer = of_channel("answers", doubled)
"""An answer arrives twice."""


def reset_sender(config: Config, state: State, sender: Tensor) -> Result:
    """A frontend forgets."""
    link = touched(link_of(state, sender))
    nothing = torch.full_like(link.sender.ranks, OUTSIDE)
    after = link._replace(sender=link.sender._replace(ranks=nothing, joined=torch.zeros_like(link.sender.joined)))
    return counted(with_link(state, sender, after)), done(state)


# History ------------------------------------------------------------------------------------------------------------


def done(state: State) -> Answer:
    """Without values."""
    return answer(torch.full_like(state.faults_left, int(Code.DONE)))


def counted(state: State) -> State:
    """One fault less to come, where they are counted."""
    return state._replace(faults_left=torch.where(state.faults_left < 0, state.faults_left, state.faults_left - 1))


def touched(link: Link) -> Link:
    """A fault on the request path: one more generation may begin."""
    return link._replace(allowance=(link.allowance + 1).clamp(max=ALLOWANCE), marked=link.sender.next)


def begun(state: State, sender: Tensor, before: Link, after: Link) -> State:
    """Where a generation begins, or anything will go out again, it uses up one allowance."""
    confirmed = before.sender.log.rows - after.sender.log.rows
    again = after.sender.sent < before.sender.sent - confirmed
    begins = again | (before.sender.generation != after.sender.generation)
    spent = after._replace(allowance=torch.where(begins, (after.allowance - 1).clamp(min=0), after.allowance))
    over = begins & (after.allowance == 0)
    return with_link(state, sender, spent)._replace(overspent=state.overspent | over)
