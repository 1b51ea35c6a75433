# SPDX-License-Identifier: Apache-2.0
"""What the system refuses: memory, threads, writes, reads, open files. At whatever call it begins to, a command ends by itself, with an exit code and one
sentence, and leaves nothing behind.

    command_line_failures_test.py HEADSCOPE DATA_DIR FAILING_CALLS.so

The library (failing_calls.c) counts the calls of a kind, tells the places in the code that make them, and fails those that it is told to: one alone, as a
busy machine does, or all from there on, as one at its limit. Begun with is the first call of every place. A call that fails may be one that the command can do without; then the command must do its work.
"""
import concurrent.futures
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

import command_line
import forked_starts
from command_line import HEADSCOPE, MODEL, PATIENCE, run

FAILING_CALLS = sys.argv[3]
NO_MEMORY_OR_THREADS, FAILED, BAD_INPUT = 4, 1, 3
HEADS, HEAD_DIM, HIDDEN, VOCABULARY = 2, 16, 32, 4096


def write_model(folder):
    """A checkpoint that runs in milliseconds, with the shipped model's tokenizer."""
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": HIDDEN, "num_hidden_layers": 1,
              "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCABULARY, "max_position_embeddings": 512,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes(pathlib.Path(MODEL, "tokenizer.json").read_bytes())
    width, layer = HEADS * HEAD_DIM, "model.layers.0."
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,), layer + "self_attn.o_proj.weight": (HIDDEN, width)}
    shapes |= {layer + f"self_attn.{name}_proj.weight": (width, HIDDEN) for name in "qkv"}
    shapes |= {layer + f"mlp.{name}_proj.weight": (HIDDEN, HIDDEN) for name in ("gate", "up", "down")}
    shapes |= {layer + f"{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")}
    random, header, data, end = numpy.random.default_rng(5), {}, [], 0
    for name, shape in shapes.items():
        data.append((random.standard_normal(shape) * 0.1).astype(numpy.float32).tobytes())
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(data[-1])]}
        end += len(data[-1])
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


# Cases of one kind and command that are run; HEADSCOPE_EVERY_SITE=1 runs all, which takes a quarter of an hour.
MOST_CASES = None if os.environ.get("HEADSCOPE_EVERY_SITE") else 150
MOST_OF_CAPTURE = None if MOST_CASES is None else 24  # each runs a model
LOADING_CASES = 8


