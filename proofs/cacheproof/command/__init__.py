"""The command line: one module per verb, found by scanning this package."""
