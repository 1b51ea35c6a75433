# SPDX-License-Identifier: Apache-2.0
"""What the command line refuses: exit codes, one sentence each, nothing left behind.

    command_line_refusals_test.py HEADSCOPE DATA_DIR
"""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess

import numpy
import safetensors.numpy

import command_line
from command_line import DATA, environment_without, HEADSCOPE, MODEL, run, TraceCase, without_root


class Refusals(TraceCase):
    def test_wrong_usage_is_two(self):
        before = self.names()
        run("capture", MODEL, "-o", self.path / "none.h5", code=2)
        run("capture", MODEL, "--text", "a", "--task", "kv", "-o", self.path / "none.h5", code=2)
        # Without --quiet: what the model's config refuses is refused before weights are loaded, so no progress is printed either.
        for options in (("--layers", "99"), ("--layers", "3-1"), ("--heads", "8"), ("--heads", "x"), ("--rows", "first:3"), ("--rows", "every:0"),
                        ("--decode", "99999"), ("--dtype", "fp8"), ("--device", "tpu"), ("--chunk", "0")):
            with self.subTest(options=options):
                self.assertIn(options[0], run("capture", MODEL, "--text", "a", *options, "-o", self.path / "none.h5", code=2).stderr)
        self.assertIn("decoding adds 16384", run("capture", MODEL, "--text", "a", "--decode", "16384", "-o", self.path / "none.h5", code=2).stderr)
        for said, *options in (("--length 17000", "kv", "--length", 17000), ("--length 20", "kv", "--length", 20), ('--task "no-such"', "no-such")):
            with self.subTest(options=options):
                self.assertIn(said, run("capture", MODEL, "--task", *options, "-o", self.path / "none.h5", code=2).stderr)
        # It was refused as "10".
        self.assertIn("--layers 0-99: the model has no layer 10, only 0 to 9",
                      run("capture", MODEL, "--text", "a", "--layers", "0-99", "-o", self.path / "none.h5", code=2).stderr)
        run("capture", MODEL, "--text", "a", "-o", self.trace, code=2)
        for name in ("none.csv", "none.json", "none"):  # HDF5 was written under any name
            said = run("capture", MODEL, "--text", "a", "-o", self.path / name, code=2).stderr
            self.assertIn(".h5 or .hdf5", said)
            self.assertIn("an export of the trace may be .csv or .json", said)
        for command in (("analyze", self.trace), ("render", self.trace, "--head", "8:4", "-o", self.path / "none.png"),
                        ("tune", self.trace, "--method", "a-shape", "--target", "cra=0.9")):
            self.assertIn('--device "gpu"', run(*command, "--device", "gpu", code=2).stderr)
        run("compare", self.trace, "--method", "no-such-method", code=2)
        run("compare", self.trace, "--method", "a-shape:n_sink=many", code=2)
        # It was taken, and the search went over it.
        self.assertIn("n_sink is a budget", run("tune", self.trace, "--method", "a-shape:n_sink=7", "--target", "cra=0.9", code=2).stderr)
        run("analyze", self.trace, "--heads", "77:0", code=2)
        # Half of the range meant nothing, in silence.
        self.assertIn("ends past layer 9", run("analyze", self.trace, "--heads", "0-99:1", code=2).stderr)
        for options in (("--layers", "0-99"), ("--heads", "0-99")):  # as capture says it
            self.assertIn("the trace holds no", run("export", self.trace, *options, "-o", self.path / "none.h5", code=2).stderr)
        run("analyze", self.trace, "-o", self.path / "x.txt", code=2)
        run("render", self.trace, "--head", "*:0", "-o", self.path / "x.png", code=2)
        run("render", self.trace, "--head", "8:4", "-o", self.path / "missing" / "x.png", code=2)
        run("no-such-command", "--flag", code=2)
        for options, said in ((("--threads", "-4"), "0 to 4096"), (("--max-rows", "-5"), "from 0"), (("--threads", "abc"), 'must be an integer from 0 to 4096, not "abc"'),
                              (("--metrics", "kurtosis", "-o", self.path / "none.json"), "--metrics"), (("--cra-targets", "0.9,,0.95"), '--cra-targets "0.9,,0.95"')):
            with self.subTest(options=options):
                self.assertIn(said, run("analyze", self.trace, *options, code=2).stderr)
        for options in (("--decode-rows", "0"), ("--repeat", "0"), ("--repeat", "1.5"), ("--device", "gpu")):
            with self.subTest(options=options):
                self.assertIn(options[0], run("compare", self.trace, "--method", "dense", *options, code=2).stderr)
        self.assertIn("--seed", run("capture", MODEL, "--task", "kv", "--seed", "-1", "-o", self.path / "none.h5", code=2).stderr)
        self.assertIn("--length", run("eval", "--length", "512,abc", code=2).stderr)
        for options in (("--heads", "99999999999:1"), ("--heads", "8:0"), ("--heads", "8:"), ("--head-dim", "9"), ("--repeats", "0")):
            with self.subTest(options=options):
                self.assertIn(options[0], run("bench", "--lengths", 64, "--methods", "dense", *options, code=2).stderr.replace("--repeat:", "--repeats"))
        self.assertIn("latent/tokens-64: attention over chosen tokens runs on a GPU", run("bench", "--lengths", 64, "--methods", "latent/tokens-64", code=2).stderr)
        self.assertIn("fp8/dense: attention in FP8 runs on a GPU", run("bench", "--lengths", 64, "--methods", "fp8/dense", code=2).stderr)
        run("demo", "-o", self.path / "empty_demo", "--model", self.path / "no-such-model", "--quiet", code=3)
        self.assertEqual(self.names(), before, "a refused run left a file behind")

    def test_the_trace_is_never_the_output(self):
        link = self.path / "link.h5"
        link.symlink_to(self.trace)
        before = pathlib.Path(self.trace).read_bytes()
        for target in (self.trace, link):
            self.assertIn("same file", run("analyze", self.trace, "-o", target, "--force", code=2).stderr)
            self.assertIn("same file", run("compare", self.trace, "--method", "dense", "-o", target, "--force", code=2).stderr)
            self.assertIn("same file", run("export", self.trace, "-o", target, "--force", code=2).stderr)
        self.assertEqual(pathlib.Path(self.trace).read_bytes(), before)
        link.unlink()

    def test_a_folder_that_cannot_be_written_is_refused_before_the_work(self):
        folder = self.path / "read_only"
        folder.mkdir()
        folder.chmod(0o555)
        # Without --quiet: a run that had begun would show progress.
        for command in (("analyze", self.trace, "-o", folder / "a.json"), ("export", self.trace, "-o", folder / "a.csv"),
                        ("render", self.trace, "--head", "8:4", "-o", folder / "a.png"), ("demo", "-o", folder),
                        ("capture", MODEL, "--text", "a", "-o", folder / "a.h5")):
            with self.subTest(command=command):
                self.assertIn("choose a folder that you may write to", run(*command, code=2, preexec_fn=without_root).stderr)

    def test_only_regular_files_are_replaced(self):
        folder = self.path / "odd"
        folder.mkdir()
        (folder / "real.h5").write_text("kept")
        (folder / "link.h5").symlink_to(folder / "real.h5")
        (folder / "dangling.h5").symlink_to(folder / "nowhere.h5")
        os.mkfifo(folder / "pipe.h5")
        for name, said, *command in (("link.h5", "link", "analyze", self.trace, "--force"), ("pipe.h5", "not a regular file", "analyze", self.trace, "--force"),
                                     ("dangling.h5", "link", "export", self.trace), ("dangling.h5", "link", "capture", MODEL, "--text", "a")):
            with self.subTest(name=name, command=command):
                self.assertIn(said, run(*command, "-o", folder / name, code=2).stderr)
        self.assertEqual((folder / "real.h5").read_text(), "kept")
        self.assertTrue((folder / "pipe.h5").is_fifo())
        self.assertEqual(sorted(os.listdir(folder)), ["dangling.h5", "link.h5", "pipe.h5", "real.h5"])

    def test_the_longest_names_are_taken_and_longer_ones_refused(self):
        folder = self.path / "long"
        folder.mkdir()
        longest = folder / ("n" * 252 + ".h5")
        run("capture", MODEL, "--text", "a b", "--layers", 0, "-o", longest, "--quiet")
        run("capture", MODEL, "--text", "a b c", "--layers", 0, "-o", longest, "--quiet", "--force")
        run("analyze", longest, "--heads", "0:0", "-o", folder / ("n" * 251 + ".csv"), "--quiet")
        self.assertEqual(len(os.listdir(folder)), 2)
        self.assertIn("choose a shorter name", run("analyze", self.trace, "-o", folder / ("n" * 252 + ".csv"), code=2).stderr)
        self.assertIn("too long", run("info", "n" * 300, code=3).stderr)

    def test_demo_refuses_what_stands_in_its_way_before_it_works(self):
        folder = self.path / "occupied"
        folder.mkdir()
        for name in ("statistics.json", "head-9-7.png"):
            (folder / name).write_text("kept")
            self.assertIn(name, run("demo", "-o", folder, code=2).stderr)
            self.assertEqual([entry.name for entry in folder.iterdir()], [name])
            (folder / name).unlink()

    def test_a_trace_without_query_rows_is_refused_by_what_needs_them(self):
        few, none = self.path / "few_rows.h5", self.path / "no_rows.h5"
        run("capture", MODEL, "--task", "passkey", "--length", 512, "--rows", "every:100", "--layers", 0, "-o", few, "--quiet")
        run("export", few, "--tokens", "5:60", "-o", none, "--quiet")
        for command in (("analyze", none, "-o", self.path / "none.json"), ("compare", none, "--method", "dense"),
                        ("render", none, "--head", "0:0", "-o", self.path / "none.png")):
            with self.subTest(command=command):
                said = run(*command, code=3).stderr
                self.assertIn("no query rows", said)
                self.assertIn("no_rows.h5", said)
        few.unlink()
        none.unlink()

    def test_heads_that_no_method_runs_on_are_refused_before_the_work(self):
        model, trace = self.path / "odd_head_dim", self.path / "odd_head_dim.h5"
        make_model(model, head_dim=18)
        run("capture", model, "--text", "a b c d e f", "-o", trace, "--quiet")
        run("analyze", trace, "--quiet")
        said = run("compare", trace, "--method", "dense", code=3).stderr
        for part in (str(trace), "head_dim is 18", "multiple of 8"):
            self.assertIn(part, said)
        said = run("demo", "-o", self.path / "odd_demo", "--model", model, code=3).stderr
        self.assertIn(str(model), said)
        self.assertFalse((self.path / "odd_demo").exists())
        # A part of such a trace was not even analysed.
        part = self.path / "odd_part.h5"
        run("export", trace, "--tokens", "2:5", "-o", part, "--quiet")
        run("analyze", part, "--quiet")
        run("render", part, "--head", "0:0", "--size", "32x32", "-o", self.path / "odd_part.png", "--quiet")
        trace.unlink()
        part.unlink()
        (self.path / "odd_part.png").unlink()

    def test_no_option_is_passed_over_in_silence(self):
        out = self.path / "none.h5"
        for command, said in (
                (("capture", MODEL, "--text", "hi", "--length", 99, "-o", out), ("--length", "--task")),
                (("capture", MODEL, "--text", "hi", "--seed", 4, "-o", out), ("--seed", "--task")),
                (("capture", MODEL, "--text", "", "-o", out), ("--text", "is empty")),
                (("capture", MODEL, "--text", "hi", "-o", ""), ("--output", "is empty")),
                (("analyze", self.trace, "-o", ""), ("--output", "is empty")),
                (("analyze", self.trace, "--heads", ""), ("--heads", "is empty")),
                (("compare", self.trace, "--method", "a-shape:n_sink=1,n_sink=2"), ("a-shape", "n_sink is given twice"))):
            with self.subTest(command=command):
                refused = run(*command, code=2).stderr
                for part in said:
                    self.assertIn(part, refused)

    def test_refusals_name_the_option_and_what_to_do(self):
        out = self.path / "none.h5"
        for options, said in ((("--layers", "0-999999"), ("--layers 0-999999", "no layer 10", "0 to 9", "choose")), (("--heads", "8"), ("--heads 8", "0 to 7", "choose")),
                              (("--decode", "-1"), ("--decode", "from 0")), (("--chunk", "-1"), ("--chunk", "from 1"))):
            with self.subTest(options=options):
                refused = run("capture", MODEL, "--text", "a", *options, "-o", out, code=2).stderr
                for part in said:
                    self.assertIn(part, refused)
        for tokens in ("abc", "1.5", "1,x", "-3", "99999999999", "1;2"):
            refused = run("capture", MODEL, f"--tokens={tokens}", "-o", out, code=2).stderr
            self.assertRegex(refused, r"--tokens \S+: it is not a list of token ids; write whole numbers such as 1,2,3")
        for tokens in ("1 2 3", "1,2,3", "1, 2, 3"):
            self.assertIn(" 3 prompt tokens", run("capture", MODEL, "--dry-run", "-o", out, "--tokens", tokens).stdout)
        self.assertIn("or it is auto", run("capture", MODEL, "--text", "a", "--device", "foo", "-o", out, code=2).stderr)
        earlier = self.path / "earlier"
        earlier.mkdir()
        (earlier / "manifest.json").write_text("{}")
        refused = run("capture", MODEL, "--prompts", self.path / "none.jsonl", "-o", earlier, code=2).stderr
        for part in (f"{earlier}: the folder holds the traces of an earlier run", "--resume", "--force"):
            self.assertIn(part, refused)
        refused = run("capture", MODEL, "--task", "kv", "--seed", "-1", "-o", out, code=2).stderr
        self.assertNotIn("--help", refused, "what is allowed is in the sentence itself")
        for options, said in ((("--length", 16385), "--length 16385: the model has 16384 positions (max_position_embeddings); choose a smaller number"),
                              (("--length", 16384, "--decode", 20), "--length 16384: the prompt has 16378 tokens and decoding adds 20, but the model has 16384 positions"),
                              (("--length", 16384, "--decode", 20), "; choose a smaller number or decode fewer tokens")):
            self.assertIn(said, run("capture", MODEL, "--task", "passkey", *options, "-o", out, code=2).stderr)
        self.assertIn("none is given", run("capture", MODEL, "-o", out, code=2).stderr)
        self.assertIn("more is given", run("capture", MODEL, "--text", "a", "--task", "kv", "-o", out, code=2).stderr)
        long_prompt = self.path / "long.txt"
        # Ten million spaces are one word: splitting them gave up, and the message named no file.
        long_prompt.write_text(" " * 10_000_000)
        refused = run("capture", MODEL, "--prompt", long_prompt, "-o", out, code=2).stderr
        self.assertRegex(refused, r"long.txt: the prompt has at least [0-9]+ tokens, .*; use a shorter prompt")
        long_prompt.write_text("zebra " * 30000)
        refused = run("capture", MODEL, "--prompt", long_prompt, "-o", out, code=2).stderr
        self.assertRegex(refused, r"\S+: the prompt has at least [0-9]+ tokens, but the model has 16384 positions \(max_position_embeddings\); use a shorter prompt")

    def test_what_nothing_is_called_is_named(self):
        environment = environment_without("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
        for name in ("nosuch", "nosuch.h5", "no/such"):
            self.assertIn(f'"{name}"', run(name, code=2, env=environment).stderr)
        self.assertIn("headscope analyze", run("anlyze", self.trace, code=2, env=environment).stderr)
        # One that may be left out, and ones that have to be there, of which only the lack was told.
        for said, *arguments in (("did you mean --threads?", "analyze", self.trace, "--thread", "2"),
                                 ("did you mean --target?", "tune", self.trace, "--method", "a-shape", "--taget", "cra=0.9"),
                                 ("did you mean --output?", "export", self.trace, "--ouput", self.path / "none.h5")):
            with self.subTest(arguments=arguments):
                self.assertIn(said, run(*arguments, code=2).stderr)
        self.assertIn("--target is required", run("tune", self.trace, "--method", "a-shape", code=2).stderr)

    def test_eval_refuses_before_it_loads_or_prints(self):
        # Without --quiet: a run that had begun would show the loading of the model.
        for options, said in ((("--length", "17000"), "16384 positions"), (("--length", "1024,100"), "at least"), (("--task", "nosuch"), "nosuch"),
                              (("--samples", "0"), "--samples"), (("--questions", "0"), "questions"), (("--dtype", "fp8"), "fp8")):
            with self.subTest(options=options):
                self.assertIn(said, run("eval", *options, code=2).stderr)
        self.assertIn("no-such-model", run("eval", self.path / "no-such-model", code=3).stderr)

    def test_capture_never_replaces_the_model(self):
        model = self.path / "model_of_its_own"
        model.mkdir()
        shard = min(pathlib.Path(MODEL).glob("*.safetensors"))
        for file in (pathlib.Path(MODEL) / "config.json", pathlib.Path(MODEL) / "tokenizer.json", shard):
            (model / file.name).write_bytes(file.read_bytes())
        before = {file: file.read_bytes() for file in model.iterdir()}
        for file in before:
            self.assertIn("same file", run("capture", model, "--text", "a", "-o", file, "--force", code=2).stderr)
        self.assertEqual({file: file.read_bytes() for file in model.iterdir()}, before)

    def test_a_tokenizer_with_more_tokens_than_the_model_is_three(self):
        model = self.path / "small_vocabulary"
        shutil.copytree(MODEL, model)
        tokenizer = json.loads((DATA / "reference_model" / "tokenizer.json").read_text())
        tokenizer["added_tokens"].append({"id": 4100, "content": "<|extra|>", "special": True, "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False})
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        for command in (("capture", model, "--text", "a <|extra|> b", "-o", self.path / "none.h5"), ("eval", model)):
            said = run(*command, code=3).stderr
            self.assertIn("tokenizer.json", said)
            self.assertIn("<|extra|>", said)

    def test_bad_files_are_three(self):
        broken = self.path / "broken.h5"
        broken.write_bytes(pathlib.Path(self.trace).read_bytes()[:5000])
        self.assertIn("broken.h5", run("info", broken, code=3).stderr)
        # A lower room says what would help; only here a subcommand is named for it.
        for said, *arguments in (("open a trace that headscope wrote; `headscope capture` writes one", "analyze", MODEL + "/config.json"),
                                 ("give an index file that headscope wrote; `headscope compare` and `headscope bench` write one", "bench", "--index", MODEL + "/config.json"),
                                 ("or MInference's best patterns; `headscope tune` writes one", "compare", self.trace, "--config", MODEL + "/config.json")):
            with self.subTest(arguments=arguments):
                self.assertIn(said, run(*arguments, code=3).stderr)
        (self.path / "empty.h5").write_bytes(b"")
        run("analyze", self.path / "empty.h5", code=3)
        run("info", self.path / "no-such-file.h5", code=3)
        model = self.path / "broken_model"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text("{")
        self.assertIn("config.json", run("info", model, code=3).stderr)
        run("capture", model, "--text", "a", "-o", self.path / "none.h5", code=3)

    def test_a_prompt_of_nothing_but_spaces_is_refused_at_once(self):
        def user_seconds(text):
            prompt = self.path / "long.txt"
            prompt.write_bytes(text)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            said = run("capture", MODEL, "--prompt", prompt, "-o", self.path / "none.h5", code=2, anew=True).stderr
            self.assertIn("long.txt: the prompt has at least ", said)
            prompt.unlink()
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

        # As soon as words are, of which none is read behind the model's last position. One of both may run beside other programs: once is enough.
        self.assertTrue(any(user_seconds(b" " * 10_000_000) < 2 * user_seconds(b"word " * 2_000_000) for _ in range(6)))
        self.assertLess(user_seconds(b"word " * 2_000_000), 20)

    def test_info_says_what_capture_would_refuse(self):
        for refusal in ("capture_refusal", "text_refusal"):
            self.assertIsNone(json.loads(run("info", MODEL, "--json").stdout)[refusal])
        self.assertNotIn("refuse", run("info", MODEL).stdout)
        folder = self.path / "unfit"
        make_model(folder, head_dim=16)
        self.assertIsNone(json.loads(run("info", folder, "--json").stdout)["capture_refusal"])
        good = safetensors.numpy.load_file(folder / "model.safetensors")

        def refused(words, weights=good):
            safetensors.numpy.save_file(weights, folder / "model.safetensors")
            said = json.loads(run("info", folder, "--json").stdout)
            self.assertIn(words, said["capture_refusal"])
            self.assertIn("capture would refuse it: ", run("info", folder).stdout)
            self.assertIn(words, run("capture", folder, "--text", "a", "-o", self.path / "none.h5", code=3).stderr)
            if "has shape" not in words:  # the files of one model belong together in Python, too
                self.assertIn("headscope.record of the Python package", said["capture_refusal"])
            return said

        name = "model.norm.weight"
        refused("is missing", {key: value for key, value in good.items() if key != name})
        refused("has shape", good | {name: good[name][:8].copy()})
        refused("is not part of this architecture", good | {"more": good[name]})
        refused("dtype F64", good | {name: good[name].astype(numpy.float64)})
        self.assertIsNone(refused("is missing", {})["dtype"], "no tensor has no dtype")
        safetensors.numpy.save_file(good, folder / "model.safetensors")
        (folder / "tokenizer.json").unlink()
        said = json.loads(run("info", folder, "--json").stdout)
        self.assertIsNone(said["capture_refusal"])
        self.assertIn("tokenizer.json", said["text_refusal"])
        shown = run("info", folder).stdout
        self.assertIn("capture takes token ids alone (--tokens): ", shown)
        self.assertNotIn("would refuse", shown)
        for prompt in (("--text", "a"), ("--task", "kv")):
            said = run("capture", folder, *prompt, "-o", self.path / "none.h5", code=3).stderr
            self.assertIn("has no tokenizer.json", said)
            self.assertIn("or give the prompt as token ids, which needs no tokenizer; --tokens takes them", said)
        prompts = self.path / "texts.jsonl"
        prompts.write_text('{"text": "a"}\n')
        said = run("capture", folder, "--prompts", prompts, "-o", self.path / "texts", code=3).stderr
        self.assertIn('; a line of --prompts takes them as {"tokens": [..]}', said)
        run("capture", folder, "--tokens", "1,2,3", "-o", self.path / "ids.h5", "--quiet")

    def test_a_missing_device_is_four(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("this machine has a GPU")
        for device in ("cuda", "cuda:1"):
            for command in (("capture", MODEL, "--text", "a", "-o", self.path / "none.h5"), ("compare", self.trace, "--heads", "8:4", "--method", "dense"),
                            ("analyze", self.trace), ("render", self.trace, "--head", "8:4", "-o", self.path / "none.png"),
                            ("tune", self.trace, "--method", "a-shape", "--target", "cra=0.9")):
                self.assertRegex(run(*command, "--device", device, code=4).stderr, "--device cuda:[01]: ")

    def test_a_gpu_that_does_not_exist_is_named_by_every_command(self):
        commands = (("capture", MODEL, "--text", "a", "-o", self.path / "none.h5"), ("compare", self.trace, "--heads", "8:4", "--method", "dense"),
                    ("bench", "--lengths", 64, "--methods", "dense"), ("eval", "--task", "repeat", "--length", 512))
        for command in commands:
            for device in ("cuda:", "cuda:x"):  # tests/base/device_test.cpp has more
                said = run(*command, "--device", device, code=2).stderr
                self.assertIn(f'--device "{device}": it must be cpu, cuda or cuda:N', said)
            # No machine has as many. Without a GPU, or in a build without CUDA, there is none of any number.
            said = run(*command, "--device", "cuda:127", code=4).stderr
            self.assertIn("--device cuda:127: ", said)
            if os.path.exists("/dev/nvidia0"):
                self.assertRegex(said, "this machine has [1-9]")

    def test_no_display_says_what_to_do(self):
        environment = environment_without("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
        self.assertIn("headscope demo", run(code=2, env=environment).stderr)

    def test_failures_name_the_output_and_not_its_temporary_name(self):
        folder = self.path / "full"
        folder.mkdir()
        out = folder / "part.h5"

        def limit():  # for this process the disk is full after 4 KiB
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        for command in (("export", self.trace, "-o", out), ("analyze", self.trace, "--heads", "8:4", "-o", out),
                        ("render", self.trace, "--head", "8:4", "-o", folder / "map.png"),
                        ("capture", MODEL, "--text", "hi", "-o", folder / "new.h5")):
            said = run(*command, "--quiet", code=1, preexec_fn=limit).stderr
            self.assertIn(str(command[-1]), said)
            self.assertNotIn("partial", said)
        self.assertEqual(list(folder.iterdir()), [])

    def test_help_is_given_beside_what_would_be_refused(self):
        for command in (("analyze", "--device", "foo", "--help"), ("analyze", "--max-rows", "foo", "--help"), ("eval", "--help", "--device", "foo")):
            self.assertEqual(run(*command).stdout, run(command[0], "--help").stdout, command)
        run("analyze", self.trace, "--device", "foo", code=2)

    def test_a_full_disk_under_stdout_is_a_failure(self):
        evaluation = ("eval", "--task", "repeat", "--length", "512", "--samples", "1", "--quiet")
        captured = ("capture", MODEL, "--text", "a b c", "-o", str(self.path / "full_stdout.h5"), "--quiet")
        for arguments in (("--help",), ("methods",), ("render", "--help"), evaluation, captured):
            with open("/dev/full", "w") as full:
                done = subprocess.run([HEADSCOPE, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertEqual(len(re.findall("^headscope: stdout could not be written.*$", done.stderr, re.MULTILINE)), 1, done.stderr)


def make_model(folder, head_dim):
    """A checkpoint of one layer and two heads with random weights, and the shipped model's tokenizer."""
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((DATA / "reference_model" / "tokenizer.json").read_bytes())
    config = json.loads((DATA / "reference_model" / "config.json").read_text())
    hidden = 2 * head_dim
    config.update(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=head_dim, hidden_size=hidden, intermediate_size=hidden,
                  tie_word_embeddings=True, torch_dtype="float32")
    (folder / "config.json").write_text(json.dumps(config))
    random = numpy.random.default_rng(1)
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden), "model.norm.weight": (hidden,),
              layer + "input_layernorm.weight": (hidden,), layer + "post_attention_layernorm.weight": (hidden,),
              layer + "self_attn.q_proj.weight": (2 * head_dim, hidden), layer + "self_attn.k_proj.weight": (head_dim, hidden),
              layer + "self_attn.v_proj.weight": (head_dim, hidden), layer + "self_attn.o_proj.weight": (hidden, 2 * head_dim),
              layer + "mlp.gate_proj.weight": (hidden, hidden), layer + "mlp.up_proj.weight": (hidden, hidden),
              layer + "mlp.down_proj.weight": (hidden, hidden)}
    weights = {name: random.normal(size=shape).astype(numpy.float32) for name, shape in shapes.items()}
    safetensors.numpy.save_file(weights, folder / "model.safetensors")


if __name__ == "__main__":
    command_line.main()
