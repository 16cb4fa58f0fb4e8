"""How sharp the oracle is: one method of a released package is broken at a time, and lockstep has to find it."""
