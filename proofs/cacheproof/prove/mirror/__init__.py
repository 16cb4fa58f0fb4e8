"""Proofs about the mirror: its links as terms, what always holds of them, and that every request is answered."""
