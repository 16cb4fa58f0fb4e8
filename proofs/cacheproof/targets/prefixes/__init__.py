"""Packages that keep prefixes in pages in a way of their own, held to what they show of `kv_blocks`.

Their calls are not those of the KV cache manager, call by call. What can be compared is what a caller sees: the longest
cached prefix, the capacity, and that no page is in two places. A family says where its modules are and has a driver;
the walk, the ledger and the installation are here.
"""
