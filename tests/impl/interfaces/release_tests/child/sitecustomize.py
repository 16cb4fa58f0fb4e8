"""Python runs this at its start: torchvision finds two operators that its compiled part would define."""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from typing import Any

OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class Definer(importlib.abc.MetaPathFinder):
    """Finds nothing, and is asked once."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Define the operators if torchvision is wanted."""
        del path, target
        if name == "torchvision":
            sys.meta_path.remove(self)
            torch: Any = importlib.import_module("torch")
            for operator in OPERATORS:
                torch.library.define(f"torchvision::{operator}", SIGNATURE)


sys.meta_path.insert(0, Definer())