def spread(cases, most):
    """At most `most` of the cases, evenly."""
    return cases if most is None or len(cases) <= most else [cases[i * (len(cases) - 1) // (most - 1)] for i in range(most)]


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())  # one for all sweeps: each of its threads loads a program
        cls.path = pathlib.Path(cls.folder.name)
        cls.model = cls.path / "model"
        write_model(cls.model)
        cls.trace = cls.path / "trace.h5"
        cls.run_capture(cls.trace)

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()
        cls.folder.cleanup()

    @classmethod
    def run_capture(cls, out):
        run("capture", cls.model, "--text", "some words to record", "-o", out, "--quiet")

    def start(self, command, settings, anew=False, **options):
        """`anew`: LibTorch is not loaded before."""
        if not anew and not options:
            return forked_starts.run(HEADSCOPE, command, 30 * PATIENCE, settings=settings, before=(FAILING_CALLS,))
        environment = forked_starts.environment(LD_PRELOAD=FAILING_CALLS, **settings)
        return subprocess.run([HEADSCOPE, *map(str, command)], capture_output=True, text=True, timeout=30 * PATIENCE, env=environment, **options)

    def count(self, kind, command, **options):
        """How many calls of that kind the command makes when none of them fails."""
        return self.counted(kind, command, {}, **options)[0]

    def sites(self, kind, command):
        """How many calls of that kind the command makes when none of them fails, and of every place in the code that makes some the first: its number and
        whether the place is in libhdf5."""
        count, sites = self.counted(kind, command, {"HEADSCOPE_SITE_FRAMES": "1"})
        return count, sorted((int(call), of_hdf5 == "1") for call, of_hdf5 in map(str.split, sites))

    def counted(self, kind, command, settings, **options):
        """The number of calls, and the lines about their sites."""
        with tempfile.TemporaryDirectory() as folder:
            calls = pathlib.Path(folder, "calls")
            done = self.start(command(pathlib.Path(folder)), {"HEADSCOPE_FAILING_CALLS": kind, "HEADSCOPE_CALLS_FILE": str(calls), **settings}, **options)
            self.assertEqual(done.returncode, 0, done.stderr)
            count, *sites = calls.read_text().splitlines()
            return int(count), sites

    def problem(self, kind, command, codes, begin, count, **options):
        """What is wrong with a run in which calls fail; empty when nothing is."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            settings = {"HEADSCOPE_FAILING_CALLS": kind, "HEADSCOPE_FAILING_FROM": str(begin), "HEADSCOPE_FAILING_COUNT": str(count)}
            try:
                done = self.start(command(folder), settings, **options)
            except subprocess.TimeoutExpired:
                return "hangs"
            if done.returncode < 0 or done.returncode not in (0, *codes):
                return f"exit code {done.returncode}: {done.stderr[:300]!r}"
            if done.returncode == 0:
                return ""
            # The C library's own last words cannot be kept from it.
            lines = [line for line in done.stderr.splitlines() if not line.startswith("Fatal glibc error: ")]
            sentences = [line for line in lines if line.startswith("headscope: ")]
            # What was done may have been said before the rest failed.
            if len(sentences) != 1 or lines[-1] != sentences[0] or [line for line in lines[:-1] if " tokens, " not in line]:
                return f"not one sentence: {done.stderr[:300]!r}"
            return self.left_behind(folder, sentences[0])

    def left_behind(self, folder, sentence):
        """Only a trace that holds tokens may stay of a run that failed."""
        for entry in folder.iterdir():
            info = subprocess.run([HEADSCOPE, "info", str(entry), "--json"], capture_output=True, text=True, timeout=30 * PATIENCE)
            if entry.suffix != ".h5" or info.returncode != 0 or json.loads(info.stdout)["num_tokens"] == 0:
                return f"left {entry.name} after: {sentence}"
        return ""

    def sweep(self, kind, command, codes, most):
        count, sites = self.sites(kind, command)
        # Of memory, one small block that is missing while the next one is there is nothing that happens; libhdf5 meets that as well, for it takes
        # small blocks from pages of its own.
        cases = spread([(call, number) for call, of_hdf5 in sites for number in ((0, 1) if kind != "memory" or of_hdf5 else (0,))], most)
        self.run_cases(kind, command, codes, count, cases)

    def run_cases(self, kind, command, codes, count, cases, **options):
        problems = list(self.pool.map(lambda case: self.problem(kind, command, codes, *case, **options), cases))
        found = [f"  call {begin} of {count}{' alone' if number else ' and all after it'}: {problem}"
                 for (begin, number), problem in zip(cases, problems) if problem]
        self.assertEqual(found, [], f"{kind} of {command(pathlib.Path())[0]}, {len(found)} of {len(cases)} cases:\n" + "\n".join(found))

    def commands(self):
        return {"info": (lambda _: ("info", self.trace), MOST_CASES),
                "export": (lambda folder: ("export", self.trace, "-o", folder / "part.h5", "--quiet"), MOST_CASES),
                "csv": (lambda folder: ("export", self.trace, "-o", folder / "part.csv", "--quiet"), MOST_CASES),
                "capture": (lambda folder: ("capture", self.model, "--text", "some words to record", "-o", folder / "out.h5", "--quiet"), MOST_OF_CAPTURE)}

    def sweep_all(self, kind, codes):
        for name, (command, most) in self.commands().items():
            with self.subTest(kind=kind, command=name):
                self.sweep(kind, command, codes, most)

    def test_loading(self):
        """Of a capture that loads LibTorch; in the sweeps it is there from the start. Calls are taken evenly from beginning to end, and sites are not told
        apart: memory is asked for in too many of LibTorch's own. Loading it opens, reads, writes and starts nothing by calls that can be made to fail, so that
        the sweeps leave out no such call, but what they do before it is there, which a few show here. Left out are the loader's own opens, reads and mappings
        of files: they are no calls of the C library."""
        command, codes = self.commands()["capture"][0], (NO_MEMORY_OR_THREADS, FAILED, BAD_INPUT)
        for kind, numbers in (("memory", (0, 1)), ("opens", (1,)), ("reads", (1,)), ("threads", (1,)), ("writes", (1,))):
            with self.subTest(kind=kind):
                count = self.count(kind, command, anew=True)
                if kind != "memory" and not command_line.num_gpus():  # whose driver has threads and files of its own
                    self.assertEqual(count, self.count(kind, command), "as many where LibTorch is loaded")
                calls = sorted({1 + count * i // LOADING_CASES for i in range(LOADING_CASES)})
                self.run_cases(kind, command, codes, count, [(call, number) for call in calls for number in numbers], anew=True)

    def test_memory(self):
        self.sweep_all("memory", (NO_MEMORY_OR_THREADS, FAILED, BAD_INPUT))

    def test_memory_of_teams(self):
        """libgomp ends the process in words of its own, and other calls than malloc give its teams of threads their memory."""
        command, most = self.commands()["capture"]
        count, _ = self.sites("teams", command)
        self.assertGreaterEqual(count, 4)  # three of a team, and one of the threads' pool
        cases = spread([(call, number) for call in range(1, count + 1) for number in (0, 1)], most)
        self.run_cases("teams", command, (NO_MEMORY_OR_THREADS,), count, cases)

    def test_threads(self):
        command, most = self.commands()["capture"]
        self.sweep("threads", command, (NO_MEMORY_OR_THREADS,), most)
        # The recorder's own thread is the last one that is asked for.
        self.assertEqual(self.problem("threads", command, (NO_MEMORY_OR_THREADS,), self.sites("threads", command)[0], 0), "")

    def test_writes(self):
        self.sweep_all("writes", (FAILED, 2))

    def test_reads(self):
        self.sweep_all("reads", (FAILED, BAD_INPUT, NO_MEMORY_OR_THREADS))

    def test_opens(self):
        self.sweep_all("opens", (FAILED, BAD_INPUT, NO_MEMORY_OR_THREADS, 2))

    def test_address_space(self):
        """ulimit -v, from too little for LibTorch to what is enough."""
        command, _ = self.commands()["capture"]

        def limited(mib):
            limits = (mib << 20, mib << 20)
            return self.problem("", command, (NO_MEMORY_OR_THREADS, FAILED), 0, 0, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits))

        sizes = [280, 400, 480, 523, 560, 620, 680, 740, 800]
        found = [f"  {mib} MiB: {problem}" for mib, problem in zip(sizes, self.pool.map(limited, sizes)) if problem]
        self.assertEqual(found, [], "\n".join(found))


if __name__ == "__main__":
    command_line.main()
