# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share. Each of them is run as: SCRIPT NAME HEADSCOPE SOURCE_DIR, NAME being its name in CTest."""
import os
import pathlib
import sys
import tempfile
import time
import unittest
from xml.sax import saxutils

NAME, HEADSCOPE, SOURCE = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
sys.path.insert(0, str(SOURCE / "python"))
os.environ["HEADSCOPE"] = HEADSCOPE
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402: the paths above come first
import transformers  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


class FolderCase(unittest.TestCase):
    """Tests with a folder of their own."""

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def assertRefused(self, kind, *words):  # noqa: N802: unittest's own manner
        """A context that must fail with this error, in one sentence that has these words."""
        return _Refused(self, kind, words)


class _Refused:
    def __init__(self, case, kind, words):
        self.case, self.kind, self.words = case, kind, words

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        self.case.assertIsNotNone(error, f"{self.kind.__name__} was expected")
        if not isinstance(error, self.kind):
            return False
        self.sentence = str(error)
        self.case.assertNotIn("\n", self.sentence)
        for word in self.words:
            self.case.assertIn(word, self.sentence)
        return True


class _Results(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cases = []

    def startTest(self, test):  # noqa: N802
        self.begin = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):  # noqa: N802
        bad = {id(one) for one, _ in self.failures + self.errors} | {id(getattr(one, "test_case", one)) for one, _ in self.failures + self.errors}
        state = "failure" if id(test) in bad else "skipped" if any(one is test for one, _ in self.skipped) else ""
        self.cases.append((type(test).__name__, test._testMethodName, time.monotonic() - self.begin, state))
        super().stopTest(test)


def main():
    """Runs the tests of the calling script; every test method counts as a case of scripts/test (scripts/count-tests)."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(resultclass=_Results, verbosity=1).run(suite)
    folder = os.environ.get("HEADSCOPE_TEST_RESULTS")
    if folder:
        lines = [f'  <testcase classname="{group}" name={saxutils.quoteattr(name)} status="run" time="{seconds:.3f}">{f"<{state}/>" if state else ""}</testcase>' for group, name, seconds, state in result.cases]
        pathlib.Path(folder, f"{NAME}.{pathlib.Path(sys.argv[0]).stem}.xml").write_text("<testsuites>\n" + "\n".join(lines) + "\n</testsuites>\n")
    sys.exit(not result.wasSuccessful())
