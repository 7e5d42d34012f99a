"""A tiny encoder: two layers of 32 dimensions, and a vocabulary of its own."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 32
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def write_encoder(
    folder: Path, words: Iterable[str], seed: int = 0, kind: str = "bert", **changes: Any
) -> Path:
    """Write the folder of an encoder that knows these words, as transformers writes it."""
    import torch
    import transformers

    vocabulary = [*SPECIAL, *dict.fromkeys(words)]
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 72,
        "pad_token_id": 0,
    }
    if kind == "distilbert":
        sizes |= {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    else:
        sizes |= {
            "hidden_size": WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
        }
    config = transformers.AutoConfig.for_model(kind, **sizes | changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = transformers.AutoModel.from_config(config)
    # Words as different as those of a trained encoder.
    rng = np.random.default_rng(seed)
    words_table = module.get_input_embeddings().weight
    drawn = torch.from_numpy(rng.standard_normal(tuple(words_table.shape)).astype(np.float32))
    words_table.data.copy_(drawn)
    module.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(vocabulary)))
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 64,
        "pad_token": "[PAD]",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (folder / "README.md").write_text("---\nlicense: bsd-3-clause\n---\n")
    return folder


def _tokenizer(vocabulary: list[str]) -> dict[str, Any]:
    """Return a tokenizer of words, between a first and a last token."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    special = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(SPECIAL)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["[SEP]", 3],
            "cls": ["[CLS]", 2],
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": numbers, "unk_token": "[UNK]"},
    }
