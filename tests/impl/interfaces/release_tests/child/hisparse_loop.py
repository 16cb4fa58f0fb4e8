"""vLLM 0.33.0's scheduler with its HiSparse connector under random loads: `hisparse_loop.py FIRST COUNT`.

It stands alone: the Python of a release's environment runs it, in the folder of the source package. Each load runs with
the release's managers, with ours under the rules of its era, and with ours under the normative rules. Workers are made
up and have memory, so a wrong row that is read is noticed. It prints what came of the runs as JSON.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))
workers: Any = importlib.import_module("hisparse_worker")
utils: Any = importlib.import_module("tests.v1.core.utils")
specs: Any = importlib.import_module("vllm.v1.kv_cache_interface")
hashing: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
outputs: Any = importlib.import_module("vllm.v1.outputs")
requests: Any = importlib.import_module("vllm.v1.request")
CONNECTOR = "vllm.distributed.kv_transfer.kv_connector.v1.hisparse.connector"

PAGE, LONGEST, BUDGET, STEPS, LAST = 16, 256, 48, 60, 600
SIZES = ((60, 40), (45, 30), (80, 24))
"""Blocks of the device and of the host."""
SHA: Any = importlib.import_module("vllm.utils.hashing").sha256
MODEL = '{"architectures": ["OPTForCausalLM"], "model_type": "opt"}'


def config_of(device: int, host: int) -> Any:
    """Groups of a model with sparse attention."""
    full = specs.FullAttentionSpec(
        block_size=PAGE, num_kv_heads=1, head_size=1, dtype=importlib.import_module("torch").float32
    )
    roles, group = specs.KVCacheGroupRole, specs.KVCacheGroupSpec
    pages = specs.HiSparseResidentSpec(block_size=PAGE, page_size=64)
    region = specs.HiSparseHotSpec(block_size=PAGE, page_size=64, blocks_per_request=2)
    groups = [
        group(["source"], full, role=roles.HISPARSE_SOURCE, host_resident=True),
        group(["indexer"], full, role=roles.HISPARSE_INDEXER),
        group(["resident"], pages, enable_kv_transfer=False),
        group(["hot"], region, enable_kv_transfer=False),
    ]
    return specs.KVCacheConfig(
        num_blocks=device, hisparse_host_num_blocks=host, kv_cache_tensors=[], kv_cache_groups=groups
    )


def scheduler_of(kind: Any, model: str, sizes: tuple[int, int], rules: str | None) -> Any:
    """A scheduler with the release's connector."""
    made = utils.create_scheduler(
        model=model,
        skip_tokenizer_init=True,
        max_model_len=LONGEST,
        max_num_batched_tokens=BUDGET,
        enable_prefix_caching=True,
        block_size=PAGE,
        num_blocks=sizes[0],
        max_num_seqs=5,
    )
    config = made.vllm_config
    config.kv_transfer_config = importlib.import_module("vllm.config").KVTransferConfig(
        kv_connector="HiSparseConnector", kv_role="kv_both", kv_connector_extra_config={"host_pool_gib": 1}
    )
    config.additional_config = {} if rules is None else {"cacheimpl": {"rules": rules}}
    manager = importlib.import_module("vllm.v1.structured_output").StructuredOutputManager(config)
    return kind(
        vllm_config=config,
        kv_cache_config=config_of(*sizes),
        block_size=PAGE,
        hash_block_size=PAGE,
        log_stats=True,
        structured_output_manager=manager,
    )


