"""Which evidence detects which mutant: each kind of evidence is asked by itself about the same mutants.

`choice` draws the mutants, `evidence` names the kinds of evidence, `concrete` and `symbolic` ask them, `campaign` runs
many, `kept` has the tables that a page shows.
"""
