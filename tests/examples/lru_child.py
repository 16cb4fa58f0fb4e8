"""A small cache by recency that speaks the line protocol, with a planted bug: putting a key again leaves its age.

    cacheproof fuzz lru --target "exec:python tests/examples/lru_child.py"

finds it; with `--correct` behind the file's name there is nothing to find.
"""

import json
import sys
from collections import OrderedDict

CORRECT = "--correct" in sys.argv


class Cache:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.sizes: OrderedDict[int, int] = OrderedDict()  # oldest first
        self.pinned: set[int] = set()
        self.hits = self.total = 0
        self.reported = (0, 0)

    def put(self, key: int, size: int) -> str:
        if size > self.capacity:
            return "too_large"
        if sum(self.sizes[other] for other in self.pinned - {key}) + size > self.capacity:
            return "refused"
        while sum(self.sizes.values()) - self.sizes.get(key, 0) + size > self.capacity:
            del self.sizes[next(other for other in self.sizes if other not in self.pinned)]
        self.pinned &= set(self.sizes)
        known = key in self.sizes
        self.sizes[key] = size
        if CORRECT or not known:  # the planted bug: a key that was there stays as old as it was
            self.sizes.move_to_end(key)
        return "done"

    def call(self, op: str, key: int = -1, size: int = 0) -> tuple[str, list[int]]:
        known = key in self.sizes
        if op == "put":
            return self.put(key, size), []
        if op == "stat":
            before, self.reported = self.reported, (self.hits, self.total)
            return "done", [self.hits - before[0], self.total - before[1]]
        if op == "clear":
            self.__init__(self.capacity)  # type: ignore[misc]  # begins again in place
            return "done", []
        if op == "contains":
            return "hit" if known else "miss", []
        if op == "get" or (op == "lookup" and known):
            self.hits, self.total = self.hits + known, self.total + 1
        if not known:
            return "miss" if op == "get" else "absent", []
        if op == "pop":
            del self.sizes[key]
            self.pinned.discard(key)
        elif op == "pin":
            self.pinned.add(key)
        else:
            self.sizes.move_to_end(key)
        return "hit" if op in ("get", "lookup") else "done", []

    def shown(self) -> dict[str, object]:
        used = sum(self.sizes.values())
        return {"order": [*self.sizes], "sizes": [*self.sizes.values()], "used": used}


cache = Cache(0)
for line in sys.stdin:
    asked = json.loads(line)
    do = asked.pop("do")
    answer: dict[str, object] = {"answer": "hello", "protocol": "1.0"} if do == "hello" else {"answer": "state"}
    if do in ("init", "reset"):
        cache = Cache(asked.get("capacity", cache.capacity))
    if do == "apply":
        code, values = cache.call(**asked)
        answer = {"answer": "outcome", "code": code, "values": values}
    print(json.dumps(answer | (cache.shown() if do != "hello" else {})), flush=True)
    if do == "bye":
        break
