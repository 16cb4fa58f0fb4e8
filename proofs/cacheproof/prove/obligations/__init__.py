"""Claims about each component for all sizes: one module for each component, found by scanning."""
