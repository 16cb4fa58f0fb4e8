"""The script that an environment's Python runs: `python -I start.py SOURCE VERSION [--probe] [--first FOLDER]`.

It stands alone because the folder of `cacheproof` is not on the path of that Python, and must not be.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent)

if __name__ == "__main__":
    sys.path.insert(0, FOLDER)
    conversation = importlib.import_module("driver.conversation")
    sys.path.remove(FOLDER)
    sys.exit(conversation.main(sys.argv[1:]))
