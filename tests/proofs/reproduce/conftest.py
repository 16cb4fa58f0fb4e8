"""The book of one record that the tests of `results` have, too."""

from __future__ import annotations

from tests.proofs.results.conftest import book

__all__ = ["book"]
