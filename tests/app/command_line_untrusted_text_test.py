# SPDX-License-Identifier: Apache-2.0
"""What a file says reaches a terminal as text that it can only show: no escape sequence, no line of its own, no byte that is no UTF-8.

    command_line_untrusted_text_test.py HEADSCOPE DATA_DIR
"""
import json
import os
import shutil
import unicodedata

import h5py
import numpy

import command_line
from command_line import MODEL, run, TraceCase

# A window's title, a cleared screen (in 7 and in 8 bits), a line that pretends to be headscope's, a name written backwards, no UTF-8.
HOSTILE = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b2J\nheadscope: all is well\r\t\xe2\x80\xaegpj\xff"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\u009b2J\nheadscope: all is well\x0d\t\u202egpj\xff"


def unsafe(text):
    """Characters of `text` that a terminal obeys or does not show; line ends aside."""
    return [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]


class UntrustedText(TraceCase):
    def with_attributes(self, name, **attributes):
        """A copy of the trace in which "group__attribute" says something else."""
        path = self.path / name
        shutil.copy(self.trace, path)
        with h5py.File(path, "r+", libver="latest") as file:
            for key, value in attributes.items():
                group, attribute = key.split("__")
                del file[group].attrs[attribute]
                file[group].attrs.create(attribute, numpy.bytes_(value), dtype=f"S{len(value)}")
        return path

    def with_config(self, name, config):
        folder = self.path / name
        folder.mkdir()
        for file in os.listdir(MODEL):
            if os.path.isfile(os.path.join(MODEL, file)) and file != "config.json":
                os.symlink(os.path.join(MODEL, file), folder / file)
        (folder / "config.json").write_bytes(config)
        return folder

    def test_info_shows_names_and_prompts_as_text(self):
        trace = self.with_attributes("names.h5", model__name=HOSTILE, tokens__prompt_source=HOSTILE, tokens__task_answer=HOSTILE)
        text = run("info", trace).stdout
        self.assertEqual(text.count(SHOWN), 3, text)
        self.assertEqual(unsafe(text), [])
        self.assertEqual([line for line in text.splitlines() if line.startswith("headscope")], [], "a line of the file's own")

    def test_json_means_what_the_file_says_in_characters_that_are_safe(self):
        trace = self.with_attributes("json.h5", model__name=HOSTILE, tokens__prompt_source=HOSTILE)
        text = run("info", trace, "--json").stdout
        self.assertEqual(unsafe(text), [])
        self.assertEqual(json.loads(text)["prompt"], HOSTILE.decode("utf-8", "replace"))
        self.assertEqual(json.loads(text)["model"]["name"], HOSTILE.decode("utf-8", "replace"))

    def test_a_refusal_that_quotes_a_file_is_one_line(self):
        quoting = json.dumps({"model_type": HOSTILE.decode("utf-8", "replace")}).encode()
        for number, config in enumerate((quoting, b'{"model_type": "' + HOSTILE, b'{"' + HOSTILE[-1:] + b'": \xc2\x9b2J', b"[\xe2\x80\xae]")):
            with self.subTest(config=config):
                folder = self.with_config(f"model{number}", config)
                for command in (("info", folder), ("capture", folder, "--text", "a", "-o", self.path / "none.h5")):
                    said = run(*command, code=3).stderr  # one line, as run() checks
                    self.assertIn("config.json", said)
                    self.assertEqual(unsafe(said), [])

    def test_a_table_of_comma_separated_values_obeys_nothing(self):
        trace = self.path / "\x1b]0;owned\x07.h5"
        shutil.copy(self.trace, trace)
        run("compare", trace, "--method", "a-shape", "--heads", "0:0", "--repeat", "1", "-o", self.path / "runs.csv", "--quiet")
        written = (self.path / "runs.csv").read_bytes()
        self.assertEqual(unsafe(written.decode()), [])
        self.assertIn(rb"\x1b]0;owned\x07.h5", written)

    def test_a_prompt_that_is_not_utf8_is_refused_with_its_place(self):
        # A line of prompts was called no JSON object, which it is to every editor.
        for option, name, text, place in (("--prompt", "latin1.txt", "na\u00efve", 2), ("--prompts", "latin1.jsonl", '{"text": "na\u00efve"}', 12)):
            prompt = self.path / name
            prompt.write_bytes(text.encode("latin-1"))
            said = run("capture", MODEL, option, prompt, "-o", self.path / "none.h5", code=3).stderr
            self.assertIn(f"{name}: is not UTF-8 at byte {place}; convert it, as iconv -f LATIN1", said)
        self.assertFalse((self.path / "none.h5").exists())

    def test_a_prompt_in_utf16_is_named_as_such(self):
        # Converting it from Latin-1, as was said, makes UTF-8 of another text; and without a mark it was taken as it is.
        for name, encoding, mark, said in (("marked_le", "utf-16-le", "\ufeff", "UTF-16"), ("marked_be", "utf-16-be", "\ufeff", "UTF-16"),
                                           ("le", "utf-16-le", "", "UTF-16LE"), ("be", "utf-16-be", "", "UTF-16BE"), ("wide", "utf-32", "", "UTF-32")):
            with self.subTest(name=name):
                prompt, lines = self.path / f"{name}.txt", self.path / f"{name}.jsonl"
                prompt.write_bytes((mark + "the quick brown fox").encode(encoding))
                lines.write_bytes((mark + '{"text": "the quick brown fox"}').encode(encoding))
                for option, file in (("--prompt", prompt), ("--prompts", lines)):
                    refused = run("capture", MODEL, option, file, "-o", self.path / "none.h5", code=3).stderr
                    self.assertIn(f"{file.name}: is {said} by its ", refused)
                    self.assertIn(f"iconv -f {said} -t UTF-8", refused)
        binary = self.path / "binary.txt"
        binary.write_bytes(b"a\0b")
        self.assertIn("binary.txt: holds a byte 0 at byte 1", run("capture", MODEL, "--prompt", binary, "-o", self.path / "none.h5", code=3).stderr)
        self.assertFalse((self.path / "none.h5").exists())

    def test_a_byte_order_mark_of_utf8_is_no_part_of_a_prompt(self):
        prompt, lines, folder = self.path / "mark.txt", self.path / "mark.jsonl", self.path / "marked"
        prompt.write_text("\ufeffthe quick brown fox")
        lines.write_text('\ufeff{"text": "the quick brown fox", "name": "line"}\n')
        run("capture", MODEL, "--prompt", prompt, "--layers", 0, "-o", self.path / "mark.h5", "--quiet")
        run("capture", MODEL, "--prompts", lines, "--layers", 0, "-o", folder, "--quiet")
        run("capture", MODEL, "--text", "the quick brown fox", "--layers", 0, "-o", self.path / "bare.h5", "--quiet")
        with h5py.File(self.path / "bare.h5") as bare:
            for trace in (self.path / "mark.h5", folder / "line.h5"):
                with h5py.File(trace) as marked:
                    self.assertEqual(marked["tokens/ids"][:].tolist(), bare["tokens/ids"][:].tolist())
        prompt.write_text("\ufeff")
        self.assertIn("mark.txt: is empty", run("capture", MODEL, "--prompt", prompt, "-o", self.path / "none.h5", code=3).stderr)

    def test_arguments_are_quoted_as_text(self):
        hostile = HOSTILE.replace(b"\xff", b"").decode()
        for code, *command in ((2, hostile), (3, "info", hostile), (2, "analyze", self.trace, "--heads", hostile), (2, "bench", "--methods", hostile)):
            with self.subTest(command=command):
                self.assertEqual(unsafe(run(*command, code=code).stderr), [])


if __name__ == "__main__":
    command_line.main()
