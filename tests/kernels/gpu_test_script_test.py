#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-test with every tool it calls replaced by one that answers from a table: what it says about GPUs, and that
a filter pattern which fits no test is an error. Needs no GPU and builds nothing."""

import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu-test"

TEST_BINARY = """#!/usr/bin/env bash
filter='*'; list=0
for argument; do
  case $argument in
    --gtest_filter=*) filter=${argument#*=} ;;
    --gtest_list_tests) list=1 ;;
  esac
done
if ((list)); then
  echo Suite.
  while read -r name; do IFS=:; for pattern in $filter; do [[ $name != $pattern ]] || echo "  $name"; done; done <"$0.names"
else
  echo "${GTEST_SHARD_INDEX-tool}/${GTEST_TOTAL_SHARDS-tool}" >>"$0.ran"
  [[ ${GTEST_SHARD_INDEX-} != "$(cat "$0.fails" 2>/dev/null || echo none)" ]] || { echo '[  FAILED  ] 1 test'; exit 1; }
  echo '[  PASSED  ] 3 tests.'
fi
"""


def patterns_of(test):
    """All patterns that the script names for a test."""
    found = re.findall(r"\[" + test + r"\]='([^']*)'", SCRIPT.read_text())
    return [pattern for filter_ in found for pattern in filter_.split(":")]


class GpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tools = Path(folder.name) / "tools"
        self.build = Path(folder.name) / "build"
        (self.build / "tests" / "kernels").mkdir(parents=True)
        self.tools.mkdir()
        for tool in ("cmake", "compute-sanitizer"):
            self.tool(tool, "echo '[  PASSED  ] 3 tests.'")

    def tool(self, name, text):
        path = self.tools / name
        path.write_text("#!/usr/bin/env bash\n" + text + "\n")
        path.chmod(0o755)

    def gpu(self, capability):
        self.tool("nvidia-smi", f"[[ $1 == -L ]] && echo 'GPU 0: of a test' || echo {capability}")

    def make_tests(self, names_of):
        """The tests that CTest lists, each with the names of its cases."""
        listed = "\n".join(f"echo '  Test #{i}: {test}'" for i, test in enumerate(names_of))
        self.tool("ctest", listed)
        for test, names in names_of.items():
            binary = self.build / "tests" / "kernels" / test
            binary.write_text(TEST_BINARY)
            binary.chmod(0o755)
            Path(f"{binary}.names").write_text("".join(name + "\n" for name in names))

    def run_script(self):
        environment = dict(os.environ, PATH=f"{self.tools}:{os.environ['PATH']}", HEADSCOPE_GPU_BUILD=str(self.build))
        result = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def test_says_that_a_gpu_is_too_old(self):
        self.gpu("7.5")
        code, text = self.run_script()
        self.assertEqual(code, 0)
        self.assertIn("compute capability 7.5 and is too old", text)

    def test_takes_newer_gpus_with_two_digits_as_well(self):
        test = "kernels_cuda_score_range_test"
        names = [pattern.replace("*", "x") for pattern in patterns_of(test)]
        self.assertGreater(len(names), 1)
        self.make_tests({test: names})
        for capability in ("8.0", "9.0", "12.0"):
            self.gpu(capability)
            code, text = self.run_script()
            self.assertEqual(code, 0, text)
            self.assertIn("gpu-test: passed", text)

    def test_runs_every_piece_and_tells_which_fails(self):
        test = "kernels_cuda_attend_test"
        self.make_tests({test: [pattern.replace("*", "-") for pattern in patterns_of(test)]})
        self.gpu("9.0")
        binary = self.build / "tests" / "kernels" / test
        code, text = self.run_script()
        self.assertEqual(code, 0, text)
        pieces = sorted(Path(f"{binary}.ran").read_text().split())
        self.assertGreater(len(pieces), 1)
        self.assertEqual(pieces, [f"{i}/{len(pieces)}" for i in range(len(pieces))], "the tools run no program here")
        Path(f"{binary}.fails").write_text("2")
        code, text = self.run_script()
        self.assertEqual(code, 1, text)
        self.assertIn(f"gpu-test: {test} 3/{len(pieces)}: [  FAILED  ] 1 test", text)
        self.assertIn("1 of the tests or checks above failed", text)

    def test_refuses_a_pattern_without_a_test(self):
        test = "kernels_cuda_attend_test"
        patterns = patterns_of(test)
        name_of = {pattern: pattern.replace("*", "-") for pattern in patterns}
        self.gpu("9.0")
        refused = 0
        for missing in patterns:
            names = [name for pattern, name in name_of.items() if pattern != missing]
            if any(fnmatch.fnmatchcase(name, missing) for name in names):
                continue  # another pattern's name fits this one too
            self.make_tests({test: names})
            code, text = self.run_script()
            self.assertEqual(code, 1, text)
            self.assertIn(f"no test of {test} fits the pattern '{missing}'", text)
            refused += 1
        self.assertGreater(refused, 5)


if __name__ == "__main__":
    sys.exit(unittest.main())
