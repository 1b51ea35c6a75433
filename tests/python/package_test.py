# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: it installs from its folder, its notebook and its manual's examples run, and reading needs no torch."""
import ast
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from unittest import mock

import cases
import families
import torch

import headscope
from headscope import capture


class Package(cases.FolderCase):
    def test_installs_and_imports(self):
        source, target = self.folder / "source", self.folder / "installed"
        shutil.copytree(cases.SOURCE / "python", source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        script = "import headscope, sys; print(headscope.__file__); assert not {'torch', 'transformers'} & set(sys.modules), 'reading needs no torch'; import headscope.capture"
        done = subprocess.run([sys.executable, "-B", "-c", script], env=os.environ | {"PYTHONPATH": str(target)}, cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(str(target)), done.stdout)

    def test_notebook_runs(self):
        notebook = json.loads((cases.SOURCE / "docs/python.ipynb").read_text())
        os.environ["HEADSCOPE_REPOSITORY"] = str(cases.SOURCE)
        space = {}
        for number, cell in enumerate(notebook["cells"]):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"docs/python.ipynb, cell {number}", "exec"), space)
        self.assertIn("70318", space["tokenizer"].decode(space["generated"][0, space["ids"].shape[1] :]))
        self.assertGreater(space["looks_back"][space["best"]], 0.15)
        classes = {(one["layer"], one["head"]): one["class"] for one in space["statistics"]}
        self.assertEqual(classes[space["best"]], "retrieval-like")
        self.assertEqual([one["method"] for one in space["results"]], ["streaming-llm", "oracle-top-k"])

    def test_examples_of_the_manual_run(self):
        text = (cases.SOURCE / "docs/python.md").read_text()
        examples = re.findall(r"```python\n(.*?)```", text, re.S)
        self.assertGreaterEqual(len(examples), 2)
        model = families.make("llama")
        space = {"model": model, "input_ids": torch.arange(3, 40)[None], "tokenizer": None}
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            with torch.no_grad():
                for example in examples:
                    exec(compile(example, "docs/python.md", "exec"), space)
        finally:
            os.chdir(here)

    def test_code_of_a_checkpoint_is_not_run(self):
        """Who answered "y" on the terminal ran what lay in the folder."""
        folder, ran = self.folder / "own-code", self.folder / "ran"
        folder.mkdir()
        own = {"AutoConfig": "configuration_own.Own", "AutoModelForCausalLM": "modeling_own.Own"}
        (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": own}))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(cases.SOURCE / "data/reference_model" / name, folder / name)
        for name in ("configuration_own", "modeling_own"):
            (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')\n")
        errors = io.StringIO()
        with mock.patch.object(sys, "stdin", io.StringIO("y\ny\n")), contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            code = capture.main([str(folder), "--text", "a", "-o", str(self.folder / "own.h5")])
        self.assertEqual(code, 3, errors.getvalue())
        self.assertIn(str(folder), errors.getvalue())
        self.assertFalse(ran.exists())

    def test_manual_names_every_option(self):
        text = (cases.SOURCE / "docs/python.md").read_text()
        tree = ast.parse((cases.SOURCE / "python/headscope/recorder.py").read_text())
        record = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "record")
        for option in record.args.kwonlyargs:
            self.assertIn(f"`{option.arg}`", text)
        for name, (model_type, _) in families.FAMILIES.items():
            self.assertIn(model_type, text, f"the manual does not name {name}")
        self.assertIn(families.VERSION, text)
        self.assertIsNotNone(headscope.__doc__)


if __name__ == "__main__":
    cases.main()
