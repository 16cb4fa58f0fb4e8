"""A bug for each claim that is proved of the encoder cache."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.encoder_cache import configuration, state, transitions

BUGS = (
    Bug(
        transitions.free_request,
        "withdraw($config, $cache, $op.request)",
        "withdraw($config, $cache, $op.request)._replace(held=$cache.held.set(($op.request, 0), 1))",
        "ENC-5/finished/free_request",
    ),
    Bug(
        transitions.abandon,
        "withdraw($config, $cache, $op.request)",
        "withdraw($config, $cache, $op.request)._replace(held=$cache.held.remove(($op.request + 1, 0)))",
        "ENC-11/abandon",
    ),
    Bug(
        transitions.free_input,
        "($cache, ABSENT)",
        "($cache._replace(held=$cache.held.set((op.request, op.input), 1)), ABSENT)",
        "ENC-5/given/free_input",
    ),
    Bug(
        transitions.check_and_update,
        "note($config, $held, $op.request, $op.input)",
        "$held",
        "ENC-11/noted/check_and_update",
    ),
    Bug(
        transitions.hold,
        "$awake.held.set(($request, $position), 1)",
        "$awake.held.set(($request, $position + 9), 1)",
        "ENC-5/inputs/check_and_update",
    ),
    Bug(state.initial, "freeable=$config.capacity", "freeable=0", "ENC-1/initial"),
    Bug(state.initial, "free=$config.capacity", "free=0", "ENC-2/initial"),
    Bug(transitions.allocate, "$cache.free", "$cache.freeable", "loops/allocate"),
    Bug(transitions.allocate, "$cache.sizes.has($content)", "False", "ENC-2/allocate"),
    Bug(transitions.release, "not $cache.held.has(($request, $position))", "False", "loops/free_request"),
    Bug(transitions.free_input, "not $cache.held.has(($op.request, $op.input))", "False", "ENC-10/free_input"),
    Bug(transitions.rest, "$cache.freeable + $size", "$cache.freeable", "ENC-2/freeable/free_input"),
    Bug(transitions.wake, "$cache.idle.remove($content)", "$cache.idle", "ENC-3/check_and_update"),
    Bug(
        transitions.rest,
        "$cache.idle.push($content, $size)",
        "$cache.idle.push($content, $size + 1)",
        "ENC-4/idle/free_input",
    ),
    Bug(transitions.hold, "$count + 1", "$count + 2", "ENC-5/check_and_update"),
    Bug(transitions.place, "$cache.freed.remove($content)", "$cache.freed", "loops/allocate"),
    Bug(
        transitions.hold,
        "$awake._replace(references=$z($content, $count + 1), held=$y)",
        "$awake._replace(references=$z($content, $count + 1), freed=$awake.freed.push($content, 1), held=$y)",
        "ENC-7/check_and_update",
    ),
    Bug(
        transitions.check_and_update,
        "($cache, REFUSED)",
        "($cache._replace(sizes=$cache.sizes.set(content, 0)), REFUSED)",
        "ENC-4/constant/check_and_update",
    ),
    Bug(
        transitions.check_and_update,
        "($cache, REFUSED)",
        "($cache._replace(sizes=$cache.sizes.remove(content)), REFUSED)",
        "ENC-6/check_and_update",
    ),
    Bug(
        transitions.free_input,
        "($cache, ABSENT)",
        "($cache._replace(free=$cache.free + 1), ABSENT)",
        "ENC-10/free_input",
    ),
    Bug(
        transitions.can_allocate,
        "make_room($cache, $size + $op.pending)",
        "make_room($cache._replace(idle=$cache.idle.push($cache.idle.oldest(0), 0)), $size)",
        "ENC-12/can_allocate",
    ),
    Bug(
        transitions.can_allocate,
        "make_room($cache, $size + $op.pending)",
        "make_room($cache, $size)",
        "room/can_allocate",
    ),
    Bug(
        transitions.can_allocate,
        "$size + $op.pending > $cache.freeable",
        "$size + $op.pending >= $cache.freeable",
        "room/can_allocate",
    ),
    Bug(transitions.allocate, "$size > $cache.free", "$size >= $cache.free", "fits/allocate"),
    Bug(
        transitions.check_and_update,
        "if $x:\n    return ($cache, HIT)",
        "if $x:\n    return ($cache, MISS)",
        "found/check_and_update",
    ),
    Bug(
        transitions.can_allocate,
        "make_room($cache, $size + $op.pending)",
        "strike_oldest(make_room($cache, $size + $op.pending))",
        "ENC-7/once/can_allocate",
    ),
    Bug(transitions.allocate, "($cache, REFUSED)", "($cache._replace(freeable=0), REFUSED)", "refused/allocate"),
    Bug(transitions.evict_oldest, "$cache.free + $size", "$cache.free + $size + 1", "loops/can_allocate"),
    Bug(transitions.evict_oldest, "$cache.idle.remove($content)", "$cache.idle", "loops/reset"),
    Bug(
        configuration.content_of,
        "$config.requests[$request][$position]",
        "$config.requests[$request][$position + 1]",
        "defined/free_input",
    ),
    Bug(
        transitions.free_input,
        "($cache, ABSENT)",
        "($cache._replace(held=$cache.held.remove((op.request, op.input + 1))), ABSENT)",
        "ENC-5/kept/free_input",
    ),
    Bug(
        transitions.free_input,
        "release($cache, $x, $y, $z)",
        "release($cache._replace(sizes=$cache.sizes.set(99, 1)), $x, $y, $z)",
        "ENC-6/entries/free_input",
    ),
    Bug(transitions.place, "$cache.free - $size", "$cache.free", "ENC-1/taken/allocate"),
    Bug(
        transitions.place,
        "$cache.sizes.set($content, $size)",
        "$cache.sizes.set($content, $size + 1)",
        "ENC-4/content/allocate",
    ),
    Bug(
        transitions.can_allocate,
        "make_room($cache, $size + $op.pending)",
        "make_room($cache, $size)",
        "granted/can_allocate",
    ),
    Bug(transitions.check_and_update, "($cache, MISS)", "($cache, REFUSED)", "missed/check_and_update"),
    Bug(transitions.allocate, "$cache.sizes.has($content)", "False", "denied/allocate"),
)
