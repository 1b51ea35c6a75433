# SPDX-License-Identifier: Apache-2.0
"""python -m headscope.capture MODEL (--text S | --prompt FILE | --tokens N,.. | --chat FILE.json) -o OUT.h5: what `headscope capture` does, for any model that transformers knows."""
import argparse
import codecs
import errno
import json
import pathlib
import sys

from headscope.errors import BadInputError, DeviceError, HeadscopeError, UsageError
from headscope.layout import POINTS

INTERRUPTED = 130
_NO_MEMORY = "the memory is used up; close other programs, or record fewer heads or tokens"


def _options():
    parser = argparse.ArgumentParser(prog="python -m headscope.capture", description="Run a model of transformers on a prompt and record every head's Q, K, V and LSE into a trace.")
    parser.add_argument("model", metavar="MODEL", help="a checkpoint's folder, or a name that transformers' from_pretrained takes")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--text", metavar="S", help="the prompt itself")
    prompt.add_argument("--prompt", metavar="FILE", help="the prompt, from a UTF-8 file, whose byte order mark is no part of it")
    prompt.add_argument("--tokens", metavar="1,2,3", help="the prompt as token ids, used as given; a model without a tokenizer gives a trace without texts")
    prompt.add_argument("--chat", metavar="FILE.json", help="a conversation, [{\"role\": .., \"content\": ..}, ..], which the model's own chat template turns into the prompt")
    parser.add_argument("-o", "--output", metavar="OUT.h5", required=True, help="the trace to write")
    parser.add_argument("--force", action="store_true", help="replace an existing trace, when the new one is complete")
    parser.add_argument("--files", type=int, default=1, metavar="N", help="files that hold the trace, each some of the layers: OUT-00001-of-0000N.h5 and so on, any one of which opens the whole (1)")
    parser.add_argument("--layers", help="layers to record, such as 0-3,7 (all)")
    parser.add_argument("--heads", help="query heads to record, of every layer (all)")
    parser.add_argument("--kv-heads", help="in place of --heads: KV heads, with all query heads of each")
    parser.add_argument("--rows", default="all", help="query rows to record: all, last:N, every:N, random:N, random:N:SEED, or ranges A:B,C:D of rows A to B-1 (all)")
    parser.add_argument("--record", help=f"beside q, k, v and lse: {', '.join(POINTS)}; several with commas between them")
    parser.add_argument("--decode", type=int, default=0, metavar="N", help="tokens to generate and record after the prompt (0)")
    parser.add_argument("--chunk", type=int, default=0, metavar="N", help="tokens per prefill step (0: the whole prompt)")
    parser.add_argument("--attention", help="transformers' attention that the model uses: sdpa, eager, flash_attention_2, .. (transformers' choice: sdpa, of models that have none eager)")
    parser.add_argument("--dtype", default="auto", choices=("auto", "fp32", "bf16", "fp16"), help="of weights and values (auto: the checkpoint's)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (cpu)")
    parser.add_argument("--latent", action="store_true", help="MLA alone: record the compressed keys instead of the decompressed heads")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")
    return parser


def _refuse_utf_16(path, stored):
    """Latin letters in UTF-16 are UTF-8 with a NUL beside each, and its mark is no UTF-8, which hides what it is."""
    marked = stored.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if marked or b"\0" in stored:
        found = "begins with the byte order mark of UTF-16" if marked else f"has a NUL at byte {stored.index(0)}, as UTF-16 has"
        order = "" if marked else "LE" if stored.index(0) % 2 else "BE"
        raise BadInputError(f"{path}: {found}; convert it, as iconv -f UTF-16{order} -t UTF-8 does")


def _prompt(options):
    """The text and where it came from."""
    if options.text is not None:
        text = options.text
        if not text:
            raise UsageError("the prompt is empty; give at least one character")
    else:
        try:
            stored = pathlib.Path(options.prompt).read_bytes()
            _refuse_utf_16(options.prompt, stored)
            text = stored.removeprefix(codecs.BOM_UTF8).decode()
        except OSError as error:
            raise UsageError(f"prompt {options.prompt}: {error.strerror}; name a file that can be read") from None
        except UnicodeDecodeError as error:
            raise BadInputError(f"{options.prompt}: is not UTF-8 at byte {error.start}; convert it, as iconv -f LATIN1 -t UTF-8 does") from None
        if not text:
            raise BadInputError(f"{options.prompt}: is empty; give at least one character")
    return text, "text" if options.text is not None else f"prompt {pathlib.Path(options.prompt).name}"


def _token_ids(text):
    try:
        ids = [int(part) for part in text.split(",")]
    except ValueError:
        ids = [-1]
    if min(ids) < 0:
        raise UsageError(f"tokens {text[:40]}: must be whole numbers with commas between them, such as 1,2,3")
    return ids


def _members(path, pairs):
    """An object, of which json would take the last of two members of one name."""
    members = {}
    for name, value in pairs:
        if name in members:
            raise BadInputError(f"{path}: {json.dumps(name)}: the name appears twice in one object; write it once")
        members[name] = value
    return members


