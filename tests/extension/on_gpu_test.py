# SPDX-License-Identifier: Apache-2.0
"""The command line with --device cuda beside itself on the CPU: on a trace whose layers differ, and with the methods that tests/extension adds.

    on_gpu_test.py HEADSCOPE_EXTENDED DATA_DIR DUMP_PROGRAM

DUMP_PROGRAM (tests/analysis/oracle_dump.cpp) writes the trace. What the CPU prints is held to NumPy by tests/app/differing_layers_test.py and
extension_test.py; here it is what a GPU's results are compared with. HEADSCOPE_TEST_DEVICE names another device than cuda: cuda:1 for the second GPU, cpu to
try the script itself. On a machine without that GPU it exits with 77: skipped.
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "app"))
import command_line
from command_line import run, TraceCase

DUMP = sys.argv[3]
DEVICE = os.environ.get("HEADSCOPE_TEST_DEVICE", "cuda")
DEVICE_ID = "cuda:0" if DEVICE == "cuda" else DEVICE  # as results name it
# Outputs and masses of fp32 heads; a GPU adds in another order, and its exponentials are off by some 1e-6.
CLOSE = 2e-4


class OnGpu(TraceCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([DUMP, cls.path], check=True, timeout=280)
        cls.differing = cls.path / "differing.h5"

    def compared(self, trace, device, *options):
        out = self.path / f"compared-{device.replace(':', '-')}.json"
        run("compare", trace, *options, "--device", device, "--repeat", 1, "--quiet", "--force", "-o", out)
        return {(one["layer"], one["head"], one["method"], one["parameters"]): one for one in json.loads(out.read_text())["results"]}

    def assert_same_results(self, trace, *options):
        mine, cpu = self.compared(trace, DEVICE, *options), self.compared(trace, "cpu", *options)
        self.assertEqual(set(mine), set(cpu))
        for key, result in mine.items():
            self.assertAlmostEqual(result["kept_fraction"], cpu[key]["kept_fraction"], delta=1e-9, msg=key)
            # A method that chooses by rounded tensors takes others of nearly equal score: as many, of nearly the same mass.
            rounded = "rounded" in result["note"]
            for name in ("cra_min", "cra_mean"):
                self.assertAlmostEqual(result[name], cpu[key][name], delta=1e-2 if rounded else CLOSE, msg=f"{key} {name}: {result['note']}")
            # Weights and outputs are rounded to the type of the tensors, half a unit in the last place each: 2^-9 of bf16.
            for name in ("relative_error", "cosine"):
                self.assertAlmostEqual(result[name], cpu[key][name], delta=3e-2 if rounded else 2 * 2.0**-9, msg=f"{key} {name}: {result['note']}")
            self.assertLess(result["kernel_error"], 2 * 2.0**-9, key)
        return mine

    def test_a_trace_whose_layers_differ_is_compared(self):
        results = self.assert_same_results(self.differing, "--method", "dense", "--method", "a-shape:n_sink=0,n_local=64", "--method",
                                           "sparq:reallocate=0", "--method", "quest:budget=128,dense_layers=0", "--method", "tova:k=70", "--decode-rows", 3)
        self.assertEqual({layer for layer, *_ in results}, {0, 1, 3})
        # What the GPU did not take itself was done by the CPU, and says why.
        for key, result in results.items():
            self.assertIn(result["device_id"], ("cpu", DEVICE_ID), key)
            if DEVICE != "cpu" and "cpu" in (result["device_id"], result["select_device_id"]):
                self.assertNotEqual(result["note"], "", key)
        if DEVICE != "cpu":
            self.assertTrue(any(result["device_id"] == DEVICE_ID for (layer, *_), result in results.items() if layer == 1), "sinks and a window")

    def test_statistics_of_layers_that_differ(self):
        found = {}
        for device in (DEVICE, "cpu"):
            out = self.path / f"statistics-of-{device.replace(':', '-')}.json"
            run("analyze", self.differing, "--device", device, "--quiet", "--force", "-o", out)
            found[device] = {(head["layer"], head["head"]): head for head in json.loads(out.read_text())["heads"]}
        self.assertEqual(set(found[DEVICE]), set(found["cpu"]))
        for key, head in found[DEVICE].items():
            for name in ("entropy_nats", "sink_mass", "learned_sink_mass", "largest_logit", "lse", "previous_token"):
                self.assertAlmostEqual(head[name], found["cpu"][key][name], delta=CLOSE * max(1, abs(found["cpu"][key][name])), msg=f"{key} {name}")

    def test_methods_that_choose_on_the_cpu_are_compared(self):
        results = self.assert_same_results(self.trace, "--heads", "8:*", "--method", "every-nth:n_local=100,stride=10", "--method",
                                           "heavy-hitters:k=64", "--decode-rows", 4)
        for (_, _, method, _), result in results.items():
            if method in ("every-nth", "heavy-hitters"):
                self.assertEqual(result["select_device_id"], "cpu", method)
                self.assertEqual(result["device_id"], DEVICE_ID, method)
                if DEVICE != "cpu":
                    self.assertNotEqual(result["note"], "", method)

    def test_methods_that_choose_on_the_cpu_are_tuned(self):
        for method in ("every-nth", "heavy-hitters"):
            found = []
            for device in (DEVICE, "cpu"):
                out = self.path / f"tuned-{method}-{device.replace(':', '-')}.json"
                run("tune", self.trace, "--method", method, "--target", "cra-mean=0.9", "--heads", "8:4", "--device", device, "--quiet", "--force", "-o", out)
                (head,) = json.loads(out.read_text())["heads"]
                found.append((head["method"], head["parameters"]))
            self.assertEqual(*found)

    def test_methods_that_choose_on_the_cpu_are_measured_by_bench(self):
        out = self.path / "bench.json"
        table = run("bench", "--device", DEVICE, "--lengths", 1024, "--methods", "every-nth:n_local=64,heavy-hitters:k=64", "--heads", "8:2",
                    "--repeat", 2, "-o", out).stdout
        rows = [row for section in json.loads(out.read_text())["sections"] for row in section["rows"]]
        for method in ("every-nth", "heavy-hitters"):
            row, = (row for row in rows if row["method"] and row["method"].startswith(method))
            self.assertGreater(row["total_ms"]["median"], 0)
        if DEVICE != "cpu":
            self.assertIn("selects on the CPU", table)

    def test_methods_that_choose_on_the_cpu_run_in_the_model(self):
        shown = []
        # Once with all of the prompt, once with too little to answer right.
        for budget in (512, 8):
            for device in (DEVICE, "cpu"):
                done = run("eval", "--task", "passkey", "--length", 512, "--samples", 2, "--device", device, "--attention",
                           f"every-nth:n_local={budget},stride=8", "--attention", f"heavy-hitters:k={budget}")
                shown.append(done.stdout.splitlines()[1].split()[:5])
                if device.startswith("cuda"):
                    self.assertRegex(done.stderr, "(?i)CPU")
        self.assertEqual(shown[0], shown[1])
        self.assertEqual(shown[2], shown[3])
        self.assertNotEqual(shown[0], shown[2])


if __name__ == "__main__":
    gpus = command_line.num_gpus()
    if DEVICE != "cpu" and int(DEVICE_ID.removeprefix("cuda:")) >= gpus:
        print(f"skipped: this machine has {gpus} NVIDIA GPUs, and the test takes {DEVICE_ID}")
        sys.exit(77)
    command_line.main()
