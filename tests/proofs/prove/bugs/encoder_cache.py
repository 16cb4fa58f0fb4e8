"""A bug for each claim that is proved of the encoder cache."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.encoder_cache import configuration, state, transitions

BUGS = (
    Bug(state.initial, "freeable=config.capacity", "freeable=0", "ENC-1/initial"),
    Bug(state.initial, "free=config.capacity,", "free=0,", "ENC-2/initial"),
    Bug(transitions.allocate, "size > cache.free", "size > cache.freeable", "loops/allocate"),
    Bug(transitions.allocate, "if cache.sizes.has(content):", "if False:", "ENC-2/allocate"),
    Bug(transitions.release, "if not cache.held.has((request, position)):", "if False:", "loops/free_request"),
    Bug(transitions.free_input, "if not cache.held.has((op.request, op.input)):", "if False:", "ENC-10/free_input"),
    Bug(transitions.rest, "cache.freeable + size", "cache.freeable", "ENC-2/freeable/free_input"),
    Bug(transitions.wake, "idle=cache.idle.remove(content)", "idle=cache.idle", "ENC-3/check_and_update"),
    Bug(
        transitions.rest,
        "cache.idle.push(content, size)",
        "cache.idle.push(content, size + 1)",
        "ENC-4/idle/free_input",
    ),
    Bug(transitions.hold, "set(content, count + 1)", "set(content, count + 2)", "ENC-5/check_and_update"),
    Bug(transitions.place, "freed=cache.freed.remove(content)", "freed=cache.freed", "loops/allocate"),
    Bug(
        transitions.hold,
        "held=awake.held.set",
        "freed=awake.freed.push(content, 1), held=awake.held.set",
        "ENC-7/check_and_update",
    ),
    Bug(
        transitions.check_and_update,
        "return cache, REFUSED",
        "return cache._replace(sizes=cache.sizes.set(content, 0)), REFUSED",
        "ENC-4/constant/check_and_update",
    ),
    Bug(
        transitions.check_and_update,
        "return cache, REFUSED",
        "return cache._replace(sizes=cache.sizes.remove(content)), REFUSED",
        "ENC-6/check_and_update",
    ),
    Bug(
        transitions.free_input,
        "return cache, ABSENT",
        "return cache._replace(free=cache.free + 1), ABSENT",
        "ENC-10/free_input",
    ),
    Bug(
        transitions.can_allocate,
        "promise(config, make_room(cache, size + op.pending), op)",
        "promise(config, make_room(cache._replace(idle=cache.idle.push(cache.idle.oldest(0), 0)), size), op)",
        "ENC-12/can_allocate",
    ),
    Bug(transitions.can_allocate, "make_room(cache, size + op.pending)", "make_room(cache, size)", "room/can_allocate"),
    Bug(transitions.can_allocate, "> cache.freeable", ">= cache.freeable", "room/can_allocate"),
    Bug(transitions.allocate, "size > cache.free", "size >= cache.free", "fits/allocate"),
    Bug(transitions.check_and_update, "return cache, HIT", "return cache, MISS", "found/check_and_update"),
    Bug(
        transitions.can_allocate,
        "make_room(cache, size + op.pending), op), DONE",
        "strike_oldest(make_room(cache, size + op.pending)), op), DONE",
        "ENC-7/once/can_allocate",
    ),
    Bug(
        transitions.allocate, "return cache, REFUSED", "return cache._replace(freeable=0), REFUSED", "refused/allocate"
    ),
    Bug(transitions.evict_oldest, "free=cache.free + size", "free=cache.free + size + 1", "loops/can_allocate"),
    Bug(transitions.evict_oldest, "idle=cache.idle.remove(content)", "idle=cache.idle", "loops/reset"),
    Bug(configuration.content_of, "[position]", "[position + 1]", "defined/free_input"),
)
