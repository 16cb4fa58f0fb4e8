"""transformers==5.24.0: the blocks that the last step of a request completes are never found again.

A request is finished before its complete blocks are marked, and marking returns at once for a finished request. So a
prompt that is computed in one chunk, with one token of output, leaves nothing in the cache.

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

PROMPT = list(range(1, 14))
BLOCKS = 3

config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
manager = LlamaForCausalLM(config).init_continuous_batching(
    generation_config=GenerationConfig(eos_token_id=-1, do_sample=False),
    continuous_batching_config=ContinuousBatchingConfig(
        page_size=4, num_blocks=64, max_batch_tokens=64, max_memory_percent=0.5
    ),
)
manager.start()
found = []
for outputs in (1, 2):
    manager.add_request(PROMPT, max_new_tokens=outputs)
    manager.get_result(timeout=60)
    (allocator,) = manager.batch_processor.cache.cache_allocators.values()
    found.append(len(allocator.match_prefix_blocks([*PROMPT, 14])))
manager.stop(block=True)
if found[0] < BLOCKS:
    print(f"VIOLATED: of {BLOCKS} blocks, {found[0]} are found after 1 output and {found[1]} after 2", flush=True)
else:
    print("NOT SHOWN: all blocks are found", flush=True)
os._exit(found[0] < BLOCKS)
