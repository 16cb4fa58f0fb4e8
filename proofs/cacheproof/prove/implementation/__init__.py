"""The tensor code in a solver: equal to the specification at stated shapes, for all numbers."""
