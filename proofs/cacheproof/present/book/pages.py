"""Pages: which there are, and whether their generated parts are what would be generated now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import text_of
from cacheproof.present.book.catalogue_page import catalogue_part, summary_part
from cacheproof.present.book.consecutive_page import consecutive_part
from cacheproof.present.book.detection_page import detection_part
from cacheproof.present.book.device_page import device_part
from cacheproof.present.book.features_page import features_part
from cacheproof.present.book.findings_page import findings_part
from cacheproof.present.book.layers import layers_picture, modules_part
from cacheproof.present.book.markers import Part, filled
from cacheproof.present.book.pictures import counterexample_part, trace_part
from cacheproof.present.book.planted_page import planted_part
from cacheproof.present.book.reference_page import new_pages, reference_part
from cacheproof.present.book.results_pages import results_part
from cacheproof.present.book.source import source_part
from cacheproof.present.book.strength_page import strength_part
from cacheproof.present.book.tables import era_part, eras_part, properties_part, rules_part, scopes_part

PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "source": source_part,
        "properties": properties_part,
        "eras": eras_part,
        "era": era_part,
        "rules": rules_part,
        "scopes": scopes_part,
        "counterexample": counterexample_part,
        "trace": trace_part,
        "catalogue": catalogue_part,
        "summary": summary_part,
        "device": device_part,
        "planted": planted_part,
        "reference": reference_part,
        "results": results_part,
        "consecutive": consecutive_part,
        "findings": findings_part,
        "features": features_part,
        "modules": modules_part,
        "strength": strength_part,
        "detection": detection_part,
    }
)
"""What can be generated, by the word of its marker."""

FOLDER = Path("docs")

PICTURES: Mapping[Path, Callable[[], str]] = MappingProxyType({FOLDER / "pictures" / "layers.svg": layers_picture})
"""The pictures that are made of the source, by file."""


def pages(given: Sequence[Path]) -> list[Path]:
    """The pages that were named, or all of the book."""
    found = list(given) or sorted(FOLDER.rglob("*.md"))
    if not found:
        raise InputError(f"there is no page in {FOLDER.absolute()}: go to a checkout, or name the pages")
    missing = [str(path) for path in found if not path.is_file()]
    if missing:
        raise InputError(f"there is no {', '.join(missing)}")
    return found


def made(given: Sequence[Path]) -> Iterator[tuple[Path, str, str]]:
    """Each page with its text, and with the text that it should have.

    If no pages are named, the generated pictures follow, and the reference pages that are not there yet.
    """
    for path in pages(given):
        text = text_of(path)
        yield path, text, filled(text, PARTS, str(path))
    if not given:
        for path, draw in PICTURES.items():
            yield path, path.read_text(encoding="utf-8") if path.is_file() else "", draw()
        for path, text in new_pages(FOLDER).items():
            yield path, "", filled(text, PARTS, str(path))