def _messages(path):
    """The conversation of a file: a list of messages, or an object that has one as `messages`."""
    try:
        found = json.loads(pathlib.Path(path).read_bytes(), object_pairs_hook=lambda pairs: _members(path, pairs))
    except OSError as error:
        raise UsageError(f"chat {path}: {error.strerror}; name a file that can be read") from None
    except (ValueError, RecursionError):
        raise BadInputError(f"{path}: it is not JSON; give a list of messages, each with a role and its content") from None
    found = found.get("messages") if isinstance(found, dict) else found
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str) for one in found):
        raise BadInputError(f"{path}: messages: it is not a list of objects with a text as role and one as content; write such as [{{\"role\": \"user\", \"content\": \"Hello\"}}]")
    return found


def _chat_ids(tokenizer, options):
    """Ids of the conversation and of what the template puts before the answer."""
    messages = _messages(options.chat)
    if not getattr(tokenizer, "chat_template", None):
        raise BadInputError(f"{options.model}: its tokenizer has no chat template; give the prompt with --text, as the model expects it")
    try:
        return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True).input_ids
    except Exception as error:  # a template is a program of the model's author, and may refuse a conversation in any way
        raise BadInputError(f"{options.chat}: the model's chat template refuses it ({' '.join(str(error).split())}); change the messages") from None


def _device(torch, name):
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"device {name}: must be cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(f"device {name}: this machine has {torch.cuda.device_count()} GPUs that torch can use; choose cpu or another GPU")
    return device


def _refuse_adapter(folder):
    """transformers would follow it to a model of another place, or ignore it, as its installation is."""
    folder = pathlib.Path(folder)
    if not (folder / "adapter_config.json").exists():
        return
    merge = "merge it into its model with peft (merge_and_unload, then save_pretrained) and name the folder of that, or load both by hand and use headscope.record"
    if not (folder / "config.json").exists():
        raise BadInputError(f"{folder}: adapter_config.json: is of an adapter such as LoRA, not of a model; {merge}")
    raise BadInputError(
        f"{folder}: adapter_config.json: says that an adapter such as LoRA belongs to the model, which is not recorded so; {merge}; where the weights have it already, "
        "take that file out of the folder"
    )


def _lacks_memory(error):
    """Python's own, the system's, and torch's of a GPU and of a CPU, some of which are told by their words alone."""
    if isinstance(error, HeadscopeError):  # which has its own sentence
        return False
    words = str(error).lower()
    told = any(lack in words for lack in ("can't allocate memory", "cannot allocate memory", "out of memory"))
    return told or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or getattr(error, "errno", None) == errno.ENOMEM


