# SPDX-License-Identifier: Apache-2.0
"""Starts that fork from a loaded program (forked_starts.py), of programs that every system has.

    forked_starts_test.py       with HEADSCOPE_FORKING_MAIN in the environment
"""
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import forked_starts

SHELL, PATIENCE = "/bin/sh", int(os.environ.get("HEADSCOPE_TEST_PATIENCE", "1"))


def shell(script, timeout=30 * PATIENCE):
    return forked_starts.run(SHELL, ["-c", script], timeout)


def loaded_program():
    return next(program for (path, *_), program in forked_starts.loaded.programs.items() if path == SHELL)


class ForkedStarts(unittest.TestCase):
    def test_a_start_is_a_fork_of_the_loaded_program(self):
        done = [shell(f"echo $PPID; echo {word} >&2; exit {code}") for code, word in enumerate(("one", "two"))]
        self.assertEqual({run.stdout for run in done}, {f"{loaded_program().process.pid}\n"})
        self.assertEqual([(run.returncode, run.stderr) for run in done], [(0, "one\n"), (1, "two\n")])

    def test_threads_sleep_while_they_wait_unless_it_is_said_otherwise(self):
        for library in (forked_starts.FORKING_MAIN, None):
            with self.subTest(library=library), mock.patch.object(forked_starts, "FORKING_MAIN", library), mock.patch.dict(os.environ):
                for said, policy in ((None, "passive"), ("active", "active")):
                    os.environ.pop("OMP_WAIT_POLICY", None)
                    if said:
                        os.environ["OMP_WAIT_POLICY"] = said
                    forked_starts.loaded.programs = {}  # what is loaded has the environment of before
                    self.assertEqual(shell('echo "$OMP_WAIT_POLICY"').stdout, policy + "\n")

    def test_behind_a_loaded_program_that_ends_another_is_loaded(self):
        shell("true")
        before = loaded_program()
        with self.assertRaises((RuntimeError, OSError)):
            shell("kill -KILL $PPID; sleep 1")
        self.assertEqual(shell("echo again").stdout, "again\n")
        self.assertNotEqual(loaded_program().process.pid, before.process.pid)
        # As when it ends between two starts.
        loaded_program().process.kill()
        loaded_program().process.wait()
        with self.assertRaises((RuntimeError, OSError)):
            shell("true")
        self.assertEqual(shell("echo again").stdout, "again\n")

    def test_a_fork_ends_with_the_loaded_program(self):
        with tempfile.TemporaryDirectory() as folder:
            number = pathlib.Path(folder, "number")
            with self.assertRaises((RuntimeError, OSError)):
                shell(f"echo $$ > {number}; kill -KILL $PPID; exec sleep 1000")
            status, deadline = pathlib.Path(f"/proc/{number.read_text().strip()}/status"), time.monotonic() + 30 * PATIENCE

            def goes_on():
                try:
                    return "State:\tZ" not in status.read_text()
                except (FileNotFoundError, ProcessLookupError):
                    return False

            while goes_on() and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertFalse(goes_on())

    def test_behind_an_answer_that_does_not_come_another_is_loaded(self):
        shell("true")
        stopped = loaded_program().process
        os.kill(stopped.pid, signal.SIGSTOP)
        with mock.patch.object(forked_starts, "LOADING_SECONDS", 0.3), self.assertRaises(subprocess.TimeoutExpired):
            shell("echo late", timeout=0.2)
        self.assertEqual(stopped.poll(), -signal.SIGKILL)
        self.assertEqual(shell("echo next").stdout, "next\n")

    def test_a_start_that_takes_too_long_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(subprocess.TimeoutExpired):
                shell(f"sleep 1; touch {folder}/lived", timeout=0.3)
            self.assertEqual(shell("echo next").stdout, "next\n")
            time.sleep(1.5)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
