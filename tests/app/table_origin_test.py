# SPDX-License-Identifier: Apache-2.0
"""Every CSV that a command writes says in each row what it is of: trace, model, device where something was computed, date and version; so does every
JSON document, once.

    table_origin_test.py HEADSCOPE DATA_DIR
"""
import csv
import datetime
import json
import pathlib

from command_line import TraceCase, main, run


class TableOrigin(TraceCase):
    def table(self, name, *arguments):
        out = self.path / f"{name}.csv"
        run(*arguments, "--quiet", "-o", out)
        with open(out, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertTrue(rows)
        self.assertTrue(all(None not in row and None not in row.values() for row in rows), f"{name}: as many cells as names in every row")
        return rows

    def origin(self, name, *arguments):
        """What a JSON document says of itself as a whole."""
        out = self.path / f"{name}.json"
        run(*arguments, "--quiet", "-o", out)
        return json.loads(out.read_text())["origin"]

    def check(self, rows, trace=None, device="cpu", model="reference_model", date="written_at"):
        version = run("--version").stdout.split()[-1]
        for row in rows:
            self.assertEqual(row["version"], version)
            written = datetime.datetime.strptime(row[date], "%Y-%m-%dT%H:%M:%SZ")
            self.assertLess(abs((datetime.datetime.utcnow() - written).total_seconds()), 600)
            if trace is not None:
                self.assertEqual(row["trace"], trace)
            if model is not None:
                self.assertEqual(row["model"], model)
            if device is not None:
                self.assertEqual(row["device"], device)

    def test_of_one_trace(self):
        absolute = str(pathlib.Path(self.trace).absolute())
        methods = ("--method", "a-shape:n_sink=4,n_local=64", "--method", "block-sparse")
        self.check(self.table("heads", "analyze", self.trace, "--heads", "8:4"), absolute)
        self.check(self.table("runs", "compare", self.trace, *methods[:2], "--heads", "8:4", "--repeat", 1), absolute, date="measured_at")
        self.check(self.table("bits", "quantise", self.trace, "--heads", "8:4", "--formats", "int8"), absolute)
        masks = self.table("masks", "diff", self.trace, *methods, "--heads", "8:4")
        self.check(masks, absolute)
        self.assertEqual([(row["method"], row["other_method"]) for row in masks], [(methods[1], methods[3])])
        self.check(self.table("tuned", "tune", self.trace, "--method", "vertical-slash", "--target", "cra-p5=0.9", "--heads", "8:4"), absolute)
        self.check(self.table("figure", "render", self.trace, "--figure", "sparsity", "--heads", "8:*", "--max-rows", 16), absolute, device=None)
        for name, *arguments in (("bits", "quantise", self.trace, "--heads", "8:4", "--formats", "int8"), ("masks", "diff", self.trace, *methods, "--heads", "8:4"),
                                 ("tuned", "tune", self.trace, "--method", "vertical-slash", "--target", "cra-p5=0.9", "--heads", "8:4")):
            self.check([self.origin(name, *arguments)], absolute, device=None if name == "tuned" else "cpu")
        self.check([self.origin("figure", "render", self.trace, "--figure", "sparsity", "--heads", "8:*", "--max-rows", 16)], absolute, device=None)
        self.check(self.table("part", "export", self.trace, "--layers", 8, "--heads", 4, "--tokens", "0:9"), absolute, device=None)

    def test_of_several_traces(self):
        # A name that ends a cell.
        other = str(self.path / 'an "other", shorter one.h5')
        run("export", self.trace, "--tokens", "0:600", "-o", other)
        both = f"{self.trace}; {other}"
        differences = self.table("differences", "diff", self.trace, other, "--heads", "8:4")
        self.check(differences, self.trace)
        self.assertEqual({(row["other_trace"], row["other_model"]) for row in differences}, {(other, "reference_model")})
        origin = self.origin("differences", "diff", self.trace, other, "--heads", "8:4")
        self.check([origin], self.trace)
        self.assertEqual((origin["other_trace"], origin["other_model"]), (other, "reference_model"))
        ranges = self.origin("ranges", "tune", self.trace, other, "--ranges", "1K", "--method", "vertical-slash", "--target", "cra-p5=0.9", "--heads", "8:4")
        self.check([ranges], None, device=None)
        self.assertEqual(set(ranges["trace"].split("; ")), {self.trace, other})
        self.check(self.table("transfer", "render", self.trace, other, "--figure", "index-transfer", "--heads", "8:*", "--max-rows", 16), both, device=None)
        asked = ("--method", "vertical-slash", "--target", "cra-p5=0.9", "--heads", "8:4,8:5")
        self.check(self.table("both", "tune", self.trace, other, *asked), both)
        # Such a file is a configuration, too.
        tuned = {(row["layer"], row["head"]): row["n_vertical"] for row in self.table("named", "tune", other, *asked)}
        compared = self.path / "compared.json"
        run("compare", other, "--config", self.path / "named.csv", "--heads", "8:4,8:5", "--repeat", 1, "--quiet", "-o", compared)
        ran = [entry for entry in json.loads(compared.read_text())["results"] if entry["method"] == "vertical-slash"]
        self.assertEqual({(str(entry["layer"]), str(entry["head"])) for entry in ran}, set(tuned))
        for entry in ran:
            self.assertIn(f"n_vertical={tuned[str(entry['layer']), str(entry['head'])]},", entry["parameters"])

    def test_of_a_model(self):
        rows = self.table("answers", "eval", "--task", "passkey", "--length", 400, "--samples", 1, "--threads", 2)
        self.check(rows, model=None)
        self.assertEqual(pathlib.Path(rows[0]["model"]).name, "reference_model")
        self.assertEqual(list(rows[0])[-5:], ["attention", "score", "device", "written_at", "version"], "behind kvpress's columns")


if __name__ == "__main__":
    main()
