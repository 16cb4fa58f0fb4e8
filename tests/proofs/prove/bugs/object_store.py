"""A bug for each claim that is proved of the object store."""

from __future__ import annotations

from collections.abc import Mapping

from tests.proofs.prove.planted import Bug

from cachespec.kernel import Operation
from cachespec.object_store import accounting, journeys, readers, writer
from cachespec.object_store.configuration import Config
from cachespec.object_store.operations import (
    Abort,
    End,
    Finish,
    FreeUnused,
    GetCached,
    Put,
    Read,
    Reject,
    Release,
    Render,
    Schedule,
    Send,
    Touch,
)

ENTERED = "ring=ring"

OF_THE_BOOKS = (
    Bug(accounting.enter, ENTERED, "ring=ring._replace(starts=ring.starts.set(identity, 21))", "SHM-1/put"),
    Bug(accounting.enter, ENTERED, "ring=ring._replace(start=-1)", "SHM-1/window/put"),
    Bug(accounting.enter, ENTERED, "ring=ring._replace(id_end=identity)", "SHM-4/ids/put"),
    Bug(accounting.enter, ENTERED, "ring=ring._replace(sizes=ring.sizes.set(identity, 1))", "laid out/put"),
    Bug(accounting.withdraw, "withdrawn=$store.withdrawn.set($identity, 1)", "", "SHM-4/clear"),
    Bug(accounting.enter, "metadata=$store.metadata.set($content, 1)", "", "SHM-4/metadata/put"),
    Bug(accounting.withdraw, "metadata=$store.metadata.remove($content)", "", "SHM-4/no-other/clear"),
    Bug(accounting.enter, "$store.owners.set($identity, $content)", "$store.owners.set($identity, 9)", "contents/put"),
    Bug(accounting.issue, "$store.issued.get($identity, 0) + 1", "$store.issued.get($identity, 0)", "SHM-3/put"),
    Bug(
        writer.touched,
        "$store.listed.get($content, NOTHING)",
        "1 - $store.listed.get($content, NOTHING)",
        "SHM-4/touch",
    ),
    Bug(
        writer.touched,
        "$after._replace(protected=$marked)",
        "$after._replace(protected=$marked, withdrawn=store.withdrawn.set(0, 1))",
        "SHM-8/protected/touch",
    ),
    Bug(writer.drained, "withdraw($store, $oldest, $content)", "$store", "SHM-8/blocking/put"),
    Bug(accounting.enter, "epoch=epoch", "epoch=-1", "SHM-5/epoch/put"),
    Bug(writer.walked, "walked=$journey.walked + 1", "walked=$journey.walked + 2", "SHM-7/walked/put"),
    Bug(accounting.settle, "not $store.tickets.has($slot)", "True", "SHM-3/settled/reject"),
    Bug(writer.handed_out, "issue($store, ($request, $position), $identity)", "$store", "SHM-3/out/put"),
    Bug(
        writer.handed_out,
        "issue($store, ($request, $position), $identity)",
        "issue($store, ($request, -1), $identity)",
        "SHM-11/put",
    ),
    Bug(
        accounting.enter,
        "$store.epochs.set($identity, $epoch)",
        "$store.epochs.set($identity, $epoch + 1)",
        "SHM-5/older/put",
    ),
    Bug(
        writer.handle_to,
        "Handle($content, $address, $identity, $epoch)",
        "Handle($content, $address, $identity, $epoch + 1)",
        "SHM-5/handles/put",
    ),
    Bug(writer.touched, "touched=$journey.touched + 1", "touched=$journey.touched + 2", "SHM-7/further/touch"),
)
"""For the claims about P0's books."""

