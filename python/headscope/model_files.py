# SPDX-License-Identifier: Apache-2.0
"""What a trace says of the model's files: name, configuration, and the hashes of weights and tokenizer where the model came from a folder."""
import concurrent.futures
import contextlib
import hashlib
import os
import pathlib
import threading

from headscope.errors import FailedError

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


def hashes(model, unwanted=lambda: False):
    """SHA-256 of the safetensors shards in the order of their names, one after the other, and of the tokenizer; empty where there is no folder, and where the
    wait for them ends because it is `unwanted`."""
    found = {}
    for name, future in begin_hashes(model).items():
        while not unwanted():
            with contextlib.suppress(concurrent.futures.TimeoutError):
                found[name] = future.result(timeout=0.05)
                break
    return found


def begin_hashes(model):
    """The same as futures, made on threads: a weight file takes seconds. A process reads files once while they are as they were."""
    folder = folder_of(model)
    if folder is None:
        return {}
    tokenizers = [folder / name for name in TOKENIZERS if (folder / name).is_file()]
    return {"weights_sha256": _sha256(sorted(folder.glob("*.safetensors"))), "tokenizer_sha256": _sha256(tokenizers[:1])}


_known, _lock = {}, threading.Lock()


def _forget():
    """In a forked process, which has no thread that would make them."""
    global _known, _lock
    _known, _lock = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _sha256(paths):
    """Hex digits, or nothing without a file."""
    paths = [path.resolve() for path in paths]
    state = _state_of(paths)
    with _lock:
        if state in _known:
            return _known[state]
        future = concurrent.futures.Future()
        thread = threading.Thread(target=_hash, args=(paths, state, future), name="headscope-hash", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads
            thread = None
        _known[state] = future
    if thread is None:
        _hash(paths, state, future)
    return future


def _state_of(paths):
    return tuple((path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) for path in paths for status in [os.stat(path)])


def _hash(paths, state, future):
    digest = hashlib.sha256()
    try:
        for path in paths:
            with open(path, "rb") as file:
                while block := file.read(1 << 24):
                    digest.update(block)
        if _state_of(paths) != state:  # what was read is neither
            raise FailedError(f"{paths[0].parent}: its weights changed while they were read for the trace; record again when they are complete")
        future.set_result(digest.hexdigest() if paths else "")
    except BaseException as error:  # raised where the digits are asked for
        with _lock:
            _known.pop(state, None)
        future.set_exception(error)
