"""transformers==5.24.0: a cancellation makes all requests starve.

Two requests fill the cache, so one is put back and new ones are blocked until another finishes. The active one is
cancelled instead. Nothing is scheduled any more: neither the request that waits nor a new one, with an empty cache.

Needs Python with the release and torch, no accelerator. The model is made here, with random weights. Ends with 1 if it
is seen, 0 if not, 2 if the script cannot be run.
"""

import os
import sys
import traceback


def cannot_run(kind, error, where):
    traceback.print_exception(kind, error, where)
    print("CANNOT RUN: this script does not fit the installed package", flush=True)
    os._exit(2)


sys.excepthook = cannot_run

from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

SECONDS_WITHOUT_A_TOKEN = 10

config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
manager = LlamaForCausalLM(config).init_continuous_batching(
    generation_config=GenerationConfig(eos_token_id=-1, do_sample=False),
    continuous_batching_config=ContinuousBatchingConfig(
        page_size=4, num_blocks=64, max_batch_tokens=64, max_memory_percent=0.5
    ),
)
manager.start()
manager.add_request([1, 2, 3, 4], max_new_tokens=200, request_id="a", streaming=True)
manager.add_request([5, 6, 7, 8], max_new_tokens=200, request_id="b")
for output in manager:  # both grow until the 256 tokens of the cache are full: b is put back, and waits
    if len(output.generated_tokens) == 150:
        break
manager.cancel_request("a")
manager.add_request([9, 10, 11, 12], max_new_tokens=4, request_id="c")
served = set()
while (output := manager.get_result(timeout=SECONDS_WITHOUT_A_TOKEN)) is not None:
    served.add(output.request_id)
waiting = sorted({"b", "c"} - served)
if waiting:
    print(f"VIOLATED: requests {' and '.join(waiting)} are never served, and the cache is empty", flush=True)
else:
    print("NOT SHOWN: every request was served", flush=True)
os._exit(bool(waiting))
