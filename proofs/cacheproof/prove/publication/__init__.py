"""Proofs about the publication: its states, its loops and what holds between writer and readers."""