def _load(options, torch, transformers, device):
    _refuse_adapter(options.model)
    dtype = {"auto": "auto", "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[options.dtype]
    # A checkpoint's own code is not run, and nobody is asked on the terminal whether it may be: record() takes a model that was loaded by hand.
    own_code = {"trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(options.model, **own_code)  # what is no model's folder has no tokenizer either
        tokenizer = _tokenizer(options, transformers, own_code)
        kinds = (transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText)  # the latter get text alone
        loader = next((kind for kind in kinds if type(config) in kind._model_mapping), kinds[0])
        model, loaded = loader.from_pretrained(options.model, dtype=dtype, attn_implementation=options.attention, output_loading_info=True, **own_code)
    except Exception as error:  # of any kind: what a configuration says is looked at by each family's own code
        if isinstance(error, HeadscopeError) or _lacks_memory(error):
            raise
        sentence = " ".join(str(error).split()) or type(error).__name__
        choice = f", or leave out --attention {options.attention}" if options.attention else ""
        raise BadInputError(f"{options.model}: transformers cannot load it ({sentence}); name a checkpoint's folder{choice}") from None
    _refuse_made_up_weights(options, model, loaded["missing_keys"])
    return tokenizer, model.to(device).eval()


def _weights_in_use(model, names, decodes):
    """Those of the names that recorded tokens depend on: none of the output head unless tokens are generated, and none of a tower for images or sounds, of which
    none is given. Modules are found by themselves: base_model_prefix is of llama4 and others no module's name."""
    if model.config.is_encoder_decoder:  # whose encoder is no tower beside the text
        return names
    places = {id(module): place for place, module in model.named_modules()}
    given, head, decoder = (places.get(id(module)) for module in (model.get_input_embeddings(), model.get_output_embeddings(), model.get_decoder()))

    def within(name, place):
        return place is not None and f"{name}.".startswith(f"{place}." if place else "")

    if head and given:  # with what the last layer's output goes through before: the largest part without the input's embeddings
        steps = head.split(".")
        head = next((part for part in (".".join(steps[:count]) for count in range(1, len(steps) + 1)) if not within(given, part)), None)
    if decoder and model.config.get_text_config(decoder=True) is not model.config:  # a text's settings beside those of towers
        names = [name for name in names if any(within(name, part) for part in (given, decoder, head))]
    return [name for name in names if decodes or not within(name, head)]


def _refuse_made_up_weights(options, model, missing):
    """transformers draws what a checkpoint lacks."""
    missing = sorted(_weights_in_use(model, missing, options.decode))
    if missing:
        raise BadInputError(
            f"{options.model}: lacks {len(missing)} of the model's weights, such as {missing[0]}, for which transformers would draw random numbers; "
            "check model_type in config.json, fetch the folder again if a file of it is missing, or load the model by hand and use headscope.record"
        )


def _tokenizer(options, transformers, own_code):
    """None for a prompt of ids whose model has no tokenizer that can be read, which is said."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model, **own_code)
        # Of many families transformers makes one of names alone where there is no file, by which a text has no tokens, or unknown ones. Of mbart and others it has
        # SentencePiece's mark of a blank besides.
        names = {str(token.content) for token in getattr(tokenizer, "added_tokens_decoder", {}).values()}
        if set(tokenizer.get_vocab()) - names - {"\u2581"}:
            return tokenizer
        problem = "its files are missing"
    except Exception as error:  # which is of any kind, the tokenizers library's own included
        if _lacks_memory(error):
            raise
        problem = " ".join(str(error).split())
    sentence = f"transformers cannot load the tokenizer ({problem})"
    if options.tokens is None:
        raise BadInputError(f"{options.model}: {sentence}; name a checkpoint's folder with its tokenizer, or give the prompt as token ids with --tokens, which needs none")
    print(f"token ids are recorded without their texts: {sentence}", file=sys.stderr)
    return None


def _one_line(sentence):
    """As the program shows what stands in a name and would move the terminal's cursor."""
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in sentence)


def capture(options):
    """Runs one capture. Returns the exit code."""
    if options.decode < 0 or options.chunk < 0:
        raise UsageError(f"decode {options.decode}, chunk {options.chunk}: they must not be negative")
    given = None if options.tokens is None else _token_ids(options.tokens)
    if given is not None:
        text, source = None, "tokens"
    else:
        text, source = (None, f"chat {pathlib.Path(options.chat).name}") if options.chat is not None else _prompt(options)
    import torch
    import transformers

    from headscope import recorder

    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    tokenizer, model = _load(options, torch, transformers, device := _device(torch, options.device))
    if given is not None:
        vocabulary = model.get_input_embeddings().weight.shape[0]
        if max(given) >= vocabulary:
            raise UsageError(f"tokens {max(given)}: the model's ids end at {vocabulary - 1}; use smaller ones")
        ids = torch.tensor([given], device=device)
    else:
        ids = (tokenizer(text, return_tensors="pt").input_ids if options.chat is None else _chat_ids(tokenizer, options)).to(device)
    length = ids.shape[1]
    if length == 0:
        raise BadInputError(f"{options.prompt or options.chat or 'the prompt'}: has no token by the model's tokenizer; give another text")
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit and length + options.decode > limit:
        raise UsageError(f"the prompt has {length} tokens and decoding adds {options.decode}, but the model has {limit} positions; use a shorter prompt or decode fewer tokens")

    def say(text):
        if not options.quiet:
            print(text, file=sys.stderr, flush=True)

    recording = recorder.record(
        model, options.output, layers=options.layers, heads=options.heads, kv_heads=options.kv_heads, rows=options.rows, points=options.record, tokenizer=tokenizer, prompt_tokens=length,
        max_tokens=length + options.decode, latent=options.latent, prompt_source=source, overwrite=options.force, files=options.files,
    )  # fmt: skip
    try:
        with torch.no_grad(), recording:
            _feed(model, tokenizer, ids, options, say)
    except KeyboardInterrupt:
        print(f"headscope: interrupted; {', '.join(recording.left) or 'no token was recorded'}", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if not _lacks_memory(error):
            raise
        raise DeviceError("; ".join([_NO_MEMORY, *filter(None, [", ".join(recording.left)])])) from None
    print(recording.paths[0])
    return 0


def _feed(model, tokenizer, ids, options, say):
    """The prompt, in chunks where that is asked for, and greedy decoding."""
    import transformers

    length = ids.shape[1]
    cache, step, generated = transformers.DynamicCache(config=model.config), options.chunk or length, []
    for begin in range(0, length, step):
        logits = model(ids[:, begin : begin + step], past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        say(f"prefill: {min(begin + step, length)} of {length} tokens")
    for _ in range(options.decode):
        generated.append(int(logits[0, -1].argmax()))
        logits = model(ids.new_tensor([[generated[-1]]]), past_key_values=cache, use_cache=True).logits
    if options.decode:
        say(f"decode: {options.decode} tokens: {tokenizer.decode(generated) if tokenizer else ','.join(map(str, generated))!r}")


def main(arguments=None):
    """The command line; returns the exit code (docs/design.md, section 7)."""
    options = _options().parse_args(arguments)
    try:
        return capture(options)
    except HeadscopeError as error:
        print(f"headscope: {_one_line(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("headscope: interrupted; no token was recorded", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if not _lacks_memory(error):
            raise
        print(f"headscope: {_NO_MEMORY}", file=sys.stderr)
        return DeviceError.exit_code


if __name__ == "__main__":
    sys.exit(main())
