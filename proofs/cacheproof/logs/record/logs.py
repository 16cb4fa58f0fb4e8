"""Recordings as logs: each in the component and the era that describe its manager."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.logs.record import encoder_cache, kv_blocks, scheduler
from cacheproof.logs.record.events import SUFFIX, Recording, recordings_in
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.writing import log_written
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, variant_named
from cacheproof.model.wire import (
    config_from_message,
    observations_from_message,
    operation_from_message,
    outcome_from_message,
)
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release
from cachespec.kernel import NORMATIVE

TRANSLATIONS: dict[str, Any] = {
    module.COMPONENT: module.Translation for module in (kv_blocks, encoder_cache, scheduler)
}


WITHOUT_A_LOG = ("workers",)
"""What is recorded for the verdict alone."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A log that was written, and why it has no more lines, if the recorder has stopped."""

    log: Path
    component: str
    variant: str
    lines: int
    stopped: str
    left_out: str = ""
    """Why there is no log: the specification has no words for the run."""


def logs_from(folder: Path, variant: str | None = None) -> Iterator[Recorded]:
    """Write a log beside each recording of a folder; a manager that was never asked for anything has none."""
    for recording in recordings_in(folder):
        if recording.component not in WITHOUT_A_LOG and recording.has_calls:
            yield log_from(recording, recording.path.with_suffix(".ndjson"), variant)


def log_from(recording: Recording, path: Path, variant: str | None = None) -> Recorded:
    """Write the log of one recording. The default variant is the era of its release."""
    if recording.component not in TRANSLATIONS:
        raise InputError(f"{recording.path}: there are no logs of {recording.component}")
    component = component_named(recording.component)
    chosen = era_of(recording) if variant is None else variant_named(component, variant)
    try:
        lines = _translated(recording, path, component, chosen)
    except scheduler.NotSaidError as error:
        return Recorded(path, component.name, chosen.tag, 0, recording.stopped, str(error))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise InputError(f"{recording.path}: not the events of a manager: {type(error).__name__}: {error}") from None
    return Recorded(path, component.name, chosen.tag, lines, recording.stopped)


def _translated(recording: Recording, path: Path, component: AnyComponent, variant: AnyVariant) -> int:
    """Write the log; the number of its lines."""
    translation = TRANSLATIONS[recording.component](recording)
    header = Header(
        component=component,
        variant=variant,
        config=config_from_message(component, translation.config()),
        initial={},
        promises=("lines", "sha256"),
        source=f"vllm {recording.release}, {recording.path.name.removesuffix(SUFFIX)}",
    )
    with log_written(path, header) as log:
        for line in translation.lines():
            called = "operation" in line
            log.line(
                operation_from_message(component.operations, line["operation"]) if called else None,
                outcome_from_message(line["outcome"]) if called else None,
                observations_from_message(line.get("observations", {})),
                line.get("source", ""),
            )
    return log.lines


def era_of(recording: Recording) -> AnyVariant:
    """The era that describes the recording's release: its own, or that of the latest release before it."""
    component = component_named(recording.component)
    if not recording.release:
        return component.variants[NORMATIVE]
    release = Release(recording.release)
    known = [era for era in table().eras if era.component == component.name and not era.first]
    before = [era for era in known if era.release.parts <= release.parts]
    if not before:
        raise InputError(f"{recording.path}: no era of {component.name} is as old as vllm {recording.release}")
    return variant_named(component, max(before, key=lambda era: era.release.parts).variant)
