"""The book as a site: settings of mkdocs beyond `mkdocs.yml`. mkdocs loads this file by its path, as a hook.

The site works without a network. Diagrams are drawn here as SVG, where the pages have Mermaid for readers that draw it
themselves. Links to files outside the book become names of files, and public numbers (`#31404`) become links. Each
recorded violation and each diagram links to a page of its own.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from cacheproof.catalogue.kept import shown_by
from cacheproof.catalogue.register import address
from cacheproof.foundation.errors import InputError
from cacheproof.present.book.pictures import DRAWN, place_named
from cacheproof.present.book.trace_pages import TracePages
from cacheproof.present.show.svg import to_svg

INDEX = "index.md"
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
DIAGRAM = re.compile(
    re.escape(DRAWN).replace(r"\{\}", "(?P<words>[^>]*)") + r"\n```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL
)
FIGURE = '<figure class="diagram" tabindex="0">\n{}\n</figure>'
"""Diagrams have a size of their own, and scroll inside the column; `tabindex` lets the keyboard scroll them."""

NUMBER = re.compile(
    r"^ *(?P<fence>```+).*?^ *(?P=fence)$"  # code, links and comments are left as they are
    r"|`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\)|<!--.*?-->"
    r"|(?<![\w/'#&\[-])(?P<thread>(?:[A-Za-z][\w.-]*)?#\d{3,6})\b",
    re.MULTILINE | re.DOTALL,
)


def on_config(config: Any) -> Any:
    """Folders in the contents become the pages that they hold."""
    config["nav"] = _opened(config["nav"], Path(config["docs_dir"]))
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Public numbers as links, diagrams as pictures, findings as pages, and links out of the book as text."""
    source = page.file.src_uri
    linked = NUMBER.sub(lambda found: _number(found, source), markdown)
    traces = TracePages(config, page, files)
    drawn = DIAGRAM.sub(lambda found: _drawn(found["words"], traces), traces.linked(linked))
    folder = PurePosixPath(source).parent
    return LINK.sub(lambda found: _link(found, folder), drawn)


def _drawn(words: str, traces: TracePages) -> str:
    """A diagram, and under it the link to its run."""
    return f"{FIGURE.format(_svg(words))}\n\n{traces.of_diagram(words)}\n"


def _opened(contents: Any, docs: Path) -> Any:
    """The contents with a list of pages in place of each folder, its index first."""
    if isinstance(contents, list):
        return [_opened(entry, docs) for entry in contents]
    if isinstance(contents, dict):
        return {title: _opened(entry, docs) for title, entry in contents.items()}
    if not contents.endswith("/"):
        return contents
    pages = sorted((docs / contents).glob("*.md"), key=lambda path: (path.name != INDEX, path.name))
    return [path.relative_to(docs).as_posix() for path in pages]


def _number(found: re.Match[str], source: str) -> str:
    """A public number as a link to its thread; whatever else the pattern takes stays as it is."""
    thread = found["thread"]
    if thread is None:
        return found[0]
    try:
        return f"[{thread}]({address(thread)})"
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _svg(words: str) -> str:
    """The picture without empty lines, which would end a block of HTML."""
    return "\n".join(line for line in to_svg(shown_by(place_named(words.split()))).splitlines() if line.strip())


def _link(found: re.Match[str], folder: PurePosixPath) -> str:
    target = found["target"]
    if ":" in target or _inside(str(folder / target)):
        return found[0]
    name = target.removeprefix("../" * (1 + len(folder.parts)))
    return found["text"] if name in found["text"] else f"{found['text']} (`{name}`)"


def _inside(target: str) -> bool:
    """Whether a path that begins in the book's folder stays there."""
    depth = 0
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return True
