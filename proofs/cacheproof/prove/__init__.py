"""Proofs for all sizes, and bounded confirmations."""
