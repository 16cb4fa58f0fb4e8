"""`sglang==X`: the radix cache and the page allocators of a released SGLang, held to what they show of `kv_blocks`.

SGLang keeps prefixes in a tree and evicts leaves, so its calls are not those of the KV cache manager, call by call.
What can be compared is what a caller sees: the longest cached prefix, the capacity, and that no page is in two places.
"""
