"""The option of the verbs that declares a deviation. Archives of `reproduce` run without typer, so it stands alone."""

from __future__ import annotations

from typing import Annotated

import typer

DeviationOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE|C-ID",
        help="Expect this rule, or this entry of the catalogue, of the implementation: see cacheproof list --rules. "
        "May be repeated.",
        show_default="none",
    ),
]
"""A deviation that is declared: the implementation is compared with the variant with this rule."""
