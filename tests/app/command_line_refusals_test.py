"""What the command line refuses: exit codes, one sentence each, nothing left behind.

    command_line_refusals_test.py HEADSCOPE DATA_DIR
"""
import json
import os
import pathlib
import re
import resource
import subprocess

import command_line
from command_line import DATA, environment_without, HEADSCOPE, MODEL, run, TraceCase


class Refusals(TraceCase):
    def test_wrong_usage_is_two(self):
        before = self.names()
        run("capture", MODEL, "-o", self.path / "none.h5", code=2)
        run("capture", MODEL, "--text", "a", "--task", "kv", "-o", self.path / "none.h5", code=2)
        run("capture", MODEL, "--task", "no-such-task", "-o", self.path / "none.h5", code=2)
        # Without --quiet: what the model's config refuses is refused before weights are loaded, so no progress is printed either.
        for options in (("--layers", "99"), ("--layers", "3-1"), ("--heads", "8"), ("--heads", "x"), ("--rows", "first:3"), ("--rows", "last:0"),
                        ("--decode", "16384"), ("--dtype", "fp8"), ("--device", "tpu"), ("--chunk", "0")):
            with self.subTest(options=options):
                run("capture", MODEL, "--text", "a", *options, "-o", self.path / "none.h5", code=2)
        run("capture", MODEL, "--text", "a", "-o", self.trace, code=2)
        run("compare", self.trace, "--method", "no-such-method", code=2)
        run("compare", self.trace, "--method", "a-shape:n_sink=many", code=2)
        run("analyze", self.trace, "--heads", "77:0", code=2)
        run("analyze", self.trace, "-o", self.path / "x.txt", code=2)
        run("render", self.trace, "--head", "*:0", "-o", self.path / "x.png", code=2)
        run("render", self.trace, "--head", "8:4", "-o", self.path / "missing" / "x.png", code=2)
        run("no-such-command", "--flag", code=2)
        for options, said in ((("--threads", "-4"), "0 to 4096"), (("--max-rows", "-5"), "from 0"), (("--threads", "abc"), "abc is not"),
                              (("--metrics", "kurtosis", "-o", self.path / "none.json"), "--metrics")):
            with self.subTest(options=options):
                self.assertIn(said, run("analyze", self.trace, *options, code=2).stderr)
        for options in (("--decode-rows", "0"), ("--repeat", "0"), ("--repeat", "1.5")):
            with self.subTest(options=options):
                self.assertIn(options[0], run("compare", self.trace, "--method", "dense", *options, code=2).stderr)
        self.assertIn("--seed", run("capture", MODEL, "--task", "kv", "--seed", "-1", "-o", self.path / "none.h5", code=2).stderr)
        self.assertIn("--length", run("eval", "--length", "512,abc", code=2).stderr)
        for options in (("--heads", "99999999999:1"), ("--heads", "8:0"), ("--heads", "8:"), ("--head-dim", "9"), ("--repeats", "0")):
            with self.subTest(options=options):
                self.assertIn(options[0], run("bench", "--lengths", 64, "--methods", "dense", *options, code=2).stderr.replace("--repeat:", "--repeats"))
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

    def test_what_nothing_is_called_is_named(self):
        environment = environment_without("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
        for name in ("nosuch", "nosuch.h5", "no/such"):
            self.assertIn(f"'{name}'", run(name, code=2, env=environment).stderr)
        self.assertIn("headscope analyze", run("anlyze", self.trace, code=2, env=environment).stderr)

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
        model.mkdir()
        tokenizer = json.loads((DATA / "reference_model" / "tokenizer.json").read_text())
        tokenizer["added_tokens"].append({"id": 4100, "content": "<|extra|>", "special": True, "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False})
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        (model / "config.json").write_text((DATA / "reference_model" / "config.json").read_text())
        for command in (("capture", model, "--text", "a <|extra|> b", "-o", self.path / "none.h5"), ("eval", model)):
            said = run(*command, code=3).stderr  # no weights are there: they were not looked for
            self.assertIn("tokenizer.json", said)
            self.assertIn("<|extra|>", said)

    def test_bad_files_are_three(self):
        broken = self.path / "broken.h5"
        broken.write_bytes(pathlib.Path(self.trace).read_bytes()[:5000])
        self.assertIn("broken.h5", run("info", broken, code=3).stderr)
        (self.path / "empty.h5").write_bytes(b"")
        run("analyze", self.path / "empty.h5", code=3)
        run("info", self.path / "no-such-file.h5", code=3)
        model = self.path / "broken_model"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text("{")
        self.assertIn("config.json", run("info", model, code=3).stderr)
        run("capture", model, "--text", "a", "-o", self.path / "none.h5", code=3)

    def test_a_missing_device_is_four(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("this machine has a GPU")
        run("capture", MODEL, "--text", "a", "--device", "cuda", "-o", self.path / "none.h5", code=4)
        run("compare", self.trace, "--heads", "8:4", "--method", "dense", "--device", "cuda", code=4)

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

    def test_a_full_disk_under_stdout_is_a_failure(self):
        evaluation = ("eval", "--task", "repeat", "--length", "512", "--samples", "1", "--quiet")
        captured = ("capture", MODEL, "--text", "a b c", "-o", str(self.path / "full_stdout.h5"), "--quiet")
        for arguments in (("--help",), ("methods",), ("render", "--help"), evaluation, captured):
            with open("/dev/full", "w") as full:
                done = subprocess.run([HEADSCOPE, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertEqual(len(re.findall("^headscope: stdout could not be written.*$", done.stderr, re.MULTILINE)), 1, done.stderr)


if __name__ == "__main__":
    command_line.main()
