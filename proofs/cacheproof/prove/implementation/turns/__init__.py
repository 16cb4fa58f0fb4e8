"""Any number of turns: a burst is the calls one after the other, by induction over its turns.

`tracing` makes one graph that stands for every number of turns, `turn` runs it for one turn of many, `induction` asks
the solver, and each module of `bursts` declares the bursts of a component.
"""
