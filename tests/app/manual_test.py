# SPDX-License-Identifier: Apache-2.0
"""The man page and the shells' completions: every command and every option that --help shows is in each, and each shell reads its own.

    manual_test.py HEADSCOPE DATA_DIR
"""
import re
import shutil
import subprocess
import unittest

import command_line
from command_line import HEADSCOPE, run


def shown(*command):
    """What --help of a command lists: its subcommands and its options by every name."""
    text = run(*command, "--help").stdout
    listed = re.search(r"\nSubcommands:\n(.*?)\n\n", text, re.DOTALL)
    commands = re.findall(r"^  (\S+)", listed[1], re.MULTILINE) if listed else []
    options = []
    for line in text.splitlines():
        if names := re.match(r"  (-\S+)", line):
            options += names[1].split(",")
    return commands, options


COMMANDS, OWN = shown()
OPTIONS = {command: shown(command)[1] for command in COMMANDS}


def script(shell):
    return run("--completions", shell).stdout


class Manual(unittest.TestCase):
    def test_help_was_read(self):
        self.assertGreaterEqual(len(COMMANDS), 11)
        self.assertIn("--version", OWN)
        self.assertTrue({"-o", "--output", "--method", "--help"} <= set(OPTIONS["compare"]))

    def test_the_man_page_has_every_command_and_option(self):
        page = run("--man-page").stdout
        self.assertTrue(page.startswith(".TH HEADSCOPE 1 "))
        self.assertIn(f'"{run("--version").stdout.strip()}"', page)
        plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")
        sections = {"": plain.split("\n.SH OPTIONS\n")[1].split("\n.SH ")[0]}
        for section in plain.split("\n.SH COMMANDS\n")[1].split("\n.SH ")[0].split(".SS headscope ")[1:]:
            sections[section.split()[0]] = section
        self.assertEqual(set(sections), {"", *COMMANDS})
        for command, options in {"": OWN, **OPTIONS}.items():
            tags = " ".join(re.findall(r"^\.TP\n(.*)$", sections[command], re.MULTILINE))
            for option in options:
                self.assertRegex(tags, rf"(^| ){option}(,| |$)", f"{command} {option}")
        for line in page.splitlines():  # what starts a line with a dot is a request that roff knows
            self.assertRegex(line, r"^(\.(TH|SH|SS|TP|PP|br)\b|[^.'])", line)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_sets_it_without_a_warning(self):
        done = subprocess.run(["groff", "-ww", "-man", "-Tascii"], input=run("--man-page").stdout, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--decode-rows INT", re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout))  # without bold and underlined letters

    def test_every_script_has_every_command_and_option(self):
        for shell in ("bash", "zsh", "fish"):
            text = script(shell)
            for command in COMMANDS:
                self.assertRegex(text, rf"\b{command}\b", shell)
            for option in {option for options in (OWN, *OPTIONS.values()) for option in options}:
                asked = option if shell != "fish" else ("-l " + option[2:] if option.startswith("--") else "-s " + option[1:])
                self.assertRegex(text, rf"(?<![\w-]){asked}(?![\w-])", f"{shell} {option}")

    def test_bash_completes(self):
        def complete(*words):
            line = " ".join(f"'{word}'" for word in words)
            asked = script("bash") + f"\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _headscope\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
            done = subprocess.run(["bash", "--norc"], input=asked, capture_output=True, text=True, check=True, cwd="/")
            self.assertEqual(done.stderr, "")
            return done.stdout.split()

        self.assertEqual(subprocess.run(["bash", "-n"], input=script("bash"), text=True, capture_output=True).stderr, "")
        self.assertEqual([word for word in complete("headscope", "") if word in COMMANDS], COMMANDS)
        self.assertEqual(complete("headscope", "cap"), ["capture"])
        for command, options in OPTIONS.items():
            self.assertEqual(complete("headscope", command, "-"), options)
        self.assertEqual(complete("headscope", "compare", "--rep"), ["--repeat", "--repeats"])
        self.assertIn("etc", complete("headscope", "info", "et"))
        self.assertIn("etc", complete("headscope", "capture", "x", "--prompt", "et"))
        self.assertEqual(complete("headscope", "compare", "--repeat", "et"), [], "a number is no file")

    def test_zsh_and_fish_read_theirs(self):
        for shell in ("zsh", "fish"):
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"] if shell == "zsh" else [shell, "--no-execute", "/dev/stdin"], input=script(shell), text=True, capture_output=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_another_shell_is_refused(self):
        self.assertIn("bash, zsh and fish", run("--completions", "tcsh", code=2).stderr)

    def test_they_stay_out_of_help(self):
        self.assertNotIn("--completions", run("--help").stdout)


if __name__ == "__main__":
    command_line.main()
