"""A trace the way a person or a tool wants to look at it."""
