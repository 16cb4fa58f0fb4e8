"""`torch` with bursts: what a target with macros calls for many requests at once.

A module here has the component's name, and a function `open_bursts(device) -> BurstTarget`.
"""
