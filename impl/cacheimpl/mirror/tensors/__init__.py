"""The protocol of the mirror on tensors: the same rules as the classes, one sender and its partition at a time."""
