"""Makes two tiny models with random weights, `text` and `images`, in a folder: `models.py FOLDER`.

Weights have a wide range, so that outputs differ from prompt to prompt. Text: a two-layer Llama. Images: a two-layer
LLaVA, whose images of 28 x 28 pixels take 4 embeddings each.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")
safetensors: Any = importlib.import_module("safetensors.torch")
tokenizers: Any = importlib.import_module("tokenizers")
transformers: Any = importlib.import_module("transformers")

WORDS = 250
SPECIAL = {"<unk>": 250, "<image>": 251, "<s>": 252, "</s>": 253, "<pad>": 254}
RANGE = 0.3


def text_config() -> Any:
    """A Llama of two layers."""
    return transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        vocab_size=256,
        max_position_embeddings=512,
        initializer_range=RANGE,
    )


def tokenizer() -> Any:
    """One token for each of the words w0 to w249."""
    table = {f"w{number}": number for number in range(WORDS)} | SPECIAL
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(table, unk_token="<unk>"))  # noqa: S106  # a word
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    names = {
        f"{name}_token": f"<{sign}>" for name, sign in (("unk", "unk"), ("bos", "s"), ("eos", "/s"), ("pad", "pad"))
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, additional_special_tokens=["<image>"], **names)


def make_text(folder: Path) -> None:
    """The model of words only."""
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(text_config()).float().eval().save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def make_images(folder: Path) -> None:
    """The model of words and images."""
    torch.manual_seed(0)
    pictures = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    processor = transformers.LlavaProcessor(
        image_processor=pictures(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer=tokenizer(),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    vision = transformers.CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
        projection_dim=32,
        initializer_range=RANGE,
    )
    config = transformers.LlavaConfig(
        vision_config=vision,
        text_config=text_config(),
        image_token_index=SPECIAL["<image>"],
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        image_seq_length=4,
    )
    transformers.LlavaForConditionalGeneration(config).float().eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    weights = folder / "model.safetensors"  # vLLM asks for the older names of the vision tower's weights
    renamed = {older(name): value for name, value in safetensors.load_file(weights).items()}
    safetensors.save_file(renamed, weights, metadata={"format": "pt"})


def older(name: str) -> str:
    """The name of a weight as it was in earlier releases of transformers."""
    return name if "vision_model" in name else name.replace("vision_tower.", "vision_tower.vision_model.", 1)


if __name__ == "__main__":
    make_text(Path(sys.argv[1], "text"))
    make_images(Path(sys.argv[1], "images"))
