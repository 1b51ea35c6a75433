"""The command line's contracts on the real binary and the shipped model: results, schemas, exit codes, whole-or-nothing output.

    command_line_test.py HEADSCOPE DATA_DIR
"""
import csv
import json
import os
import pathlib
import pty
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy

HEADSCOPE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
MODEL = str(DATA / "reference_model")


def run(*arguments, code=0, **options):
    """Runs headscope and checks its exit code; a refusal must be one sentence on stderr and nothing on stdout."""
    done = subprocess.run([HEADSCOPE, *map(str, arguments)], capture_output=True, text=True, timeout=240, **options)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}, expected {code}\n{done.stderr}"
    if code in (1, 2, 3, 4):
        assert done.stdout == "", f"{arguments}: a refused run wrote to stdout: {done.stdout!r}"
        assert done.stderr.startswith("headscope: ") and done.stderr.count("\n") == 1, f"{arguments}: not one sentence: {done.stderr!r}"
    return done


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.trace = str(cls.path / "trace.h5")
        run("capture", MODEL, "--task", "passkey", "--length", 1024, "--decode", 8, "-o", cls.trace, "--quiet")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def names(self):
        return sorted(entry.name for entry in self.path.iterdir())

    def test_info_of_trace_and_checkpoint(self):
        trace = json.loads(run("info", self.trace, "--json").stdout)
        self.assertEqual((trace["kind"], trace["complete"], trace["num_tokens"]), ("trace", True, 1024 + 8 - len_answer(trace)))
        self.assertEqual(trace["model"]["num_qo_heads"], 8)
        model = json.loads(run("info", MODEL, "--json").stdout)
        self.assertEqual((model["num_layers"], model["num_kv_heads"], model["head_dim"]), (10, 4, 64))
        self.assertEqual(model["weights_sha256"], trace["model"]["weights_sha256"])
        self.assertIn("layers", run("info", MODEL).stdout)

    def test_the_generated_tokens_are_the_answer(self):
        with h5py.File(self.trace, "r") as file:
            self.assertEqual(file.attrs["complete"], 1)
        done = run("capture", MODEL, "--task", "passkey", "--length", 1024, "--decode", 6, "-o", self.path / "again.h5", "--quiet")
        answer = json.loads(run("info", self.path / "again.h5", "--json").stdout)["task_answer"].strip().rstrip(".")
        self.assertIn(answer, done.stderr)

    def test_analyze_formats_agree(self):
        for extension in ("json", "csv", "h5"):
            run("analyze", self.trace, "--heads", "2:*,8:4", "-o", self.path / f"statistics.{extension}", "--quiet")
        statistics = json.loads((self.path / "statistics.json").read_text())
        self.assertEqual(statistics["schema"], "headscope-statistics-1")
        rows = list(csv.DictReader((self.path / "statistics.csv").read_text().splitlines()))
        self.assertEqual((len(statistics["heads"]), len(rows)), (9, 9))
        kurtosis = [head["kurtosis"] for head in statistics["heads"]]
        numpy.testing.assert_allclose([float(row["kurtosis"]) for row in rows], kurtosis, rtol=1e-5)
        with h5py.File(self.path / "statistics.h5", "r") as file:
            numpy.testing.assert_allclose(file["results/kurtosis"][...], kurtosis, rtol=1e-12)
        table = run("analyze", self.trace, "--heads", "8:4", "--metrics", "kurtosis", "--quiet").stdout
        self.assertIn("8:4", table)

    def test_compare_dense_is_exact_and_windows_lose(self):
        out = self.path / "comparison.json"
        run("compare", self.trace, "--heads", "8:4", "--method", "dense", "--method", "a-shape:n_sink=4,n_local=64", "--method", "sparq:r=16,k=64",
            "--repeat", 2, "-o", out, "--quiet")
        results = {result["method"]: result for result in json.loads(out.read_text())["results"]}
        self.assertEqual(len(results), 3)
        self.assertEqual(results["dense"]["kept_fraction"], 1)
        self.assertLess(results["dense"]["relative_error"], 1e-5)
        self.assertLess(results["a-shape"]["kept_fraction"], 0.2)
        self.assertGreater(results["a-shape"]["relative_error"], results["dense"]["relative_error"])
        self.assertLess(results["a-shape"]["cra_min"], results["dense"]["cra_min"])
        for result in results.values():
            self.assertLessEqual(result["cra_min"], result["cra_p5"])
            self.assertLessEqual(result["cra_p5"], result["cra_mean"] + 1e-6)
        self.assertLess(results["a-shape"]["cra_p5"], results["a-shape"]["cra_mean"])
        table = run("compare", self.trace, "--heads", "8:4", "--method", "dense", "--repeat", 1, "--quiet").stdout
        for column in ("speed-up", "CRA min", "CRA 5 %", "CRA mean"):
            self.assertIn(column, table)

    def test_render_writes_a_picture_of_the_size_asked_for(self):
        out = self.path / "head.png"
        run("render", self.trace, "--head", "8:4", "--size", "300x300", "-o", out)
        header = out.read_bytes()[:24]
        self.assertEqual(header[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(int.from_bytes(header[16:20], "big"), 300)
        run("render", self.trace, "--head", "8:4", "--view", "mask", "--method", "vertical-slash:n_vertical=30,n_slash=100", "-o", self.path / "mask.png")

    def test_render_is_watched_and_interrupted(self):
        out = self.path / "large.png"
        command = [HEADSCOPE, "render", self.trace, "--head", "8:4", "--size", "3000x3000", "-o", str(out)]
        before = self.names()
        screen, terminal = pty.openpty()  # progress comes at once on a terminal
        process = subprocess.Popen(command, stderr=terminal, stdout=subprocess.PIPE)
        os.close(terminal)
        seen = b""
        while b"drawing" not in seen:
            seen += os.read(screen, 4096)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        os.close(screen)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.names(), before, "an interrupted picture left something behind")
        self.assertRegex(run(*command[1:]).stderr, r"^drawing: 100 %$")
        self.assertTrue(out.exists())
        self.assertEqual(run(*command[1:], "--quiet", "--force").stderr, "")

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

    def test_export_takes_a_part(self):
        out = self.path / "part.h5"
        run("export", self.trace, "--layers", "2,8", "--heads", "4,5", "--tokens", "100:200", "-o", out)
        part = json.loads(run("info", out, "--json").stdout)
        self.assertEqual((part["layers"], part["qo_heads"], part["num_tokens"], part["first_token"]), ([2, 8], [4, 5], 100, 100))
        self.assertIn("at its token 100", run("info", out).stdout)
        self.assertEqual(json.loads(run("info", self.trace, "--json").stdout)["first_token"], 0)
        self.assertNotIn("cut from", run("info", self.trace).stdout)

    def test_methods_lists_the_registry(self):
        methods = json.loads(run("methods", "--json").stdout)["methods"]
        names = {(method["name"], method["phase"]) for method in methods}
        for name in ("dense", "a-shape", "vertical-slash", "block-sparse", "s2-attention", "sample-attention"):
            self.assertIn((name, "prefill"), names)
        for name in ("dense", "sparq", "sliding-window"):
            self.assertIn((name, "decode"), names)
        self.assertIn("decode/dense (decode)", run("methods", "decode/dense").stdout)
        listed = [line.split()[0] for line in run("methods").stdout.splitlines()]
        self.assertEqual(sorted(listed), sorted(set(listed)), "two methods are listed under one name")
        self.assertEqual(sorted(listed), sorted(method["option"] for method in methods))
        for method in methods:
            for parameter in method["parameters"]:
                self.assertTrue(parameter["help"], f"{method['name']}.{parameter['name']} has no help")
                self.assertLessEqual(parameter["minimum"], parameter["default"])
                self.assertLessEqual(parameter["default"], parameter["maximum"])

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

    def test_text_that_is_not_utf8_is_shown_with_a_mark(self):
        odd = self.path / "odd.h5"
        odd.write_bytes(pathlib.Path(self.trace).read_bytes())
        with h5py.File(odd, "r+") as file:
            file["model"].attrs.create("name", numpy.bytes_(b"refer\xffnce_model"))
        self.assertEqual(json.loads(run("info", odd, "--json").stdout)["model"]["name"], "refer\ufffdnce_model")
        odd.unlink()

    def test_what_nothing_is_called_is_named(self):
        environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
        for name in ("nosuch", "nosuch.h5", "no/such"):
            self.assertIn(f"'{name}'", run(name, code=2, env=environment).stderr)
        self.assertIn("headscope analyze", run("anlyze", self.trace, code=2, env=environment).stderr)

    def test_a_full_disk_under_stdout_is_a_failure(self):
        evaluation = ("eval", "--task", "repeat", "--length", "512", "--samples", "1", "--quiet")
        captured = ("capture", MODEL, "--text", "a b c", "-o", str(self.path / "full_stdout.h5"), "--quiet")
        for arguments in (("--help",), ("methods",), ("render", "--help"), evaluation, captured):
            with open("/dev/full", "w") as full:
                done = subprocess.run([HEADSCOPE, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertEqual(len(re.findall("^headscope: stdout could not be written.*$", done.stderr, re.MULTILINE)), 1, done.stderr)

    def test_eval_refuses_before_it_loads_or_prints(self):
        # Without --quiet: a run that had begun would show the loading of the model.
        for options, said in ((("--length", "17000"), "16384 positions"), (("--length", "1024,100"), "at least"), (("--task", "nosuch"), "nosuch"),
                              (("--samples", "0"), "--samples"), (("--questions", "0"), "questions"), (("--dtype", "fp8"), "fp8")):
            with self.subTest(options=options):
                self.assertIn(said, run("eval", *options, code=2).stderr)
        self.assertIn("no-such-model", run("eval", self.path / "no-such-model", code=3).stderr)

    def test_eval_scores_and_shows_the_progress_of_the_whole_run(self):
        done = run("eval", "--task", "repeat,prose", "--length", "512,768", "--samples", "1")
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(rows[0][0], "task")
        self.assertEqual([row[:2] for row in rows[1:]], [["repeat", "512"], ["repeat", "768"], ["prose", "512"], ["prose", "768"]])
        last = re.findall(r"^evaluating: (\d+) of (\d+) tokens \(100 %\)", done.stderr, re.MULTILINE)
        self.assertEqual(len(last), 1, done.stderr)
        self.assertEqual(last[0][0], last[0][1])
        self.assertGreater(int(last[0][1]), 2 * (512 + 768) - 200)
        self.assertRegex(done.stderr, r"loading model: [0-9.]+ of [0-9.]+ MiB \(100 %\)")

    def test_the_data_folder_that_was_moved_is_the_one_that_is_read(self):
        moved = self.path / "moved"
        (moved / "prompts").mkdir(parents=True)
        (moved / "prompts" / "prose.txt").write_text("zebra zebra zebra\n" * 50)
        out = self.path / "zebra.h5"
        run("capture", MODEL, "--task", "passkey", "--length", 768, "--layers", 0, "--heads", 0, "-o", out, "--quiet",
            env={**os.environ, "HEADSCOPE_DATA_DIR": str(moved)})
        with h5py.File(out, "r") as file:
            self.assertIn(b"zebra zebra", bytes(file["tokens/text"][...]))
        for command in (("capture", MODEL, "--task", "passkey", "--length", 768, "-o", self.path / "none.h5"), ("eval", MODEL)):
            self.assertIn("elsewhere/prompts/prose.txt", run(*command, code=3, env={**os.environ, "HEADSCOPE_DATA_DIR": str(self.path / "elsewhere")}).stderr)

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
        environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
        self.assertIn("headscope demo", run(code=2, env=environment).stderr)

    def test_interrupt_leaves_the_beginning_of_the_full_trace(self):
        def command(out):
            return ["capture", MODEL, "--task", "kv", "--length", "3072", "--chunk", "64", "-o", str(out)]

        full, part = self.path / "whole.h5", self.path / "interrupted.h5"
        run(*command(full), "--quiet")
        process = subprocess.Popen([HEADSCOPE, *command(part)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        deadline = time.time() + 60
        while time.time() < deadline and process.poll() is None and (not part.exists() or part.stat().st_size < 8_000_000):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertEqual(stdout.strip(), str(part))
        self.assertIn("shorter", stderr)
        with h5py.File(full, "r") as whole, h5py.File(part, "r", swmr=True) as begun:
            tokens, rows = int(begun.attrs["tokens_flushed"]), int(begun.attrs["rows_flushed"])
            self.assertTrue(whole.attrs["complete"])
            self.assertFalse(begun.attrs["complete"])
            self.assertGreater(tokens, 0)
            self.assertLess(tokens, whole.attrs["tokens_flushed"])
            self.assertEqual(tokens % 64, 0, "a capture stops between passes")
            self.assertEqual(rows, tokens)
            for name in ("ids", "phase", "step"):
                numpy.testing.assert_array_equal(begun["tokens"][name][:tokens], whole["tokens"][name][:tokens])
            numpy.testing.assert_array_equal(begun["attention/q_rows"][:rows], whole["attention/q_rows"][:rows])
            for name in ("q", "k", "v", "lse"):
                self.assertEqual(stored_bytes(begun["attention"][name], tokens), stored_bytes(whole["attention"][name], tokens), name)
        run("analyze", part, "--heads", "0:0", "--max-rows", 64, "--quiet")

    def test_killed_capture_stays_readable(self):
        out = self.path / "killed.h5"
        process = subprocess.Popen([HEADSCOPE, "capture", MODEL, "--task", "kv", "--length", "16384", "-o", str(out), "--quiet"])
        deadline = time.time() + 60
        while time.time() < deadline and (not out.exists() or out.stat().st_size < 40_000_000):
            time.sleep(0.05)
        time.sleep(2.5)  # a flush a second
        process.kill()
        process.wait()
        info = json.loads(run("info", out, "--json").stdout)
        self.assertFalse(info["complete"])
        self.assertGreater(info["num_tokens"], 0)

    def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(self):
        def spins(*arguments, **variables):
            environment = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
            report = run(*arguments, env={**environment, "OMP_DISPLAY_ENV": "verbose", **variables}).stderr
            return re.findall(r"GOMP_SPINCOUNT = '(\d+)'", report)[-1]  # the OpenMP library's own words; the last start counts

        for command in ("capture", "demo", "eval"):
            self.assertEqual(spins(command, "--help"), "0")
        self.assertNotEqual(spins("methods", "--json"), "0")
        self.assertEqual(spins("capture", "--help", GOMP_SPINCOUNT="123"), "123")

    def test_demo_writes_the_report(self):
        out = self.path / "demo"
        run("demo", "-o", out, "--length", 1024, "--repeat", 1, "--quiet")
        html = (out / "report.html").read_text()
        pictures = list(out.glob("head-*.png"))
        self.assertEqual(len(pictures), 6)
        for picture in pictures:
            self.assertIn(picture.name, html)
        for name in ("vertical-slash", "sample-attention", "sparq", "s2-attention"):
            self.assertIn(name, html)
        run("demo", "-o", out, "--quiet", code=2)


def stored_bytes(dataset, count):
    """The first `count` tokens or rows of all heads, bit by bit as the file holds them (no conversion of bfloat16)."""
    shape = dataset.shape[:2] + (count,) + dataset.shape[3:]
    values = numpy.empty(shape, f"V{dataset.id.get_type().get_size()}")
    space = dataset.id.get_space()
    space.select_hyperslab((0,) * len(shape), shape)
    dataset.id.read(h5py.h5s.create_simple(shape), space, values, mtype=dataset.id.get_type())
    return values.tobytes()


def len_answer(trace):
    """Tokens of the task's answer: the prompt ends where the answer begins."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(MODEL + "/tokenizer.json")
    return len(tokenizer.encode(trace["task_answer"], add_special_tokens=False).ids)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
