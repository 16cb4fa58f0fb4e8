"""A bug for each claim about the rank of a request of the mirror."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.mirror import normative, protocol

BUGS = (
    Bug(
        protocol.receive,
        "Answer($message.generation, $partition.expected, GAP)",
        "Answer($partition.generation, $partition.expected, GAP)",
        "MIR-7/served/deliver",
    ),
    Bug(protocol.receive, "Answer($generation, NONE, STALE)", "Answer(NONE, NONE, STALE)", "MIR-7/served/deliver"),
    Bug(protocol.answered, "$answer.verdict == STALE", "False", "MIR-7/served/receive"),
    Bug(protocol.go_back, "sent=0", "", "MIR-7/served/receive"),
    Bug(protocol.probe, "$sender.next", "0", "MIR-7/served/expire"),
    Bug(protocol.join, "granted=1", "granted=0", "MIR-7/served/join"),
    Bug(protocol.transmit, "$sender.sent + 1", "$sender.sent", "MIR-7/served/transmit"),
    Bug(protocol.transmit, "$sender.sent + 1", "$sender.sent + 2", "MIR-7/served/phase/transmit"),
    Bug(
        protocol.receive,
        "Answer($message.generation, $partition.expected, GAP)",
        "Answer($message.generation + 1, $partition.expected, GAP)",
        "MIR-7/served/phase/deliver",
    ),
    Bug(
        protocol.join,
        "$sender._replace(order=$x, joined=1, generation=$y, log=(), sent=0)",
        "$sender._replace(order=$x, joined=1, generation=$y, log=())",
        "MIR-7/served/phase/join",
    ),
    Bug(
        protocol.commit,
        "$sender._replace(order=$order, next=$next, log=$log)",
        "$sender._replace(order=$order, next=$next, log=$log, sent=0)",
        "MIR-7/served/calls/submit",
    ),
    Bug(normative.may_expire, "$link.messages == () and $x", "False", "MIR-7/served/owed/expire"),
    Bug(normative.may_expire, "all($x)", "False", "MIR-7/served/owed/receive"),
    Bug(normative.protocol_alphabet, "(yield Join($name))", "None", "MIR-7/served/owed/join"),
    Bug(normative.protocol_alphabet, "$link.sender.joined == 0", "False", "MIR-7/served/transmit"),
    Bug(normative.protocol_alphabet, "$link.answers != ()", "False", "MIR-7/served/owed/receive"),
)
