"""Everything that is to be seen on a device, in one call: checks of the implementation, and figures of its speed.

`listing.py` says which checks and figures there are, `running.py` performs them one by one, and `tensor/` has them.
"""
