"""A bug for each claim that is proved of the normative mirror."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.mirror import normative, normative_faults, protocol

BUGS = (
    Bug(protocol.commit, "order=$order", "", "MIR-1/pending/submit"),
    Bug(protocol.receive, "order=$order", "", "MIR-1/pending/deliver"),
    Bug(protocol.receive, "$message.generation < $partition.generation", "False", "MIR-2/deliver"),
    Bug(protocol.receive, "$message.sequence > $partition.expected", "False", "MIR-3/deliver"),
    Bug(protocol.receive, "$x or $message.items == ()", "$message.items == ()", "MIR-2/deliver"),
    Bug(protocol.receive, "$x or $message.items == ()", "$message.items == ()", "MIR-1/pending/deliver"),
    Bug(protocol.receive, "$partition.granted == 0 or $x", "$x", "MIR-12/deliver"),
    Bug(
        protocol.revoked,
        "Partition(order=$empty)",
        "Partition(order=$empty, granted=1)",
        "MIR-1/pending/reset_receiver",
    ),
    Bug(normative_faults.reset_sender, "joined=0", "", "MIR-1/pending/reset_sender"),
    Bug(normative_faults.reset_sender, "joined=0", "joined=1", "MIR-1/reset_sender"),
    Bug(
        normative_faults.reject,
        "$link._replace(drafts=$drafts)",
        "$link._replace(drafts=$drafts, sender=$link.sender._replace(order=state.empty))",
        "MIR-4/reject",
    ),
    Bug(
        normative_faults.drop_answer,
        "$link._replace(answers=$answers)",
        "$link._replace(partition=$link.partition._replace(order=state.empty), answers=$answers)",
        "MIR-4/receiver/drop_answer",
    ),
    Bug(
        normative_faults.reset_sender,
        "counted(with_link(state, op.sender, touched($link)._replace(sender=$sender)))",
        "counted(state._replace(links=tuple(touched(each)._replace(sender=$sender) for each in state.links)))",
        "MIR-11/apart/reset_sender",
    ),
    Bug(
        normative.render,
        "with_link(state, op.sender, $after)",
        "state._replace(links=tuple(each._replace(answers=()) for each in with_link(state, op.sender, $after).links))",
        "MIR-11/apart/render",
    ),
    Bug(
        normative_faults.forgotten,
        "$link._replace(partition=protocol.revoked($empty))",
        "$link._replace(partition=protocol.revoked($empty)._replace(granted=$link.partition.granted))",
        "MIR-1/pending/restart_receiver",
    ),
    Bug(protocol.join, "$sender.generation + 1", "$sender.generation", "MIR-8/join"),
    Bug(
        protocol.join,
        "$sender._replace(order=$empty, joined=1, generation=$generation, log=(), sent=0)",
        "$sender._replace(joined=1, generation=$generation, log=(), sent=0)",
        "loops/join",
    ),
    Bug(
        protocol.confirm, "$sender.log[0].sequence < $expected", "$sender.log[0].sequence <= $expected", "loops/receive"
    ),
    Bug(protocol.transmit, "$sender.sent + 1", "$sender.sent - 1", "MIR-10/once/transmit"),
    Bug(protocol.transmit, "$sender.log[$sender.sent]", "$sender.log[0]", "MIR-10/once/transmit"),
    Bug(
        normative_faults.reset_sender,
        "$link.sender._replace(order=state.empty, joined=0)",
        "$link.sender._replace(order=state.empty, joined=0, log=())",
        "MIR-7/kept/reset_sender",
    ),
    Bug(
        protocol.transmit,
        "$sender._replace(sent=$sent)",
        "$sender._replace(sent=$sent, log=$sender.log[1:])",
        "MIR-7/kept/transmit",
    ),
    Bug(normative.submitted, "($after, DONE)", "(link, DONE)", "MIR-7/kept/submit"),
    Bug(protocol.go_back, "generation=$sender.generation + 1", "", "MIR-10/generation/receive"),
    Bug(
        protocol.receive,
        "($after, $x, True)",
        "($after, Answer(NONE, $after.expected + 1, ACCEPTED), True)",
        "answers/deliver",
    ),
    Bug(
        protocol.receive, "Answer($generation, NONE, STALE)", "Answer($generation + 1, NONE, STALE)", "answers/deliver"
    ),
    Bug(protocol.transmit, "$sender.sent + 1", "$sender.sent + 2", "log/transmit"),
    Bug(normative.render, "$op.items", "()", "requests/render"),
    Bug(
        normative.join,
        "$sender, $partition = protocol.join(*$rest)",
        "$sender, $partition = protocol.join(*$rest)\n$sender = $sender._replace(joined=2)",
        "flags/join",
    ),
)
