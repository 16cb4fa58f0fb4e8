"""What the plugin and its tests both name: the seed of a run, and the properties of tests about rules."""

from __future__ import annotations

import pytest

SEED = pytest.StashKey[int]()

RULE = "cacheproof_rule "
"""How the property of a test begins that says whether it has shown a declared rule; the suite and the rule follow."""
SHOWN = {True: "shown", False: "not shown"}
