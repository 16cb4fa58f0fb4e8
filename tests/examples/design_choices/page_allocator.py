"""A page allocator written as many are: a stack of free pages, and a dictionary from content to page.

The page that was freed last is handed out first. A page that is full replaces the earlier copy of its content in the
dictionary. Nothing guards against callers that name a request twice, too many tokens, or pages of another content.
"""


class PageAllocator:
    """Pages and contents are integers; a request is any key."""

    def __init__(self, pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.free = list(range(pages - 1, -1, -1))
        self.users: dict[int, int] = {}
        self.tables: dict[int, list[int]] = {}
        self.page_of: dict[int, int] = {}
        self.content_of: dict[int, int] = {}
        self.full: dict[int, int] = {}

    def find(self, contents: list[int]) -> list[int]:
        """The pages of the longest prefix of these contents."""
        found = []
        for content in contents:
            if content not in self.page_of:
                break
            found.append(self.page_of[content])
        return found

    def extend(self, request: int, tokens: int, shared: list[int]) -> list[int] | None:
        """The new pages with which the request holds so many tokens; None if there are too few."""
        table = self.tables.get(request, [])
        missing = -(-tokens // self.page_size) - len(table) - len(shared)
        if missing > len(self.free) - sum(page not in self.users for page in shared):
            return None
        for page in shared:
            self.use(page)
        taken = []
        for _ in range(missing):
            page = self.free[-1]
            self.forget(page)
            self.use(page)
            taken.append(page)
        self.tables[request] = table + shared + taken
        self.full[request] = self.full.get(request, 0) or len(shared)
        return taken

    def fill(self, request: int, contents: list[int]) -> None:
        """The request's first pages hold these contents."""
        for place in range(self.full[request], len(contents)):
            page = self.tables[request][place]
            if contents[place] in self.page_of:
                self.forget(self.page_of[contents[place]])
            self.page_of[contents[place]], self.content_of[page] = page, contents[place]
        self.full[request] = max(self.full[request], len(contents))

    def release(self, request: int) -> None:
        """The request is gone."""
        del self.full[request]
        for page in self.tables.pop(request):
            self.users[page] -= 1
            if not self.users[page]:
                del self.users[page]
                self.free.append(page)

    def use(self, page: int) -> None:
        """One request more holds the page."""
        if page not in self.users:
            self.free.remove(page)
        self.users[page] = self.users.get(page, 0) + 1

    def forget(self, page: int) -> None:
        """The page cannot be found any more."""
        if page in self.content_of:
            del self.page_of[self.content_of.pop(page)]
