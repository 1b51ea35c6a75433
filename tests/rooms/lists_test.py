# SPDX-License-Identifier: Apache-2.0
"""What stands in a list's folder stands in the list: a method, statistic, figure, task, family or pane whose line was forgotten would compile, and be
nowhere. (A line without its function does not link.)

usage: lists_test.py SOURCE_FOLDER
"""

import pathlib
import re
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")

# Which files, what the function of an entry looks like, and the list.
LISTS = (("kernels/methods/*.cpp", r"const (?:Prefill|Decode)Method& (\w+)\(\)", "kernels/methods/registry.h"),
         ("analysis/row_statistics/*.cpp", r"const RowStatistic& (\w+)\(\)", "analysis/row_statistics/row_statistic_list.h"),
         ("analysis/whole_head/*.cpp", r"const HeadStatistic& (\w+)\(\)", "analysis/whole_head/head_statistic_list.h"),
         ("analysis/figures/*.cpp", r"const FigureMaker& (\w+)\(\)", "analysis/figures/figure_list.h"),
         ("eval/tasks/*.cpp", r"const Task& (\w+)\(\)", "eval/tasks/task_list.h"),
         ("model/families/*.cpp", r"const Family& (\w+)\(\)", "model/families/family_list.h"),
         ("ui/shell/*.cpp", r"QWidget\* (Make\w+Pane)\(", "ui/shell/pane_list.h"))


def defined(folder, files, shape):
    """{function: file} of the entries that these files define. What reads the list (registry.cpp) is none of them."""
    paths = (path for path in sorted(folder.glob(files)) if path.name != "registry.cpp")
    return {name: path.name for path in paths for name in re.findall(rf"^{shape}[^;{{]*\{{", path.read_text(), re.M)}


def unlisted(folder, files, shape, listed):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", (folder / listed).read_text(), flags=re.S)
    lines = set(re.findall(r"\w+", text))
    return {name: file for name, file in defined(folder, files, shape).items() if name not in lines}


# Names that an entry gives itself, and the rooms that take them from the list: what repeats one decides by it, or goes stale.
TASK, FAMILY = r'name\(\) const override \{ return "([^"]+)"; \}', r'(?:model_type = |Layout\()"([^"]+)"'
NAMES = (("eval/tasks", TASK, ("eval", "capture", "ui", "app")), ("model/families", FAMILY, ("model", "sparse_model", "eval", "capture", "analysis", "ui", "app")))
OTHER_WORDS = {("model/tokenizer/script_runs.cpp", "Yi")}  # a script of Unicode's


def repeated(folder, home, shape, rooms):
    """(file, name) of every name of an entry in `home` that is written out elsewhere, and how many names there are."""
    names = {name for path in sorted((folder / home).glob("*.cpp")) for name in re.findall(shape, path.read_text())}
    sources = (path for room in rooms for path in sorted((folder / room).rglob("*")) if path.suffix in (".cpp", ".h") and folder / home != path.parent)
    found = {(str(path.relative_to(folder)), name) for path in sources for name in names & set(re.findall(r'"([^"\n]*)"', path.read_text()))}
    return found - OTHER_WORDS, len(names)


class Lists(unittest.TestCase):
    def test_an_entrys_name_is_written_once(self):
        for home, shape, rooms in NAMES:
            with self.subTest(home):
                found, names = repeated(SOURCE, home, shape, rooms)
                self.assertGreater(names, 10, "or the test looks at nothing")
                self.assertEqual(found, set())

    def test_finds_a_name_that_is_repeated(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in (("eval/tasks/pass_key.cpp", 'name() const override { return "passkey"; }'), ("app/a.cpp", 'std::string task = "passkey";'), ("app/b.cpp", '"a passkey"')):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
            self.assertEqual(repeated(folder, *NAMES[0]), ({("app/a.cpp", "passkey")}, 1))

    def test_every_entry_has_its_line(self):
        for files, shape, listed in LISTS:
            with self.subTest(listed):
                self.assertGreater(len(defined(SOURCE, files, shape)), 5, "or the test looks at nothing")
                self.assertEqual(unlisted(SOURCE, files, shape, listed), {})

    def test_finds_an_entry_without_a_line(self):
        files, shape, listed = LISTS[4]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "eval/tasks").mkdir(parents=True)
            (folder / listed).write_text("#define HEADSCOPE_TASKS(TASK) TASK(PassKey)  // not TASK(Counting)\n")
            (folder / "eval/tasks/pass_key.cpp").write_text("const Task& PassKey() {\n")
            (folder / "eval/tasks/counting.cpp").write_text("const Task& PassKey();\nconst Task& Counting() {\n")
            self.assertEqual(unlisted(folder, files, shape, listed), {"Counting": "counting.cpp"})


if __name__ == "__main__":
    unittest.main()
