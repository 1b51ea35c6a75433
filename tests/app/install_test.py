# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` into an empty folder: what it puts there, and that the program runs from there alone, also when that folder is moved.

    install_test.py HEADSCOPE DATA_DIR CMAKE BUILD_DIR
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import h5py

import command_line
from command_line import HEADSCOPE, DATA, PATIENCE

CMAKE, BUILD = sys.argv[3], pathlib.Path(sys.argv[4])


def run(program, *arguments, code=0, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in ("HEADSCOPE_DATA_DIR", "LD_LIBRARY_PATH")}
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=240 * PATIENCE, env={**environment, **variables})
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}, expected {code}\n{done.stderr}"
    return done


def zebras(share):
    """Another text for prompts, to see whose is read."""
    (share / "prompts/prose.txt").write_text("zebra zebra zebra\n" * 50)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        first = pathlib.Path(cls.folder.name) / "first"
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", first], check=True, capture_output=True, text=True)
        cls.prefix = pathlib.Path(cls.folder.name) / "second place"
        first.rename(cls.prefix)  # nothing may know where it was installed
        cls.program = cls.prefix / "bin/headscope"
        cls.share = cls.prefix / "share/headscope"
        (cls.parts,) = cls.prefix.glob("lib*/**/headscope-contents")
        cls.parts = cls.parts.parent

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_part_is_there(self):
        self.assertTrue((self.parts / "libheadscope_torch.so").is_file())
        for name in ("headscope/reference_model/config.json", "headscope/reference_model/model.safetensors.index.json", "headscope/prompts/prose.txt",
                     "man/man1/headscope.1", "bash-completion/completions/headscope", "zsh/site-functions/_headscope",
                     "fish/vendor_completions.d/headscope.fish", "doc/headscope/LICENSE"):
            self.assertTrue((self.prefix / "share" / name).is_file(), name)
        window = "this build has no window" not in run(self.program, code=2, DISPLAY="", WAYLAND_DISPLAY="", QT_QPA_PLATFORM="").stderr
        for name in ("headscope/traces/reference-passkey-4096.h5", "applications/headscope.desktop", "metainfo/headscope.metainfo.xml", "icons/hicolor/scalable/apps/headscope.svg"):
            self.assertEqual((self.prefix / "share" / name).is_file(), window, name)
        if window:
            # What a software centre and a file manager read of it names what is installed, and the kind of file that a trace is.
            desktop = dict(line.split("=", 1) for line in (self.prefix / "share/applications/headscope.desktop").read_text().splitlines() if "=" in line)
            about = xml.etree.ElementTree.parse(self.prefix / "share/metainfo/headscope.metainfo.xml").getroot()
            self.assertEqual(about.findtext("launchable"), "headscope.desktop")
            self.assertEqual(about.findtext("provides/binary"), self.program.name)
            self.assertEqual(desktop["MimeType"], "".join(kind.text + ";" for kind in about.findall("provides/mediatype")))
            self.check_kind_of_file(desktop["MimeType"].split(";")[0])
        shards = sorted(path.name for path in DATA.glob("reference_model/*.safetensors"))
        self.assertEqual(sorted(path.name for path in (self.share / "reference_model").glob("*.safetensors")), shards)

    def check_kind_of_file(self, name):
        """A file manager tells a trace from other HDF5 files by its first bytes."""
        space = {"": "http://www.freedesktop.org/standards/shared-mime-info"}
        kind = xml.etree.ElementTree.parse(self.prefix / "share/mime/packages/headscope.xml").getroot().find("mime-type", space)
        self.assertEqual(kind.get("type"), name)
        self.assertEqual(kind.find("sub-class-of", space).get("type"), "application/x-hdf")

        def matches(rule, data):
            value = rule.get("value").encode().decode("unicode_escape").encode("latin-1")
            first, _, last = rule.get("offset").partition(":")
            if not any(data[at:at + len(value)] == value for at in range(int(first), int(last or first) + 1)):
                return False
            inner = rule.findall("match", space)
            return not inner or any(matches(rule, data) for rule in inner)

        rule = kind.find("magic/match", space)
        with open(self.prefix / "share/headscope/traces/reference-passkey-4096.h5", "rb") as file:
            trace = file.read(4096)
        self.assertTrue(matches(rule, trace))
        self.assertFalse(matches(rule, trace.replace(b"headscope-trace", b"some-other-data")))
        self.assertFalse(matches(rule, trace[1:]))

    def test_nothing_installed_names_the_checkout_or_the_build_in_its_search_path(self):
        for path in (self.program, self.parts / "headscope-contents", self.parts / "libheadscope_torch.so"):
            dynamic = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
            searched = [line for line in dynamic.splitlines() if "PATH" in line]
            self.assertFalse([line for line in searched if str(BUILD) in line], path)

    def test_methods_info_and_capture(self):
        self.assertIn("vertical-slash", run(self.program, "methods").stdout)
        zebras(self.share)
        trace = pathlib.Path(self.folder.name) / "trace.h5"
        run(self.program, "capture", self.share / "reference_model", "--task", "passkey", "--length", 512, "--layers", 0, "--heads", 0, "-o", trace, "--quiet")
        with h5py.File(trace, "r") as file:
            self.assertIn(b"zebra zebra", bytes(file["tokens/text"][...]), "the installed prose was not read")
        self.assertIn("512", run(self.program, "info", trace).stdout)
        self.assertEqual(run(self.program, "info", self.share / "reference_model").stdout, run(HEADSCOPE, "info", DATA / "reference_model").stdout
                         .replace(str(DATA / "reference_model"), str(self.share / "reference_model")))
        helper, away = self.parts / "headscope-contents", self.parts / "elsewhere"
        helper.rename(away)
        try:  # the build's own is not taken instead
            self.assertIn(f"{helper}: is missing", run(self.program, "info", trace, code=1).stderr)
        finally:
            away.rename(helper)

    def test_a_build_in_a_checkout_that_was_moved_finds_its_own(self):
        moved = pathlib.Path(self.folder.name) / "checkout"
        build = moved / BUILD.relative_to(DATA.parent)
        build.mkdir(parents=True)
        for name in ("headscope", "headscope-contents", "libheadscope_torch.so"):
            shutil.copy2(BUILD / name, build / name)
        shutil.copytree(DATA / "reference_model", moved / "data/reference_model", ignore=shutil.ignore_patterns("recipe"))
        (moved / "data/prompts").mkdir()
        zebras(moved / "data")
        trace = moved / "trace.h5"
        run(build / "headscope", "capture", moved / "data/reference_model", "--task", "passkey", "--length", 512, "--layers", 0, "--heads", 0,
            "-o", trace, "--quiet")
        with h5py.File(trace, "r") as file:
            self.assertIn(b"zebra zebra", bytes(file["tokens/text"][...]))


if __name__ == "__main__":
    command_line.main()
