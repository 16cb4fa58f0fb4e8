"""transformers==5.24.0: several outputs of a prompt of one token end the engine.

A request with several outputs keeps its last token for after the fork. A prompt of one token is therefore scheduled
with no tokens at all, and a batch with nothing else fails in the model. The generation loop ends with all requests.
The same happens with a longer prompt of which all but the last token is cached.

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

config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
manager = LlamaForCausalLM(config).init_continuous_batching(
    generation_config=GenerationConfig(eos_token_id=-1, do_sample=True, num_return_sequences=2),
    continuous_batching_config=ContinuousBatchingConfig(
        page_size=4, num_blocks=64, max_batch_tokens=64, max_memory_percent=0.5
    ),
)
manager.start()
manager.add_request([1], max_new_tokens=6)
output = manager.get_result(timeout=60)
error = manager.background_thread_status.fatal_error
if error is not None:
    print(f"VIOLATED: the generation loop ended: {str(error).splitlines()[0]}", flush=True)
else:
    print("NOT SHOWN: the generation loop goes on", flush=True)
os._exit(error is not None)
