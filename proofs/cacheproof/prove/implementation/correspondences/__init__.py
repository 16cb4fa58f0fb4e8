"""Claims about each component's tensor code: one module for each component, found by scanning."""
