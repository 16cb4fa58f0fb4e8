"""Contracts that CrossHair confirms up to a bound: one module for each component, found by scanning.

Each module has a `LEDGER`: every function with a contract by name, and the bound up to which it is confirmed.
"""
