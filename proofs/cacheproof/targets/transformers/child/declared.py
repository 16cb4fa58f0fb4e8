"""What is not the release's own code while its caches are driven, each entry with its reason; and what is driven."""

from __future__ import annotations

from typing import Any

RE_EXPORTS = "its __init__ only re-exports, and would import the whole library"
ANNOTATIONS = "named in annotations only: the driver gives plain attributes"
OTHER_PATHS = "called only by functions that are not driven"


class Silence:
    """A logger that says nothing."""

    propagate = False

    def isEnabledFor(self, level: object) -> bool:  # noqa: N802  # the name is that of `logging`
        """Nothing is worth preparing."""
        return False

    def debug(self, *parts: object) -> None:
        """Say nothing; nor do the others."""

    info = warning = error = debug


PACKAGES = {
    "transformers": RE_EXPORTS,
    "transformers.generation": RE_EXPORTS,
    "transformers.generation.continuous_batching": RE_EXPORTS,
}
MODULES = {
    "psutil": OTHER_PATHS,
    "tqdm": OTHER_PATHS + ": a bar of progress",
    "transformers.configuration_utils": ANNOTATIONS,
    "transformers.distributed": "asked for one thing, which is answered below",
    "transformers.generation.configuration_utils": ANNOTATIONS,
    "transformers.generation.continuous_batching.cb_logits_processors": "no request has settings for logits",
    "transformers.generation.continuous_batching.initialization": OTHER_PATHS + ": defaults for a device",
    "transformers.generation.continuous_batching.input_outputs": "replaced: tensors for a model, see `serving`",
    "transformers.generation.continuous_batching.model_runner": "replaced: there is no model, see `serving`",
    "transformers.generation.logits_process": ANNOTATIONS,
    "transformers.utils": "asked for a few things, which are answered below",
}
ANSWERS: dict[str, tuple[Any, str]] = {
    "transformers.distributed.utils._is_torch_distributed_initialized": (False, "there is one process"),
    "transformers.utils.is_psutil_available": (False, "how much memory the machine has plays no part"),
    "transformers.utils.is_torch_xpu_available": (False, "asked when memory is measured: there is no accelerator"),
    "transformers.utils.generic.is_flash_attention_requested": (False, "nothing is computed"),
    "transformers.utils.logging.logging.getLogger": (Silence(), "nothing is logged"),
}
COMPONENTS = {
    "paged": ("paged", "PagedDriver"),
    "fifo": ("serving", "ServingDriver"),
    "prefill_first": ("serving", "PrefillFirstDriver"),
}
"""The cache alone, and the whole batch processor with each of its schedulers."""
