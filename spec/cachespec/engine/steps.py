"""What must hold of every step of an engine: X-4."""

from __future__ import annotations

from collections.abc import Mapping

from cachespec.engine.configuration import Config
from cachespec.engine.state import View
from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.mirror.operations import ResetReceiver
from cachespec.object_store.operations import Clear
from cachespec.scheduler.operations import ResetEncoderCache, ResetPrefixCache

RESETS = (ResetReceiver, Clear, ResetPrefixCache, ResetEncoderCache)


def caches(view: View) -> Mapping[type[Operation], object]:
    """Each cache that can be reset, by the operation that does it."""
    return {
        ResetReceiver: view.mirror,
        Clear: view.store,
        ResetPrefixCache: view.scheduler.kv,
        ResetEncoderCache: view.scheduler.encoder,
    }


def findable(view: View) -> Mapping[type[Operation], object]:
    """What is found in each of them."""
    return {
        ResetReceiver: tuple(entry for link in view.mirror.links for entry in link.held_order),
        Clear: view.store.listed,
        ResetPrefixCache: view.scheduler.kv.carried,
        ResetEncoderCache: view.scheduler.encoder.entries,
    }


def left_alone(view: View, reset: type[Operation]) -> tuple[object, ...]:
    """Everything but the cache that is reset, and the steps that workers have still to do."""
    others = tuple(cache for kind, cache in caches(view).items() if kind is not reset)
    account = {name: part for name, part in view.scheduler._asdict().items() if name not in ("kv", "encoder")}
    requests = (view.submitted, view.received, view.rejected, view.cancelled)
    at_workers = tuple((one.tensors, one.memory, one.finding) for one in view.workers)
    return (others, account, requests, at_workers)


def reset_is_alone(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, RESETS) or outcome.code is not Code.DONE:
        return True
    return findable(after)[type(op)] == () and left_alone(before, type(op)) == left_alone(after, type(op))


def empties_beside_a_step(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A reset that has something to forget, while a worker has still to do a step."""
    done = isinstance(op, RESETS) and outcome.code is Code.DONE
    return done and findable(before)[type(op)] != () and any(worker.inbox for worker in before.workers)


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "X-4",
        "a reset empties its cache, and leaves the other caches, requests, plans, and what workers have as they are",
        reset_is_alone,
        empties_beside_a_step,
    ),
)
