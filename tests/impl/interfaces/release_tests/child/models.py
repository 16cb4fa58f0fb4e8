"""Settings of public models, without weights, in a cache folder of the hub: `models.py FOLDER`.

Tests of releases name these models and read their settings only. The numbers are those of the models' classes, except
where a test depends on them.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

transformers: Any = importlib.import_module("transformers")
tokenizers: Any = importlib.import_module("tokenizers")

REVISION = "0" * 40
WORDS = {
    "<unk>": 0,
    "<s>": 1,
    "</s>": 2,
    "<image>": 32000,
    "<pad>": 32001,
    **{f"w{number}": number for number in range(3, 100)},
}

OLDER: tuple[tuple[str, str, Any], ...] = (
    ("tokenizer_config.json", "tokenizer_class", "PreTrainedTokenizerFast"),
    ("tokenizer_config.json", "extra_special_tokens", {}),
    ("preprocessor_config.json", "image_processor_type", "CLIPImageProcessor"),
)
"""What older versions of transformers know under another name, or in another form."""


def put(name: str, architecture: str, config: Any, *more: Any) -> None:
    """Put a model into the cache folder."""
    folder = Path(sys.argv[1], "hub", f"models--{name.replace('/', '--')}")
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(REVISION, encoding="utf-8")
    config.architectures, config.torch_dtype = [architecture], "float16"
    made = folder / "snapshots" / REVISION
    for part in (config, *more):
        part.save_pretrained(made)
    for file, key, value in OLDER:
        if (made / file).exists():
            settings = json.loads((made / file).read_text(encoding="utf-8"))
            (made / file).write_text(json.dumps({**settings, key: value}), encoding="utf-8")


def tokenizer() -> Any:
    """A few words and the marks of LLaVA."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    marks = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, additional_special_tokens=["<image>"], **marks)


def image_processor(name: str) -> Any:
    """A model's image processor, without torchvision if there is one."""
    return getattr(transformers, f"{name}ImageProcessorPil", None) or getattr(transformers, f"{name}ImageProcessor")


def llava() -> None:
    """Images of 336 x 336 points, 576 embeddings each."""
    images = image_processor("CLIP")
    pictures = images(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336})
    processor = transformers.LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer(),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    text = transformers.LlamaConfig(max_position_embeddings=4096, vocab_size=32064)
    config = transformers.LlavaConfig(image_token_index=32000, image_seq_length=576, text_config=text)
    put("llava-hf/llava-1.5-7b-hf", "LlavaForConditionalGeneration", config, processor, pictures)


def others_with_images() -> None:
    """Models of which a test reads the settings only."""
    put(
        "llava-hf/llava-onevision-qwen2-0.5b-ov-hf",
        "LlavaOnevisionForConditionalGeneration",
        transformers.LlavaOnevisionConfig(),
        tokenizer(),
    )
    put(
        "llava-hf/llava-v1.6-mistral-7b-hf",
        "LlavaNextForConditionalGeneration",
        transformers.LlavaNextConfig(),
        tokenizer(),
    )


def main() -> None:
    """Put all of them."""
    others_with_images()
    for name in ("facebook/opt-125m", "facebook/opt-350m"):
        put(name, "OPTForCausalLM", transformers.OPTConfig(), tokenizer())
    llava()
    put("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3NextForCausalLM", transformers.Qwen3NextConfig(), tokenizer())
    put("Qwen/Qwen3-0.6B", "Qwen3ForCausalLM", transformers.Qwen3Config(max_position_embeddings=40960), tokenizer())
    put("Qwen/Qwen1.5-7B", "Qwen2ForCausalLM", transformers.Qwen2Config(max_position_embeddings=32768), tokenizer())


if __name__ == "__main__":
    main()
