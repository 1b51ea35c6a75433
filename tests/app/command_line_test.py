"""Results of the command line on the real binary and the shipped model: what is printed, the schemas of what is written.

    command_line_test.py HEADSCOPE DATA_DIR
"""
import csv
import json
import os
import pathlib
import re

import h5py
import numpy

import command_line
from command_line import environment_without, MODEL, run, TraceCase


class Results(TraceCase):
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

    def test_text_that_is_not_utf8_is_shown_with_a_mark(self):
        odd = self.path / "odd.h5"
        odd.write_bytes(pathlib.Path(self.trace).read_bytes())
        with h5py.File(odd, "r+") as file:
            file["model"].attrs.create("name", numpy.bytes_(b"refer\xffnce_model"))
        self.assertEqual(json.loads(run("info", odd, "--json").stdout)["model"]["name"], "refer\ufffdnce_model")
        odd.unlink()

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

    def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(self):
        def spins(*arguments, **variables):
            environment = {**environment_without("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"), "OMP_DISPLAY_ENV": "verbose", **variables}
            report = run(*arguments, env=environment).stderr
            return re.findall(r"GOMP_SPINCOUNT = '(\d+)'", report)[-1]  # the OpenMP library's own words; the last start counts

        for command in ("capture", "demo", "eval"):
            self.assertEqual(spins(command, "--help"), "0")
        self.assertNotEqual(spins("methods", "--json"), "0")
        self.assertEqual(spins("capture", "--help", GOMP_SPINCOUNT="123"), "123")

    def test_demo_writes_the_report(self):
        out = self.path / "demo"
        run("demo", "-o", out, "--length", 1024, "--repeat", 1, "--quiet", env=environment_without("OMP_WAIT_POLICY"))  # as people start it
        html = (out / "report.html").read_text()
        pictures = list(out.glob("head-*.png"))
        self.assertEqual(len(pictures), 6)
        for picture in pictures:
            self.assertIn(picture.name, html)
        for name in ("vertical-slash", "sample-attention", "sparq", "s2-attention"):
            self.assertIn(name, html)
        run("demo", "-o", out, "--quiet", code=2)


def len_answer(trace):
    """Tokens of the task's answer: the prompt ends where the answer begins."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(MODEL + "/tokenizer.json")
    return len(tokenizer.encode(trace["task_answer"], add_special_tokens=False).ids)


if __name__ == "__main__":
    command_line.main()
