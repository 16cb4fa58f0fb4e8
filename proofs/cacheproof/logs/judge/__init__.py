"""Judges a recorded engine step by step: was the control plane right, and if not, which line decided it?

`verdict.py` asks four judges, and the earliest wrong step counts. `following.py` holds the scheduler to its era, with
the block numbers and the free queue. `ledger.py` knows what each slot of KV holds and each encoder cache entry shows,
and holds the workers to it. The calls of the two cache managers are validated as logs.
"""
