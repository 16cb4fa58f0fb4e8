"""Records what the real managers of a released vLLM do, as logs that `validate` reads.

`child/cacheproof_recorder.py` runs inside the engine, loaded by its own plugin entry point, and writes events in the
engine's words: names of requests, hashes, numbers of blocks. `engine.py` starts the engine so that it finds the
plugin; `events.py` reads the events, and `kv_blocks.py` and `encoder_cache.py` put them into the words of the
specification.
"""
