"""What is claimed of each component for all sizes: one module for each, found by scanning."""
