# SPDX-License-Identifier: Apache-2.0
"""What a trace says of the model's files: name, configuration, and the hashes of weights and tokenizer where the model came from a folder."""
import hashlib
import pathlib

# The first that is there, as headscope itself chooses.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "qwen.tiktoken", "tiktoken.model")


def folder_of(model):
    """The folder that the model was loaded from, or None."""
    path = getattr(model.config, "_name_or_path", "") or ""
    folder = pathlib.Path(path)
    return folder if path and (folder / "config.json").is_file() else None


def describe(model):
    """Name, model_type and config.json's text."""
    folder = folder_of(model)
    config = model.config.get_text_config(decoder=True)
    text = (folder / "config.json").read_text() if folder else model.config.to_json_string(use_diff=False)
    name = folder.resolve().name if folder else (getattr(model.config, "_name_or_path", "") or type(model).__name__)
    return name, getattr(model.config, "model_type", "") or config.model_type, text


def hashes(model):
    """SHA-256 of the safetensors shards in the order of their names, one after the other, and of the tokenizer; empty where there is no folder."""
    folder = folder_of(model)
    if folder is None:
        return {}
    shards = sorted(folder.glob("*.safetensors"))
    tokenizers = [folder / name for name in TOKENIZERS if (folder / name).is_file()]
    return {"weights_sha256": _sha256(shards) if shards else "", "tokenizer_sha256": _sha256(tokenizers[:1]) if tokenizers else ""}


def _sha256(paths):
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()
