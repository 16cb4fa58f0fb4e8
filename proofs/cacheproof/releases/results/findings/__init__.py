"""Findings in released schedulers: one file for each has what is its own, and how its script ends on which release."""
