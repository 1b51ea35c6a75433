# SPDX-License-Identifier: Apache-2.0
"""What the tests of python -m headscope.capture share, beside the program that it is compared with."""
import contextlib
import io
import subprocess

import cases
import families
import torch

from headscope import capture

MODEL = cases.SOURCE / "data/reference_model"
TEXT = "The pass key is 99405. Remember it. 99405 is the pass key. The grass is green, the sky is blue. What is the pass key? The pass key is"


def run(*arguments, code=0):
    done = subprocess.run([cases.HEADSCOPE, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done


def captured(*arguments):
    """Exit code, stdout and stderr of python -m headscope.capture, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = capture.main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


class CommandLineCase(cases.FolderCase):
    """Tests of what it says and writes."""

    def refused(self, code, *arguments, words=()):
        found, out, err = captured(*arguments)
        self.assertEqual((found, out), (code, ""), err)
        self.assertTrue(err.startswith("headscope: ") and err.count("\n") == 1, err)
        for word in words:
            self.assertIn(word, err)

    def seeing(self):
        """A model that takes images beside its text."""
        text = families.COMMON | dict(head_dim=None, hidden_size=32, rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[1, 1, 2]))
        tower = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2)
        torch.manual_seed(5)
        return cases.transformers.Qwen2VLForConditionalGeneration(cases.transformers.Qwen2VLConfig(text_config=text, vision_config=tower))
