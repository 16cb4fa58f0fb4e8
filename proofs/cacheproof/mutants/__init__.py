"""Mutants of the normative transitions: do the properties and the witnesses notice a small change?

`changes` and `statements` say which changes there are, `generate` makes the mutants of a component from its source,
`judge` explores one, `campaign` many, `ledger` knows those that may survive.
"""
