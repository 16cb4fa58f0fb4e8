"""What `torch` is for a component whose implementation has no operations on tensors: its classes, on the host.

A module here has the component's name, and a function `open_face() -> Target`. They are held to the specification like
any target; there is no state to be packed, so the tensor explorer has nothing to do with them.
"""
