"""Contracts and pairs about the implementation in plain Python, by component: each has a `LEDGER` and may have `PAIRS`.

CrossHair runs a function of `cacheimpl` and one of the specification on the same symbolic integers, along every path.
"""
