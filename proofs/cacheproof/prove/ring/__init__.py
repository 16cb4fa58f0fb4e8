"""Proofs about the ring: its memory, its chunks and the functions that walk over them, as terms."""