OF_STATES = (
    Bug(writer.render, "not may_begin($c, $s) or $x or $y", "$x or $y", "SHM-7/concurrent/render"),
    Bug(journeys.gone, "without_cells($c, $w, $r)", "store.workers[reader]", "SHM-3/early/end"),
    Bug(journeys.gone, "told($worker, $request) if revoking == 1 else $worker", "$worker", "SHM-8/deliveries/end"),
    Bug(writer.walks_next, "$x and may_walk($c, $s, $r)", "$x", "SHM-7/walks/put"),
    Bug(writer.render, "$store.renders_left - 1", "$store.renders_left - 2", "SHM-7/limited/render"),
    Bug(writer.stored_part, "$writing._replace(header=1)", "$writing._replace(header=2)", "SHM-10/written/store"),
)
"""For the claims about requests and workers in each state."""

OF_STEPS = (
    Bug(accounting.enter, "$store.epoch + 1", "$store.epoch", "SHM-5/put"),
    Bug(
        accounting.enter,
        "$store.metadata.set($content, 1)",
        "$store.metadata.set(7, 1).set(8, 1).set(9, 1)",
        "SHM-4/bounded/put",
    ),
    Bug(writer.free_unused, "oldest_may_go($store)", "False", "SHM-8/freed/free_unused"),
    Bug(writer.lacks_room, "$x and oldest_may_go($s)", "False", "SHM-8/room/put"),
    Bug(accounting.settle, "not $store.tickets.has($slot)", "True", "X-3/store/reject"),
    Bug(
        writer.without_oldest,
        "forget($store, $oldest)",
        "forget($store, $oldest)._replace(epochs=store.epochs.set(1, 7).set(0, 7))",
        "SHM-6/free_unused",
    ),
    Bug(writer.free_unused, "Outcome(Code.DONE, $gone)", "Outcome(Code.DONE, ())", "SHM-6/reported/free_unused"),
    Bug(
        writer.put,
        "return (walked($s, $r, RAW), TOO_LARGE)",
        "return (walked(clear(config, store, op)[0], $r, RAW), TOO_LARGE)",
        "SHM-7/put",
    ),
    Bug(writer.put, "return (walked($s, $r, RAW), REFUSED)", "return ($s, Outcome(Code.FAILED))", "SHM-7/walk/put"),
    Bug(
        writer.handed_out,
        "Outcome($code, ($handle.address, $identity))",
        "Outcome($code, ($handle.address + 1, $identity))",
        "SHM-2/named/put",
    ),
    Bug(accounting.issue, "protected=$store.protected.remove($identity)", "", "SHM-7/handed/get_cached"),
    Bug(
        writer.handed_out,
        "Outcome($code, ($handle.address, $identity))",
        "Outcome($code, ($handle.address, store.blocking))",
        "SHM-8/drained/get_cached",
    ),
    Bug(writer.released, "$protected.remove($x)", "$protected", "SHM-8/released/release"),
    Bug(writer.render, "$store.renders_left - 1", "$store.renders_left", "SHM-7/counted/render"),
    Bug(
        journeys.forge,
        "return ($store, REFUSED)",
        "return ($store._replace(metadata=$store.metadata.set(9, 1)), REFUSED)",
        "SHM-7/refused/forge",
    ),
    Bug(writer.release, "walker($c, $s) == NOTHING", "True", "SHM-7/between/release"),
    Bug(writer.render, "1 if $x else 0", "0 if $x else 1", "SHM-7/answers/render"),
    Bug(writer.unused, "$x and not has_to_do($s, $r)", "$x", "SHM-3/reused/render"),
    Bug(writer.touch, "not may_walk($c, $s, $r)", "False", "SHM-8/left/touch"),
    Bug(accounting.may_go, "$x and not $store.protected.has($identity)", "$x", "SHM-7/own/free_unused"),
    Bug(accounting.may_go, "$x and not $store.protected.has($identity)", "$x", "SHM-7/touched/free_unused"),
    Bug(writer.stored_part, "$writing.header == 0", "True", "SHM-10/stores/store"),
    Bug(
        journeys.abort,
        "(WAITING, RUNNING, PREEMPTED)",
        "(WAITING, RUNNING, PREEMPTED, RENDERING)",
        "SHM-8/phases/abort",
    ),
    Bug(journeys.schedule, "(WAITING,)", "()", "SHM-8/moved/schedule"),
    Bug(journeys.finish, "has_to_do($s, $r)", "False", "SHM-8/executed/finish"),
    Bug(journeys.restart, "holds_any($store)", "False", "SHM-5/restarted/restart"),
    Bug(journeys.lost, "inbox=()", "", "SHM-8/died/die"),
    Bug(journeys.gone, "without_cells($c, $w, $r)", "store.workers[reader]", "SHM-3/forgotten/end"),
    Bug(journeys.fallen, "$delivery.request != $request", "False", "SHM-8/revoked/end"),
    Bug(journeys.resume, "delivered($c, $s, $r, 1)", "delivered($c, $s, $r, 0)", "SHM-8/marked/resume"),
    Bug(readers.next_one, "$worker.inbox[1:]", "$worker.inbox", "SHM-8/passed/acknowledge"),
    Bug(
        readers.copy,
        "with_worker($s, $reader, $worker)",
        "with_worker($s, $reader, $worker)._replace(metadata=$s.metadata.set(9, 1))",
        "SHM-9/copy",
    ),
)
"""For the claims about single steps."""

