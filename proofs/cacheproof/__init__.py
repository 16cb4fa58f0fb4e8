"""Why to believe it: checkers, targets and the oracle, all derived from the specification.

For tests of other projects: `tests_for` and `implements`; see `cacheproof.suite`.
"""

from cacheproof.suite import Suite, implements, tests_for

__all__ = ["Suite", "implements", "tests_for"]
