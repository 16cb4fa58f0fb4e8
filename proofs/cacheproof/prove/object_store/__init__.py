"""Proofs about the object store: its handles, its workers and its laws as terms."""
