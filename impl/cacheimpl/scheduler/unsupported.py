"""What the scheduler does not serve: each `UnsupportedError` names one of these."""

from __future__ import annotations

from enum import Enum


class Unsupported(Enum):
    """The value says what is refused."""

    ADAPTERS = "a request with `lora_request`, if the setting `max_loras` is 0"
    ENCODER_CONNECTOR = "encoder outputs from elsewhere, if the setting `encoder_connector` is off"
    EXTERNAL_KV = "a request with `kv_transfer_params` of its own"
    POOLING = "a request with `pooling_params`, if the setting `pooling` is off"
    EMBEDDINGS = "a request with `prompt_embeds`"
    KERNELS = "a setting that the kernels of a round do not have"
