"""What is proved of each component's tensor code: one module for each, found by scanning."""