class Loop:
    """One run: requests come and are aborted, steps are planned and executed, transfers are made late."""

    def __init__(self, scheduler: Any, seed: int) -> None:
        self.scheduler, self.draw = scheduler, random.Random(seed)
        self.coordinator: Any = scheduler.connector.connector_scheduler.coordinator
        self.workers = [workers.Worker(PAGE, 1, random.Random(seed + number), 2) for number in range(2)]
        self.live: dict[str, Any] = {}
        self.number = 0
        self.plans: list[Any] = []
        self.counts = Counter[str]()

    def run(self) -> str:
        """All steps. Returns the first problem, or nothing."""
        for step in range(STEPS + LAST):
            if step >= STEPS and not self.scheduler.has_requests():
                break
            self._step(last=step >= STEPS)
            found = [problem for worker in self.workers for problem in worker.problems]
            if found:
                return str(found[0])
        pools = (self.scheduler.kv_cache_manager.block_pool, self.coordinator.get_host_block_pool())
        held = [pool.num_gpu_blocks - 1 - pool.get_num_free_blocks() for pool in pools]
        return f"{held} blocks are held at the end" if any(held) or self.live else ""

    def _arrive(self) -> None:
        if len(self.live) > 8 or self.draw.random() > 0.5:
            return
        family, length = self.draw.randrange(3), self.draw.randint(1, 200)
        tokens = [1000 * family + number for number in range(length)]
        if self.draw.random() < 0.3:
            tokens[self.draw.randrange(length)] += 500
        sampling = importlib.import_module("vllm.sampling_params").SamplingParams(
            max_tokens=self.draw.randint(1, 20), ignore_eos=True
        )
        sampling.update_from_generation_config({}, utils.EOS_TOKEN_ID)
        request = requests.Request(
            request_id=f"r{self.number}",
            prompt_token_ids=tokens,
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=hashing.get_request_block_hasher(PAGE, SHA),
        )
        self.number += 1
        self.live[request.request_id] = request
        self.scheduler.add_request(request)

    def _step(self, *, last: bool) -> None:
        if not last:
            self._arrive()
            if self.live and self.draw.random() < 0.04:
                name = self.draw.choice(sorted(self.live))
                self.scheduler.finish_requests(name, requests.RequestStatus.FINISHED_ABORTED)
                del self.live[name]
                self.counts["aborted"] += 1
        planned = self.scheduler.schedule()
        told = planned.kv_connector_metadata
        self.plans.append((dict(sorted(planned.num_scheduled_tokens.items())), len(told.command.page_transfers)))
        self.counts["host_reads"] += bool(planned.num_scheduled_tokens) and not told.all_context_pages_resident
        begun, completed = self._executed(planned, told, last=last)
        self.scheduler.update_from_output(planned, self._output(planned, begun, completed))
        for name, request in list(self.live.items()):
            if request.is_finished():
                self.counts.update(served=1, preempted=request.num_preemptions)
                del self.live[name]

    def _executed(self, planned: Any, told: Any, *, last: bool) -> tuple[Counter[int], Counter[int]]:
        """The workers execute the step. Returns what they report of transfers."""
        cached = planned.scheduled_cached_reqs
        starts = {its.req_id: its.num_computed_tokens for its in planned.scheduled_new_reqs}
        starts.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        again = {its.req_id for its in planned.scheduled_new_reqs} | set(cached.resumed_req_ids)
        parts = []
        for name, count in planned.num_scheduled_tokens.items():
            tokens = list(self.live[name].all_token_ids[: starts[name] + count])
            host = self.scheduler.kv_cache_manager.get_block_ids(name)[0]
            hot = all(its.has_hot(name) for its in self.coordinator.hot_managers)
            parts.append(workers.Part(name, tokens, starts[name], host, hot))
        mirrors = [mirror for its in told.row_mirrors.values() for mirror in its]
        step = workers.Step(parts, told.command.page_transfers, mirrors, told.residency_updates, again)
        self.ends = {part.name: len(part.tokens) for part in parts}
        begun = [worker.run(step) for worker in self.workers]
        reported: tuple[Counter[int], Counter[int]] = workers.reported(
            begun, [worker.complete(all_of_them=last) for worker in self.workers]
        )
        return reported

    def _output(self, planned: Any, begun: Counter[int], completed: Counter[int]) -> Any:
        """One token for each request whose known tokens are computed."""
        names = list(planned.num_scheduled_tokens)
        known = [len(self.live[name].all_token_ids) for name in names]
        tokens = [
            [7_000_000 + count] if self.ends[name] >= count else [] for name, count in zip(names, known, strict=True)
        ]
        reported: Any = None
        if begun or completed:
            connector = importlib.import_module(CONNECTOR)
            reported = connector.HiSparseConnectorWorkerMetadata(dict(begun), dict(completed))
        return outputs.ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: number for number, name in enumerate(names)},
            sampled_token_ids=tokens,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
            kv_connector_output=outputs.KVConnectorOutput(kv_connector_worker_meta=reported),
        )


def main() -> None:
    """Run the loads, and print what came of them."""
    first, count = map(int, sys.argv[1:])
    theirs = importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler
    ours = importlib.import_module("cacheimpl.vllm").Scheduler
    hashing.init_none_hash(SHA)
    counts, problems, different = Counter[str](), list[str](), list[str]()
    with tempfile.TemporaryDirectory() as model:
        Path(model, "config.json").write_text(MODEL, encoding="utf-8")
        for seed in range(first, first + count):
            for sizes in SIZES:
                plans = {}
                for rules, kind in ((None, theirs), ("KV_2026_11", ours), ("NORMATIVE", ours)):
                    loop = Loop(scheduler_of(kind, model, sizes, rules), seed)
                    module = type(loop.coordinator).__module__
                    assert module.startswith("vllm." if rules is None else "cacheimpl."), module
                    problem = loop.run()
                    if problem:
                        problems.append(f"seed {seed}, blocks {sizes}, {rules or 'the release'}: {problem}")
                    plans[rules] = loop.plans
                    counts.update(loop.counts)
                if plans[None] != plans["KV_2026_11"]:
                    different.append(f"seed {seed}, blocks {sizes}")
                counts["loads"] += 1
    print(json.dumps({"counts": counts, "problems": problems, "different": different}))


if __name__ == "__main__":
    main()
