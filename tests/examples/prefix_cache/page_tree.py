"""A prefix cache in pages: equal pages behind equal pages are one page, and the least recently used leaf goes first.

`bug` plants a bug for tests.
"""

Key = tuple[int, ...]


class PageTree:
    """Pages by the tokens up to their end, the least recently used first."""

    def __init__(self, pages: int, size: int, bug: str = "") -> None:
        self.size, self.bug = size, bug
        self.free = [1000 + page for page in range(pages)]
        self.pages: dict[Key, int] = {}
        self.users: dict[int, int] = {}

    def match(self, tokens: Key) -> list[int]:
        """The pages of the longest cached prefix of these tokens; finding them is a use."""
        keys = [tokens[:end] for end in range(self.size, len(tokens) + 1, self.size)]
        found: list[Key] = []
        for key in keys:
            if key not in self.pages:
                break
            found.append(key)
        if self.bug == "finds a page that is full of other tokens":
            begun = tokens[: len(found) * self.size + 1]
            found += [key for key in self.pages if len(key) > len(begun) and key[: len(begun)] == begun][:1]
        found = found[:-1] if self.bug == "stops one page early" and len(found) > 1 else found
        for key in found if self.bug != "forgets that a hit is a use" else ():
            self.pages[key] = self.pages.pop(key)
        return [self.pages[key] for key in found]

    def lock(self, pages: list[int], by: int) -> None:
        for page in pages:
            self.users[page] = self.users.get(page, 0) + by

    def take(self, count: int) -> list[int] | None:
        """So many pages, after evicting as few as needed; None if there are too few."""
        spare = 1 if self.bug == "evicts though there is room" else 0
        while len(self.free) < count + spare and self.bug != "does not evict" and self.evict():
            pass
        if len(self.free) < count:
            return None
        taken, self.free = self.free[:count], self.free[count:]
        return taken

    def evict(self) -> bool:
        keys = list(self.pages)
        for key in reversed(keys) if self.bug == "evicts the newest leaf" else keys:
            used = self.users.get(self.pages[key], 0) and self.bug != "reuses a page that a request uses"
            if not used and not any(other[: len(key)] == key for other in keys if other != key):
                self.free.append(self.pages.pop(key))
                return True
        return False

    def insert(self, tokens: Key, pages: list[int]) -> list[int]:
        """The full pages can be found; what was there already stays, and the page for it is free."""
        kept = list(pages)
        for place in range(len(tokens) // self.size):
            key = tokens[: (place + 1) * self.size]
            there = self.pages.get(key)
            if self.bug != "forgets that a hit is a use":
                self.pages.pop(key, None)
            self.pages[key] = pages[place] if there is None else there
            if there is not None and there != pages[place]:
                kept[place] = there
                if self.bug != "leaks the page that was there already":
                    self.free.append(pages[place])
        return kept
