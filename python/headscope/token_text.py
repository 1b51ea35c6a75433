# SPDX-License-Identifier: Apache-2.0
"""The bytes of a token as decoded alone, from a tokenizer of transformers."""
import json
import re


def _byte_alphabet():
    """GPT-2's characters for bytes: printable ones stand for themselves, the others for characters from U+0100 on."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in kept}
    return alphabet | {chr(0x100 + number): byte for number, byte in enumerate(byte for byte in range(256) if byte not in kept)}


class TokenText:
    """`text[id]` is a token's bytes; empty for everything where there is no tokenizer."""

    def __init__(self, tokenizer):
        self._tokenizer, self._known = tokenizer, {}
        self._added, self._decoders, self._model = {}, "", ""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if tokenizer is None:
            return
        self._added = {index: str(token.content).encode() for index, token in getattr(tokenizer, "added_tokens_decoder", {}).items()}
        self._continuing = "##"
        if backend is not None:
            description = json.loads(backend.to_str())
            model = description.get("model") or {}
            self._decoders, self._model = json.dumps(description.get("decoder")), model.get("type", "")
            self._continuing = model.get("continuing_subword_prefix", self._continuing)
        elif hasattr(tokenizer, "wordpiece_tokenizer"):
            self._model = "WordPiece"
        self._bytes = _byte_alphabet()

    def __getitem__(self, token):
        if self._tokenizer is None:
            return b""
        if token not in self._known:
            self._known[token] = self._added[token] if token in self._added else self._decoded(token)
        return self._known[token]

    def _decoded(self, token):
        piece = self._tokenizer.convert_ids_to_tokens(token)
        if piece is None:
            return b""
        if "ByteLevel" in self._decoders and all(letter in self._bytes for letter in piece):
            return bytes(self._bytes[letter] for letter in piece)
        if match := re.fullmatch(r"<0x([0-9A-F]{2})>", piece):
            return bytes([int(match[1], 16)])
        if self._model in ("WordPiece", "WordLevel") or "WordPiece" in self._decoders:  # a word begins behind a space
            continues = self._model != "WordLevel" and self._continuing and piece.startswith(self._continuing) and piece != self._continuing
            return (piece[len(self._continuing) :] if continues else " " + piece).encode()
        return piece.replace("\u2581", " ").encode()
