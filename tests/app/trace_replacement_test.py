# SPDX-License-Identifier: Apache-2.0
"""A trace in the place of another: wherever a call for a name fails, either all files of the new one stand or the one before does; wherever the program is killed,
the one before is whole.

    trace_replacement_test.py HEADSCOPE DATA_DIR FAILING_CALLS.so
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import command_line
import forked_starts
from command_line import HEADSCOPE, MODEL, PATIENCE, run

FAILING_CALLS = sys.argv[3]
TEXT = "The quick brown fox jumps over the lazy dog."


class Replacement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        run("capture", MODEL, "--text", TEXT, "--layers", "1,4,6", "-o", cls.scratch / "old.h5", "--quiet")
        run("capture", MODEL, "--text", TEXT, "--layers", "0,2,5,8", "-o", cls.scratch / "new.h5", "--quiet")
        cls.counted = {}
        for old in (1, 2, 3):  # starting the program for every room would take most of the time
            (cls.scratch / f"in-{old}").mkdir()
            run("export", cls.scratch / "old.h5", "--files", old, "-o", cls.scratch / f"in-{old}" / "out.h5", "--quiet")

    def room(self, old):
        """A folder in which out.h5 is a trace in `old` files; 0: nothing is there."""
        room = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        if old:
            shutil.copytree(self.scratch / f"in-{old}", room, dirs_exist_ok=True)
        return room

    def export(self, room, new, **settings):
        force = ["--force"] if any(room.iterdir()) else []
        command = ["export", self.scratch / "new.h5", "--files", str(new), "-o", room / "out.h5", "--quiet", *force]
        return forked_starts.run(HEADSCOPE, command, 60 * PATIENCE, settings={"HEADSCOPE_FAILING_CALLS": "names", **settings}, before=(FAILING_CALLS,))

    def calls(self, old, new):
        if (old, new) not in self.counted:
            self.counted[old, new] = self.count_calls(old, new)
        return self.counted[old, new]

    def count_calls(self, old, new):
        counted = self.scratch / "calls"
        room = self.room(old)
        done = self.export(room, new, HEADSCOPE_CALLS_FILE=str(counted))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.layers(room / "out.h5"), [0, 2, 5, 8])
        self.assertEqual(len(self.names(room)), new, self.names(room))
        return int(counted.read_text().split()[0])

    def names(self, room):
        return sorted(os.listdir(room))

    def contents(self, room):
        return {name: (room / name).read_bytes() for name in self.names(room)}

    def layers(self, path):
        """Of a trace that opens; None of what is refused."""
        done = forked_starts.run(HEADSCOPE, ["info", "--json", path], 60 * PATIENCE)
        return json.loads(done.stdout)["layers"] if done.returncode == 0 else None

    CASES = ((0, 3), (3, 3), (2, 3), (3, 2), (1, 3), (3, 1))

    def test_a_call_that_fails_leaves_all_or_none(self):
        for old, new in self.CASES:
            calls = self.calls(old, new)
            self.assertGreaterEqual(calls, new)
            for number in range(1, calls + 1):
                with self.subTest(old=old, new=new, call=number):
                    room = self.room(old)
                    before = self.contents(room)
                    done = self.export(room, new, HEADSCOPE_FAILING_FROM=str(number), HEADSCOPE_FAILING_COUNT="1")
                    if done.returncode == 0:  # a second name is not needed
                        self.assertEqual((self.layers(room / "out.h5"), len(self.names(room))), ([0, 2, 5, 8], new), self.names(room))
                        continue
                    self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                    if self.layers(room / "out.h5") == [0, 2, 5, 8]:  # only a second name of what was there before stayed
                        kept = [name for name in self.names(room) if "replaced" in name]
                        self.assertEqual((len(kept), len(self.names(room))), (1, new + 1), self.names(room))
                        self.assertIn(kept[0], done.stderr)
                        continue
                    self.assertEqual(self.contents(room), before)
                    shutil.rmtree(room)

    def test_without_second_names_too(self):
        """Each old file has one name then, its own or that beside it."""
        for number in range(1, 20):
            with self.subTest(call=number):
                room = self.room(3)
                before = self.contents(room)
                done = self.export(room, 2, HEADSCOPE_NO_LINKS="1", HEADSCOPE_FAILING_FROM=str(number), HEADSCOPE_FAILING_COUNT="1")
                if done.returncode == 0:
                    self.assertGreater(number, 5)
                    self.assertEqual((self.layers(room / "out.h5"), len(self.names(room))), ([0, 2, 5, 8], 2))
                    return
                self.assertEqual(done.returncode, 1, done.stderr)
                if self.layers(room / "out.h5") != [0, 2, 5, 8]:
                    self.assertEqual(self.contents(room), before)
                room = self.room(3)
                before = self.contents(room)
                self.export(room, 2, HEADSCOPE_NO_LINKS="1", HEADSCOPE_FAILING_FROM=str(number), HEADSCOPE_FAILING_KILLS="1")
                for name, contents in before.items():
                    kept = [path for path in (room / name, room / name.replace("out", "out.replaced")) if path.exists() and path.read_bytes() == contents]
                    self.assertTrue(kept or self.layers(room / "out-00001-of-00002.h5") == [0, 2, 5, 8], name)
        self.fail("no end of calls")

    def test_a_kill_leaves_what_was_there_before_whole(self):
        for old, new in self.CASES[1:]:
            for number in range(1, self.calls(old, new) + 1):
                with self.subTest(old=old, new=new, call=number):
                    room = self.room(old)
                    done = self.export(room, new, HEADSCOPE_FAILING_FROM=str(number), HEADSCOPE_FAILING_KILLS="1")
                    self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                    found = [self.layers(room / name) for name in ("out.h5", "out.replaced.h5")]
                    self.assertTrue([1, 4, 6] in found or found[0] == [0, 2, 5, 8], (found, self.names(room)))
                    if found == [None, [1, 4, 6]]:  # files of both under one name
                        refused = forked_starts.run(HEADSCOPE, ["info", room / "out.h5"], 60 * PATIENCE)
                        self.assertEqual(refused.returncode, 3)
                        self.assertTrue("out.replaced.h5" in refused.stderr or "may be the trace of" in refused.stderr, refused.stderr)
                    shutil.rmtree(room)

    def test_a_capture_keeps_both_traces_where_a_name_cannot_be_had(self):
        """Its new trace took the model's time: it stays, whole, under the name that the message says."""
        command = [HEADSCOPE, "capture", MODEL, "--text", TEXT, "--layers", "0,2,5", "--files", "3", "--force", "--quiet", "-o"]
        environment = {**os.environ, "LD_PRELOAD": FAILING_CALLS, "HEADSCOPE_FAILING_CALLS": "names", "HEADSCOPE_NO_LINKS": "1"}
        for number in (2, 5):  # old ones are put aside, then new ones take their names
            room = self.room(3)
            before = self.contents(room)
            settings = {"HEADSCOPE_FAILING_FROM": str(number), "HEADSCOPE_FAILING_COUNT": "1"}
            done = subprocess.run([*command, room / "out.h5"], env={**environment, **settings}, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn("out.h5 is as it was; the whole new trace is ", done.stderr)
            self.assertIn("out.partial-00001-of-00003.h5 and the files that go with it", done.stderr)
            self.assertEqual({name: contents for name, contents in self.contents(room).items() if "partial" not in name}, before)
            self.assertEqual(self.layers(room / "out.partial.h5"), [0, 2, 5])

    def test_where_a_file_appears_meanwhile_no_other_is_there(self):
        """As another program puts it there while the traces are written; where it came too late it is tried again."""
        for _ in range(10):
            room = self.room(0)
            (room / "other.h5").write_text("somebody's")
            moved = room / "out-00002-of-00003.h5"
            command = [HEADSCOPE, "export", self.scratch / "new.h5", "--files", "3", "-o", room / "out.h5", "--quiet"]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            while process.poll() is None and not any(name.startswith(".partial") for name in os.listdir(room)):
                pass
            os.rename(room / "other.h5", moved)
            said = process.communicate()[1]
            if process.returncode == 0:
                continue
            self.assertEqual(process.returncode, 2, said)
            self.assertIn("out-00002-of-00003.h5: something else created it", said)
            self.assertEqual(self.contents(room), {moved.name: b"somebody's"})
            return
        self.fail("the file never came in time")


if __name__ == "__main__":
    command_line.main()
