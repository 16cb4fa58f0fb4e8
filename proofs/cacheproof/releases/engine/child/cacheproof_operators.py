"""Operators that torchvision's Python part declares shapes for, and that only its compiled part defines.

Imported at the start of Python by a `.pth` file of the environment. torch is imported only if torchvision is.
"""

import importlib
import importlib.abc
import sys
from typing import Any

SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class Definer(importlib.abc.MetaPathFinder):
    """Finds no module. It acts once, before torchvision is imported."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        """Define the operators if torchvision is wanted."""
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            library: Any = importlib.import_module("torch.library")
            for name in ("nms", "qnms"):
                library.define(f"torchvision::{name}", SIGNATURE)


sys.meta_path.insert(0, Definer())
