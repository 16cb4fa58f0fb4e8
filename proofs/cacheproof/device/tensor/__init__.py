"""The checks of a device: what they compare and find different, they raise as `DifferenceError`, one line each."""
