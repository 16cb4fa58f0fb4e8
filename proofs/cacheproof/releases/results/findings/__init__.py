"""Findings in released schedulers: one file for each has its calls, and how its script ends on which release."""
