"""`transformers==X`: the paged cache of a released Transformers, held to what it shows of `kv_blocks`.

Its continuous batching shares prefixes by the hash of full blocks, merges copies when a block is complete, and evicts
all that nobody uses at once.
"""
