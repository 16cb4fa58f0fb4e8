"""The same prefix cache as a child process that speaks the line protocol: `python page_tree_child.py [BUG]`."""

import json
import sys
from types import SimpleNamespace
from typing import Any

from page_tree_adapter import Adapter


def shown(cache: Adapter) -> dict[str, Any]:
    return {"free": list(cache.free()), "cached": cache.cached()}


def answer(cache: Any, asked: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if asked["do"] == "hello":
        return cache, {"answer": "hello", "protocol": "1.0", "claims": ["eviction_order"]}
    if asked["do"] == "init":
        tokens = [tuple(each) for each in asked["tokens"]]
        cache = Adapter(SimpleNamespace(tokens=tokens, block_size=asked["block_size"], blocks=asked["blocks"]))
        return cache, {"answer": "state", **shown(cache)}
    pages = getattr(cache, asked["op"])(asked["request"])
    code = "refused" if pages is None and asked["op"] == "admit" else "done"
    code = ("hit" if pages else "miss") if asked["op"] == "lookup" else code
    return cache, {"answer": "outcome", "code": code, "values": pages or [], **shown(cache)}


if __name__ == "__main__":
    Adapter.bug = " ".join(sys.argv[1:])
    cache = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "bye":
            break
        cache, said = answer(cache, asked)
        print(json.dumps(said), flush=True)
