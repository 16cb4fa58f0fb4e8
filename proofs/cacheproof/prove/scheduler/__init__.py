"""Proofs about the scheduler: its rounds, queues, caches and requests as terms."""
