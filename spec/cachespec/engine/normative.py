"""The normative engine: every part is the normative one."""

from __future__ import annotations

from cachespec.engine import transitions
from cachespec.engine.configuration import Config
from cachespec.engine.operations import Cancel, DeliverAbort, DeliverRequest, Execute, SubmitRequest
from cachespec.engine.parts import NORMATIVE_PARTS
from cachespec.engine.state import State
from cachespec.kernel import Outcome, Transitions
from cachespec.mirror.faults import ResetReceiver
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, Transmit
from cachespec.object_store.operations import Clear, End
from cachespec.scheduler.operations import (
    Compile,
    FailLoad,
    FailStep,
    FinishLoad,
    FinishSend,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)

Result = tuple[State, Outcome]


def submit_request(config: Config, state: State, op: SubmitRequest) -> Result:
    """MIR-4, SHM-8."""
    return transitions.submit_request(NORMATIVE_PARTS, config, state, op)


def deliver(config: Config, state: State, op: Deliver) -> Result:
    """MIR-3, X-3."""
    return transitions.deliver(NORMATIVE_PARTS, config, state, op)


def receive(config: Config, state: State, op: Receive) -> Result:
    """MIR-7."""
    return transitions.receive(NORMATIVE_PARTS, config, state, op)


def transmit(config: Config, state: State, op: Transmit) -> Result:
    """MIR-10."""
    return transitions.step_mirror(NORMATIVE_PARTS, config, state, op)


def expire(config: Config, state: State, op: Expire) -> Result:
    """MIR-10."""
    return transitions.step_mirror(NORMATIVE_PARTS, config, state, op)


def join(config: Config, state: State, op: Join) -> Result:
    """MIR-8."""
    return transitions.step_mirror(NORMATIVE_PARTS, config, state, op)


def deliver_request(config: Config, state: State, op: DeliverRequest) -> Result:
    """X-3."""
    return transitions.deliver_request(NORMATIVE_PARTS, config, state, op)


def end(config: Config, state: State, op: End) -> Result:
    """SHM-8, X-3."""
    return transitions.end(NORMATIVE_PARTS, config, state, op)


def clear_store(config: Config, state: State, op: Clear) -> Result:
    """X-4."""
    return transitions.clear_store(NORMATIVE_PARTS, config, state, op)


def cancel(config: Config, state: State, op: Cancel) -> Result:
    """X-3."""
    return transitions.cancel(NORMATIVE_PARTS, config, state, op)


def deliver_abort(config: Config, state: State, op: DeliverAbort) -> Result:
    """X-3."""
    return transitions.deliver_abort(NORMATIVE_PARTS, config, state, op)


def compiled(config: Config, state: State, op: Compile) -> Result:
    """SCH-13."""
    return transitions.compiled(NORMATIVE_PARTS, config, state, op)


def schedule(config: Config, state: State, op: Schedule) -> Result:
    """X-1."""
    return transitions.schedule(NORMATIVE_PARTS, config, state, op)


def execute(config: Config, state: State, op: Execute) -> Result:
    """ENC-8, KV-7."""
    return transitions.execute(NORMATIVE_PARTS, config, state, op)


def update(config: Config, state: State, op: Update) -> Result:
    """X-1."""
    return transitions.update(NORMATIVE_PARTS, config, state, op)


def finish_load(config: Config, state: State, op: FinishLoad) -> Result:
    """SCH-14, KV-7."""
    return transitions.transferred(NORMATIVE_PARTS, config, state, op)


def fail_load(config: Config, state: State, op: FailLoad) -> Result:
    """SCH-14, KV-7."""
    return transitions.transferred(NORMATIVE_PARTS, config, state, op)


def fail_step(config: Config, state: State, op: FailStep) -> Result:
    """SCH-14, KV-7."""
    return transitions.fail_step(NORMATIVE_PARTS, config, state, op)


def finish_send(config: Config, state: State, op: FinishSend) -> Result:
    """SCH-15."""
    return transitions.transferred(NORMATIVE_PARTS, config, state, op)


def reset_receiver(config: Config, state: State, op: ResetReceiver) -> Result:
    """X-4."""
    return transitions.reset_receiver(NORMATIVE_PARTS, config, state, op)


def reset_prefix_cache(config: Config, state: State, op: ResetPrefixCache) -> Result:
    """X-4."""
    return transitions.reset_prefix_cache(NORMATIVE_PARTS, config, state, op)


def reset_running(config: Config, state: State, op: ResetRunning) -> Result:
    """X-4."""
    return transitions.reset_running(NORMATIVE_PARTS, config, state, op)


def reset_encoder_cache(config: Config, state: State, op: ResetEncoderCache) -> Result:
    """X-1, X-4."""
    return transitions.reset_encoder_cache(NORMATIVE_PARTS, config, state, op)


TRANSITIONS: Transitions[Config, State] = {
    SubmitRequest: submit_request,
    Deliver: deliver,
    Receive: receive,
    Transmit: transmit,
    Expire: expire,
    Join: join,
    DeliverRequest: deliver_request,
    End: end,
    Clear: clear_store,
    Cancel: cancel,
    DeliverAbort: deliver_abort,
    Compile: compiled,
    Schedule: schedule,
    Execute: execute,
    Update: update,
    FinishLoad: finish_load,
    FailLoad: fail_load,
    FailStep: fail_step,
    FinishSend: finish_send,
    ResetReceiver: reset_receiver,
    ResetPrefixCache: reset_prefix_cache,
    ResetRunning: reset_running,
    ResetEncoderCache: reset_encoder_cache,
}
