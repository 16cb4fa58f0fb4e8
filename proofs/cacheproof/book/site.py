"""The book as a site: what mkdocs is told beyond `mkdocs.yml`. It loads this file by its path, as a hook.

The site works without a network and without scripts: diagrams are drawn here as SVG, where the pages have Mermaid for
places that draw it themselves. The order of the pages is that of the links in `index.md`. Links to files outside the
book become names of files.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from cacheproof.book.pictures import DRAWN, place_named
from cacheproof.catalogue.kept import shown_by
from cacheproof.show.svg import to_svg

INDEX = "index.md"
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
DIAGRAM = re.compile(
    re.escape(DRAWN).replace(r"\{\}", "(?P<words>[^>]*)") + r"\n```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL
)


def on_config(config: Any) -> Any:
    """The contents of the index are the contents of the site."""
    folder = Path(config["docs_dir"])
    targets = (found["target"] for found in LINK.finditer((folder / INDEX).read_text(encoding="utf-8")))
    pages = [target for target in dict.fromkeys(targets) if target.endswith(".md") and (folder / target).is_file()]
    config["nav"] = [INDEX, *(page for page in pages if _inside(page))]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Diagrams as pictures; links that lead out of the book as text."""
    drawn = DIAGRAM.sub(lambda found: f"<figure>\n{_svg(found['words'])}\n</figure>", markdown)
    folder = PurePosixPath(page.file.src_uri).parent
    return LINK.sub(lambda found: _link(found, folder), drawn)


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
