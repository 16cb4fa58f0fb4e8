"""The tensor explorer: our own tensor code, run on every reachable state of a scope."""

from cacheproof.search.tensor.refinement import Refinement, compare
from cacheproof.search.tensor.search import ENGINE, Search, cannot, explore

__all__ = ["ENGINE", "Refinement", "Search", "cannot", "compare", "explore"]