BUGS = (*OF_THE_BOOKS, *OF_STATES, *OF_STEPS)

OF_THE_SEARCH = (Bug(writer.walker, "return NOTHING", "return 0", "SHM-7/walker/find_walk"),)
"""For the search of the request that P0 walks."""

THREE = Config(capacity=8, payloads=(1, 2), requests=((0,), (0,), (1,)), largest=2, readers=1, modulus=4, concurrent=3)
LONG = THREE._replace(requests=((0, 1), (1, 0)))
SENT = (Render(0), Put(0, 0), Send(0), Schedule(0, 0))
TOUCHED = (Render(0), Put(0, 0), Render(1), Touch(1, 0))
BOTH = (Render(0), Put(0, 0), Render(2), Put(2, 0))

TRACES: Mapping[str, tuple[Config, tuple[Operation, ...]]] = {
    "SHM-8/protected/touch": (THREE, TOUCHED),
    "SHM-8/released/release": (THREE, (*TOUCHED, Reject(1), Release())),
    "SHM-7/own/free_unused": (THREE, (*TOUCHED, Reject(0), FreeUnused())),
    "SHM-7/touched/free_unused": (THREE, (*TOUCHED, Reject(0), FreeUnused())),
    "SHM-8/left/touch": (
        THREE,
        (Render(0), Put(0, 0), Render(1), Render(2), Touch(1, 0), Reject(1), Touch(2, 0)),
    ),
    "SHM-7/walks/put": (LONG, (Render(0), Put(0, 0), Render(1), Put(1, 0))),
    "SHM-3/early/end": (THREE, (*SENT, Read(0), Finish(0), End(0))),
    "SHM-3/forgotten/end": (THREE, (*SENT, Read(0), Finish(0), End(0))),
    "SHM-8/revoked/end": (
        THREE,
        (*SENT, Render(1), GetCached(1, 0), Send(1), Schedule(1, 0), Abort(0), End(0)),
    ),
    "SHM-8/executed/finish": (THREE, (*SENT, Finish(0))),
    "SHM-3/reused/render": (THREE, (*SENT, Abort(0), End(0), Render(0))),
    "SHM-7/limited/render": (THREE._replace(renders=1), (Render(0),)),
    "SHM-7/counted/render": (THREE._replace(renders=1), (Render(0),)),
    "SHM-5/put": (
        THREE._replace(modulus=2),
        (*SENT, Abort(0), End(0), Render(2), Put(2, 0), Reject(2), FreeUnused(), Render(1), Put(1, 0)),
    ),
    "SHM-3/settled/reject": (THREE, (Render(0), Put(0, 0), Reject(0))),
    "X-3/store/reject": (THREE, (Render(0), Put(0, 0), Reject(0))),
    "SHM-6/free_unused": (THREE, (*BOTH, Reject(0), FreeUnused())),
    "SHM-7/put": (THREE._replace(largest=1), BOTH),
}
"""For the claims that no step of the witnesses breaks: calls, of which the last one breaks the claim."""
