"""A cache by recency, limited in bytes, as a project may have one; and the same with a bug."""

from collections import OrderedDict


class RecencyCache:
    """The newest key is the last one of `sizes`."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.sizes: OrderedDict[str, int] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self.sizes

    @property
    def used(self) -> int:
        return sum(self.sizes.values())

    def touch(self, name: str) -> bool:
        """Whether the key was there; it is the newest now."""
        if name in self.sizes:
            self.sizes.move_to_end(name)
        return name in self.sizes

    def store(self, name: str, size: int) -> bool:
        """Whether it was stored: what is larger than the cache is not."""
        if size > self.capacity:
            return False
        while self.used - self.sizes.get(name, 0) + size > self.capacity:
            self.sizes.popitem(last=False)
        self.sizes[name] = size
        self.sizes.move_to_end(name)
        return True

    def drop(self, name: str) -> bool:
        """Whether the key was there."""
        return self.sizes.pop(name, None) is not None


class ForgetfulCache(RecencyCache):
    """With a bug: a key that is stored again stays as old as it was."""

    def store(self, name: str, size: int) -> bool:
        if name in self.sizes and self.used - self.sizes[name] + size <= self.capacity:
            self.sizes[name] = size
            return True
        return super().store(name, size)
