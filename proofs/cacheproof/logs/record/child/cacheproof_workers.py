"""Writes what the workers of an engine do with each plan: slots that are written, blocks, and encoder outputs.

The plugin `cacheproof_recorder` imports it. The journal `workers` has, of each plan with tokens, the rows of the batch,
the encoder outputs that were computed and read, and the blocks whose memory has changed.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

BESIDE = f"{__package__}." if __package__ else ""
recorder: Any = importlib.import_module(f"{BESIDE}cacheproof_recorder")
steps: Any = importlib.import_module(f"{BESIDE}cacheproof_steps")
Event = dict[str, Any]
Journal = Any

RUNNER = "vllm.v1.worker.gpu_model_runner"
MOST_WATCHED_BLOCKS = 4096
"""Blocks of a pool whose memory is watched. Larger pools are not: it would take too long."""
ANOTHER = 2
"""Of an encoder output that is read: it is not the one that was kept under the name."""
WORD = 4
"""Bytes of a number in a cache that is watched."""


class Work:
    """What is written of a worker: one event for each plan with tokens."""

    def __init__(self) -> None:
        self.event: Event = {}
        self.memory: Any = None
        self.kept: dict[str, int] = {}
        """The identity of each encoder output when it was kept."""

    def journal(self, runner: Any) -> Journal:
        """That of the worker, which begins with its first step."""
        known: Journal | None = vars(runner).get("cacheproof_journal")
        if known is None:
            groups = runner.kv_cache_config.kv_cache_groups
            size = groups[0].kv_cache_spec.block_size if len(groups) == 1 else 0
            known = recorder.Journal("workers", {"release": recorder.release(), "block_size": size})
            runner.cacheproof_journal = known
            self.memory = self.digests(runner)
        return known

    def rows(self, runner: Any, plan: Any) -> None:
        """Of each row of the batch: name, first position, input tokens, slots that are written, and its blocks."""
        batch, place, rows = runner.input_batch, 0, list[Any]()
        table = batch.block_table.block_tables[0]
        slots, inputs = table.slot_mapping.cpu.tolist(), runner.input_ids.cpu
        positions = runner.positions
        for row, name in enumerate(batch.req_ids):
            count = plan.num_scheduled_tokens[name]
            part = slice(place, place + count)
            first = int(positions[place])
            blocks = -(-(first + count) // table.block_size)
            tokens = inputs[part].tolist()
            rows.append([name, first, tokens, slots[part], table.block_table.np[row, :blocks].tolist()])
            place += count
        self.event["rows"] = rows

    def digests(self, runner: Any) -> Any:
        """A number for the memory of each block in the first layer; None if it cannot be watched."""
        caches = getattr(runner, "kv_caches", None) or [None]
        cache, count = caches[0], runner.kv_cache_config.num_blocks
        if getattr(getattr(cache, "device", None), "type", "") != "cpu" or count > MOST_WATCHED_BLOCKS:
            return None
        axis = next((axis for axis in range(2) if axis < cache.dim() and cache.shape[axis] == count), None)
        if axis is None or cache.element_size() != WORD:
            return None
        words = cache.movedim(axis, 0).contiguous().numpy().reshape(count, -1).view("int32").astype("int64")
        return words.cumsum(1).sum(1)

    def changed(self, runner: Any) -> None:
        """The blocks whose memory is not what it was after the step before."""
        now = self.digests(runner)
        if now is not None and self.memory is not None:
            self.event["changed"] = (now != self.memory).nonzero()[0].tolist()
        self.memory = now


def record_worker() -> None:
    """Wrap what runs the model."""
    cls: Any = importlib.import_module(RUNNER).GPUModelRunner
    work = Work()
    prepare, execute = cls._prepare_inputs, cls.execute_model
    keep, find, batch = (
        cls._cache_encoder_output,
        cls._get_encoder_output_from_cache,
        cls._batch_mm_inputs_from_scheduler,
    )

    @functools.wraps(prepare)
    def prepared(self: Any, plan: Any, *given: Any, **named: Any) -> Any:
        made = prepare(self, plan, *given, **named)
        recorder.guarded(work.journal(self), work.rows, self, plan)
        return made

    @functools.wraps(batch)
    def batched(self: Any, *given: Any, **named: Any) -> Any:
        made = batch(self, *given, **named)
        names, data = made[0], [one for _, one in made[1]]
        work.event["inputs"] = [[name, steps.digest_of(one)] for name, one in zip(names, data)]  # noqa: B905  # of equal length
        return made

    @functools.wraps(keep)
    def kept(self: Any, name: str, *given: Any, **named: Any) -> Any:
        work.event.setdefault("encoded", []).append(name)
        made = keep(self, name, *given, **named)
        work.kept[name] = id(self.encoder_cache.get(name))
        return made

    @functools.wraps(find)
    def found(self: Any, name: str) -> Any:
        there = find(self, name)
        what = 0 if there is None else 1 if work.kept.get(name, id(there)) == id(there) else ANOTHER
        work.event.setdefault("read", []).append([name, what])
        return there

    @functools.wraps(execute)
    def executed(self: Any, plan: Any, *given: Any, **named: Any) -> Any:
        journal = work.journal(self)
        work.event = {}
        try:
            result = execute(self, plan, *given, **named)
        except BaseException as error:
            work.event["failed"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            if plan.total_num_scheduled_tokens and journal.is_open:
                recorder.guarded(journal, work.changed, self)
                work.event["outputs"] = len(self.encoder_cache)
                step = getattr(plan, "cacheproof_step", None)
                journal.write({"op": "work", **work.event, **({} if step is None else {"step": step})})
        return result

    cls._prepare_inputs, cls.execute_model = prepared, executed
    cls._batch_mm_inputs_from_scheduler, cls._cache_encoder_output = batched, kept
    cls._get_encoder_output_from_cache = found
