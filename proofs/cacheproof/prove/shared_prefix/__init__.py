"""Proofs about the shared prefix: its loops, and what stands in for parts of it."""
