"""The tensor explorer: our own tensor code, run on every reachable state of a scope."""

from cacheproof.search.tensor.refinement import Refinement, compare
from cacheproof.search.tensor.search import ENGINE, TensorSearch, cannot, explore, judges_progress, prepare

__all__ = ["ENGINE", "Refinement", "TensorSearch", "cannot", "compare", "explore", "judges_progress", "prepare"]
