"""What a judge says of the first step that was not right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wrong:
    """The first wrong step, and what decided it. Steps count from 1; 0 is before the first one."""

    step: int
    judge: str
    """`scheduler`, `workers`, `kv_blocks` or `encoder_cache`."""
    rule: str
    says: str
    line: str
    """What was recorded."""

    def data(self) -> dict[str, object]:
        """For a machine."""
        return {"step": self.step, "judge": self.judge, "rule": self.rule, "says": self.says, "line": self.line}
