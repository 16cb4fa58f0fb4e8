"""transformers==5.24.0: a cancellation with a batch in flight ends the engine.

With asynchronous batching, the table of a cancelled request is freed while its batch is in flight. If that batch
completes a block, marking it raises KeyError. Asynchronous batching is for accelerators, so the released functions are
called here in the order of the generation loop.

Needs Python with the release and torch, no accelerator and no model. Ends with 1 if it is seen, 0 if not, 2 if the
script cannot be run.
"""

import os
import sys
import traceback


def cannot_run(kind, error, where):
    traceback.print_exception(kind, error, where)
    print("CANNOT RUN: this script does not fit the installed package", flush=True)
    os._exit(2)


sys.excepthook = cannot_run

import torch
from transformers import ContinuousBatchingConfig, LlamaConfig
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.distributed import DistributedHelper
from transformers.generation.continuous_batching.requests import RequestState
from transformers.generation.continuous_batching.scheduler import FIFOScheduler

model = LlamaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
settings = ContinuousBatchingConfig(page_size=4, num_blocks=8, max_batch_tokens=16, max_memory_percent=0.5)
cache = PagedAttentionCache(model, settings, torch.device("cpu"), DistributedHelper(None, None))
scheduler = FIFOScheduler(cache, safety_margin=None, max_requests_per_batch=4)
state = RequestState("a", [1, 2, 3, 4, 5])
scheduler.add_waiting_request(state)
[batch] = scheduler.schedule_batch(16, cache.max_tokens_read)[0]  # prepare_next_batch: batch 1 is launched
state.position_offset += batch.query_length  # as prepare_batch_tensors does
scheduler.set_request_cancellation("a")  # cancel_request, while batch 1 is computed
scheduler.clear_cancelled_requests()  # prepare_next_batch: batch 2 comes without the request
try:
    cache.mark_complete_blocks(state, batch.complete_blocks)  # update_batch: the output of batch 1
except KeyError as error:
    print(f"VIOLATED: the output of the cancelled request raises KeyError: {error}", flush=True)
    os._exit(1)
print("NOT SHOWN: the output of the cancelled request is taken", flush=True)
os._exit(0)
