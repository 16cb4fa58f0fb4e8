"""`torch[:DEVICE]`: our own implementation on tensors, held to the specification."""

from __future__ import annotations
