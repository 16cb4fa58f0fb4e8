"""The command line: one module per verb, found by scanning this package.

A verb's name shadows what else has it here (`list` is a verb), so nothing but the entry point stands in this file.
"""

from cacheproof.command.frame import main

__all__ = ["main"]
