# SPDX-License-Identifier: Apache-2.0
"""Commands that are interrupted or killed: what was done stays valid, what was not leaves nothing behind.

    command_line_interrupts_test.py HEADSCOPE DATA_DIR
"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import time

import h5py
import numpy

import command_line
from command_line import HEADSCOPE, MODEL, PATIENCE, run, TraceCase


class Interrupts(TraceCase):
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
        process.communicate(timeout=60 * PATIENCE)
        os.close(screen)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.names(), before, "an interrupted picture left something behind")
        self.assertRegex(run(*command[1:]).stderr, r"^drawing: 100 %$")
        self.assertTrue(out.exists())
        self.assertEqual(run(*command[1:], "--quiet", "--force").stderr, "")

    def test_interrupt_leaves_the_beginning_of_the_full_trace(self):
        def command(out):
            return ["capture", MODEL, "--task", "passkey", "--length", "4096", "--chunk", "64", "-o", str(out)]  # 64 passes, 80 MB

        full, part = self.path / "whole.h5", self.path / "interrupted.h5"
        run(*command(full), "--quiet")
        process = subprocess.Popen([HEADSCOPE, *command(part)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        deadline = time.time() + 60 * PATIENCE
        while time.time() < deadline and process.poll() is None and (not part.exists() or part.stat().st_size < 8_000_000):
            time.sleep(0.02)
        time.sleep(0.3)  # the first pass counts only when it is whole
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60 * PATIENCE)
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

    def interrupted(self, command, ready, soon=0.3, tries=3):
        """Interrupts the command when ready() holds, and checks that it then works for `soon` seconds of processor time at most."""
        worked = []
        for _ in range(tries):  # another process may have had the machine between the two looks
            process = subprocess.Popen([HEADSCOPE, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            deadline = time.time() + 60 * PATIENCE
            while time.time() < deadline and process.poll() is None and not ready(process.pid):
                time.sleep(0.01)
            before = processor_seconds(process.pid)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.stdout.read(), process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 130, stderr)
            process.stdout.close()
            process.stderr.close()
            worked.append(usage.ru_utime + usage.ru_stime - before)
            if worked[-1] <= soon * PATIENCE:
                return stdout, stderr
        self.fail(f"{command} went on for {worked} seconds of processor time")

    def test_a_pass_of_a_prompt_is_interrupted_within(self):
        out = self.path / "pass.h5"
        command = ["capture", MODEL, "--task", "kv", "--length", 8192, "--chunk", 1024, "-o", out, "--quiet", "--force"]
        _, stderr = self.interrupted(command, lambda pid: out.exists() and processor_seconds(pid) > 1)
        self.assertIn("interrupted", stderr)
        self.assertEqual(self.names().count("pass.h5.partial"), 0)

    def test_a_question_is_interrupted_within(self):
        stdout, _ = self.interrupted(["eval", "--task", "passkey", "--length", 8192, "--samples", 64, "--quiet"],
                                     lambda pid: processor_seconds(pid) > 2)
        self.assertEqual(stdout, "")

    def test_killed_capture_stays_readable(self):
        out = self.path / "killed.h5"
        process = subprocess.Popen([HEADSCOPE, "capture", MODEL, "--task", "kv", "--length", "16384", "--threads", "1", "-o", str(out), "--quiet"])
        deadline = time.time() + 60 * PATIENCE
        while time.time() < deadline and (not out.exists() or out.stat().st_size < 40_000_000):
            time.sleep(0.05)
        time.sleep(2.5)  # a flush a second
        process.kill()
        process.wait()
        info = json.loads(run("info", out, "--json").stdout)
        self.assertFalse(info["complete"])
        self.assertGreater(info["num_tokens"], 0)


    def test_a_second_capture_to_a_path_names_the_first(self):
        out = self.path / "claimed.h5"
        first = subprocess.Popen([HEADSCOPE, "capture", MODEL, "--task", "kv", "--length", "8192", "-o", str(out), "--quiet"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.3)  # before it has made its file, and then with the file there
            for options in ((), ("--force",)):
                said = run("capture", MODEL, "--text", "a", "-o", out, *options, code=2).stderr
                self.assertIn(f"a capture to it is running (process {first.pid})", said)
            deadline = time.time() + 60 * PATIENCE
            while time.time() < deadline and not out.exists():
                time.sleep(0.05)
            run("capture", MODEL, "--text", "a", "-o", self.path / "." / "claimed.h5", "--force", code=2)
            run("capture", MODEL, "--text", "a", "-o", self.path / "other.h5", "--quiet")
        finally:
            first.kill()  # a claim ends with its process, whatever ends that
            first.wait()
        run("capture", MODEL, "--text", "a", "-o", out, "--force", "--quiet")


def processor_seconds(pid):
    """Of all threads of a process, up to now; 0 of one that is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stored_bytes(dataset, count):
    """The first `count` tokens or rows of all heads, bit by bit as the file holds them (no conversion of bfloat16)."""
    shape = dataset.shape[:2] + (count,) + dataset.shape[3:]
    values = numpy.empty(shape, f"V{dataset.id.get_type().get_size()}")
    space = dataset.id.get_space()
    space.select_hyperslab((0,) * len(shape), shape)
    dataset.id.read(h5py.h5s.create_simple(shape), space, values, mtype=dataset.id.get_type())
    return values.tobytes()


if __name__ == "__main__":
    command_line.main()
