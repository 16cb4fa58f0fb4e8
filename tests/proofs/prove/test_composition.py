"""Parts inside larger components: what a whole may do with the state of a part, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cacheproof.model.registry import component_named
from cacheproof.prove.composition import Part, judged, part_of, program_of, promises, wholes
from cacheproof.prove.finding import Verdict
from cacheproof.prove.obligations import encoder_cache as proofs_of_encoder_cache
from cacheproof.prove.obligations import kv_blocks as proofs_of_kv_blocks
from cacheproof.prove.ring.functions import CHUNKS
from cacheproof.prove.session import all_proofs
from cachespec import encoder_cache, kv_blocks, ring
from cachespec.encoder_cache import NORMATIVE_ENCODER_CACHE, FreeInput
from cachespec.encoder_cache.transitions import wake
from cachespec.kernel import DONE, Outcome
from cachespec.object_store import writer
from cachespec.scheduler import NORMATIVE_SCHEDULER, Compile, Config
from cachespec.scheduler.configuration import encoder_config, kv_config
from cachespec.scheduler.state import State

Result = tuple[State, Outcome]
ENCODER_CACHE = part_of(proofs_of_encoder_cache.PROOF)


def verdict_of(
    transition: Callable[[Config, State, Compile], Result], part: Part = ENCODER_CACHE
) -> tuple[Verdict, str]:
    """What is said of a scheduler with this in the place of one of its transitions."""
    transitions: Any = {**NORMATIVE_SCHEDULER.transitions, Compile: transition}
    return judged(part, program_of(replace(NORMATIVE_SCHEDULER, transitions=transitions), Config))


def calling(config: Config, state: State, op: Compile) -> Result:
    encoder, _ = NORMATIVE_ENCODER_CACHE.step(encoder_config(config), state.encoder, FreeInput(op.request, 0))
    return state._replace(encoder=encoder), DONE


def counting_by_itself(config: Config, state: State, op: Compile) -> Result:
    encoder = state.encoder._replace(free=state.encoder.free + 1)
    return state._replace(encoder=encoder), DONE


def making_its_own(config: Config, state: State, op: Compile) -> Result:
    return state._replace(encoder=encoder_cache.Cache(*state.encoder)), DONE


def using_a_helper(config: Config, state: State, op: Compile) -> Result:
    return state._replace(encoder=wake(state.encoder, 0)), DONE


def in_another_configuration(config: Config, state: State, op: Compile) -> Result:
    larger = encoder_config(config)._replace(capacity=config.encoder_capacity + 1)
    encoder, _ = NORMATIVE_ENCODER_CACHE.step(larger, state.encoder, FreeInput(op.request, 0))
    return state._replace(encoder=encoder), DONE


def by_an_era(config: Config, state: State, op: Compile) -> Result:
    kv, _ = kv_blocks.COMPONENT.variants["K2"].step(kv_config(config), state.kv, kv_blocks.FreeRequest(op.request))
    return state._replace(kv=kv), DONE


def reserving_by_itself(config: ring.Config, one: ring.Ring, payload: int) -> tuple[ring.Ring, Outcome]:
    return one._replace(end=one.end + payload), DONE


def test_the_part_s_own_operations_are_called() -> None:
    assert verdict_of(calling) == (Verdict.PROVED, "")


@pytest.mark.parametrize(
    ("transition", "said"),
    [
        (counting_by_itself, "counting_by_itself makes a state of encoder_cache by itself"),
        (making_its_own, "making_its_own makes a state of encoder_cache by itself"),
        (using_a_helper, "using_a_helper gets a state of encoder_cache from cachespec.encoder_cache"),
        (in_another_configuration, "makes a configuration of encoder_cache that depends on more than the whole's"),
    ],
)
def test_anything_else_is_refuted(transition: Callable[[Config, State, Compile], Result], said: str) -> None:
    verdict, detail = verdict_of(transition)
    assert verdict is Verdict.REFUTED
    assert said in detail


def test_an_operation_of_an_era_is_none_of_the_proof() -> None:
    verdict, detail = verdict_of(by_an_era, part_of(proofs_of_kv_blocks.PROOF))
    assert verdict is Verdict.REFUTED
    assert "which is no operation of its proof" in detail


def test_a_part_that_is_never_called_is_vacuous() -> None:
    nothing: Any = {Compile: lambda config, state, op: (state, DONE)}
    assert (
        judged(ENCODER_CACHE, program_of(replace(NORMATIVE_SCHEDULER, transitions=nothing), Config))[0]
        is Verdict.VACUOUS
    )


def test_wholes_have_the_promises_of_their_parts() -> None:
    assert wholes(all_proofs()) == ("engine", "object_store", "scheduler")
    assert promises(component_named("object_store"), all_proofs()) == {"SHM-1": "ring"}
    assert promises(component_named("scheduler"), all_proofs()) == {
        **dict.fromkeys(("ENC-1", "ENC-2", "ENC-2/freeable", "ENC-3", "ENC-5"), "encoder_cache"),
        **dict.fromkeys(("KV-1", "KV-2"), "kv_blocks"),
    }
    engine = promises(component_named("engine"), all_proofs())
    named = [engine[name] for name in ("MIR-1", "SCH-1", "ENC-2", "SHM-1")]
    assert named == ["mirror", "scheduler", "encoder_cache", "ring"]


def test_the_object_store_changes_its_ring_by_the_ring_s_functions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    part, store = part_of(CHUNKS), component_named("object_store")
    assert judged(part, program_of(store.normative, store.config)) == (Verdict.PROVED, "")
    monkeypatch.setattr(writer, "reserve", reserving_by_itself)
    verdict, detail = judged(part, program_of(store.normative, store.config))
    assert verdict is Verdict.REFUTED
    assert "makes a state of ring by itself" in detail
