"""Findings as pages of HTML in the site: made while it is built, one for each trace that a page of the book links to.

They are not committed. In the repository a reader has the command in place of the link.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from cacheproof.catalogue.kept import shown_by
from cacheproof.foundation.errors import InputError
from cacheproof.model.trace import Violation
from cacheproof.present.book.pictures import place_named
from cacheproof.present.show.lookup import as_executed, recorded
from cacheproof.present.show.page import to_page

FOLDER = "traces"
"""Of the site."""

MOVES = 200
"""Calls to try on each page, so that hundreds of pages are made in seconds."""

SENTENCE = "As a page: `cacheproof show {0} --format html --output {0}.html`."
"""What the pages of the results say of a recorded violation, by its id; the page of the findings uses their names."""

WRITTEN = re.compile(re.escape(SENTENCE.format("ID")).replace("ID", r"(?P<id>\S+)", 1).replace("ID", "(?P=id)"))


class TracePages:
    """The traces that one page of the book links to. `files` are those of the site, to which theirs are added."""

    def __init__(self, config: Any, page: Any, files: Any) -> None:
        self.config, self.files = config, files
        self.source, self.kind = page.file.src_uri, type(page.file)

    def linked(self, markdown: str) -> str:
        """The text of the page with a link before each command that makes the page of a recorded violation.

        Raises InputError for a violation that no record has.
        """
        if WRITTEN.search(markdown) is None:
            return markdown
        known = recorded()

        def link(found: re.Match[str]) -> str:
            name = found["id"]
            if name not in known:
                raise InputError(f"{self.source}: no record has a violation '{name}'")
            address = self._address(name, lambda: as_executed(known[name]))
            return f"[As a page]({address}). With more calls to try:{found[0].partition(':')[2]}"

        return WRITTEN.sub(link, markdown)

    def of_diagram(self, words: str) -> str:
        """A link to the run of a diagram, by the words that name its place in the catalogue."""
        name = re.sub(r"[/@ ]+", "-", words.strip())
        return f"[This run as a page]({self._address(name, lambda: shown_by(place_named(words.split())))})"

    def _address(self, name: str, violation: Callable[[], Violation]) -> str:
        """Where its page is, seen from this one. Violations with the same id have the same calls, and one page."""
        address = f"{FOLDER}/{name}.html"
        if self.files.get_file_from_path(address) is None:
            self.files.append(self.kind.generated(self.config, address, content=to_page(violation(), MOVES)))
        return "../" * (len(PurePosixPath(self.source).parts) - 1) + address
