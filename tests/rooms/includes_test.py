# SPDX-License-Identifier: Apache-2.0
"""The include graph against the table of rooms in docs/design.md, section 2.

usage: includes_test.py SOURCE_FOLDER

Every #include "..." of a room's sources leads into the room itself or into a public header (one below an include/ folder) of a
room that its row of the table names; rows name only rooms that stand above them, so no arrow leads up and none goes round. A row
may name a folder of a room in place of all of it ("kernels/types"). Headers of LibTorch, HDF5 and CUDA stay where the table says.
"""

import pathlib
import re
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")
SUFFIXES = {".cpp", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# Rooms that see headers of these, and how such headers are named.
LIBRARIES = {
    "LibTorch": ({"model"}, re.compile(r"^(torch|ATen|c10)/")),
    "HDF5": ({"data"}, re.compile(r"^(hdf5|H5\w+)\.h$")),
    "CUDA": ({"kernels", "analysis", "app"}, re.compile(r"^(cuda\w*\.h|cutlass/.*|cute/.*)$")),
}


def rooms_of(design, heading="| folder | holds | may include |"):
    """{room: what it may include, None for everything} in the table's order, from the text of docs/design.md."""
    table = design.split(heading, 1)[1].split("\n\n", 1)[0]
    rooms = {}
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        may = cells[-1].split(";")[0].strip()
        if may == "all":
            allowed = None
        else:
            allowed = [] if may == "nothing of ours" else [name.strip() for name in may.split(",")]
        rooms[cells[0].rstrip("/")] = allowed
    return rooms


def order_errors(rooms):
    """Rows that name something else than rooms above them."""
    above, errors = set(), []
    for room, allowed in rooms.items():
        for name in allowed or []:
            if name.split("/")[0] not in above:
                errors.append(f"docs/design.md: {room} may include '{name}', which is no room above it in the table")
        above.add(room)
    return errors


def sources(folder, rooms):
    for room in rooms:
        for path in sorted((folder / room).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(folder)


def files_by_name(files):
    by_name = {}
    for file in files:
        by_name.setdefault(file.name, []).append(file)
    return by_name


def target(path, included, by_name):
    """The file of ours that an #include "..." means, or None."""
    beside = pathlib.Path(path.parent, included)
    found = by_name.get(beside.name, [])
    if beside in found:
        return beside
    candidates = [file for file in found if str(file).endswith("/" + included)]
    own = [file for file in candidates if file.parts[0] == path.parts[0]]
    return (own or candidates or [None])[0]


def include_errors(folder, rooms):
    files = list(sources(folder, rooms))
    by_name = files_by_name(files)
    errors = []
    for path in files:
        room = path.parts[0]
        if rooms[room] is None and room != "app":
            continue
        for kind, included in INCLUDE.findall((folder / path).read_text(errors="replace")):
            for library, (seeing, pattern) in LIBRARIES.items():
                if pattern.match(included) and room not in seeing:
                    errors.append(f"{path} includes {included}: {library}'s headers are for {', '.join(sorted(seeing))}")
            leads = target(path, included, by_name) if kind == '"' else None
            if leads is None or leads.parts[0] == room:
                if leads is not None and path.parts[1] == "types" and leads.parts[1] != "types":
                    errors.append(f"{path} includes {included}: plain data includes plain data alone")
                continue
            if "include" not in leads.parts:
                errors.append(f"{path} includes {included}: {leads} is no public header of {leads.parts[0]}/")
            allowed = rooms[room]
            if allowed is None:
                continue
            if path.parts[1] == "types":  # plain data, which ui/ sees as well
                allowed = [name if name == "base" else name.split("/")[0] + "/types" for name in allowed]  # ui/ sees all of base/
            if not any(str(leads).startswith(name + "/") for name in allowed):
                errors.append(f"{path} includes {included}: {'/'.join(path.parts[:2])} may include "
                              f"{', '.join(allowed) or 'nothing of ours'} (docs/design.md, section 2)")
    return errors


def app_errors(folder, allowed_by):
    """Includes between the folders of app/ that the second table does not have."""
    files = [path.relative_to(folder) for path in sorted((folder / "app").rglob("*")) if path.suffix in SUFFIXES]
    by_name = files_by_name(files)
    errors = []
    for path in files:
        if len(path.parts) < 3:
            continue
        own = path.parts[1]
        if own not in allowed_by:
            errors.append(f"{path}: app/{own}/ has no row in docs/design.md, section 2")
            continue
        for kind, included in INCLUDE.findall((folder / path).read_text(errors="replace")):
            leads = target(path, included, by_name) if kind == '"' else None
            if leads is not None and leads.parts[1] != own and leads.parts[1] not in allowed_by[own]:
                errors.append(f"{path} includes {included}: app/{own} may include {', '.join(allowed_by[own]) or 'nothing else of app'}")
    return errors


def window_errors(folder):
    """Includes inside ui/ past the state: canvas and panes both talk to ui/state, neither to the other nor a pane to a pane."""
    files = [path.relative_to(folder) for path in sorted((folder / "ui").rglob("*")) if path.suffix in SUFFIXES]
    by_name = files_by_name(files)
    errors = []
    for path in files:
        part, pane = path.parts[1], path.stem if path.stem.endswith("_pane") else None
        closed = {"state": ("canvas", "shell"), "canvas": ("shell",), "shell": ("canvas",) if pane else ()}.get(part, ())
        for kind, included in INCLUDE.findall((folder / path).read_text(errors="replace")):
            leads = target(path, included, by_name) if kind == '"' else None
            if leads is None:
                continue
            if leads.parts[1] in closed or pane and leads.stem.endswith("_pane") and leads.stem != pane:
                errors.append(f"{path} includes {included}: state, canvas and panes meet in ui/state (docs/design.md, section 2)")
    return errors


class Repository(unittest.TestCase):
    def setUp(self):
        design = (SOURCE / "docs/design.md").read_text()
        self.rooms = rooms_of(design)
        self.app = rooms_of(design, "| folder of app/ | may include of app/ |")

    def test_the_folders_of_app_include_those_above_them(self):
        self.assertGreaterEqual(set(self.app), {"support", "choices", "bench", "workbench", "commands"})
        self.assertEqual(order_errors(self.app), [])
        self.assertEqual(app_errors(SOURCE, self.app), [])

    def test_the_table_names_every_room(self):
        self.assertGreaterEqual(set(self.rooms), {"base", "data", "kernels", "model", "eval", "capture", "analysis", "ui", "app"})
        with_sources = {path.parts[0] for path in (p.relative_to(SOURCE) for p in SOURCE.glob("*/**/*.cpp"))}
        self.assertEqual(with_sources - set(self.rooms) - {"build", "benchmarks"}, set())

    def test_no_arrow_leads_up(self):
        self.assertEqual(order_errors(self.rooms), [])

    def test_canvas_and_panes_meet_in_the_state(self):
        self.assertGreater(len(list((SOURCE / "ui/shell").glob("*_pane.cpp"))), 5)
        self.assertEqual(window_errors(SOURCE), [])

    def test_every_include_is_allowed(self):
        self.assertGreater(len(list(sources(SOURCE, self.rooms))), 300)
        self.assertEqual(include_errors(SOURCE, self.rooms), [])


class Checks(unittest.TestCase):
    """What the checks above find in a tree of a few files."""

    DESIGN = """| folder | holds | may include |
|---|---|---|
| base/ | a | nothing of ours |
| kernels/ | a \\| b | nothing of ours |
| model/ | a | base |
| analysis/ | a | base, kernels |
| ui/ | a | base, kernels/types; never torch |
| app/ | a | all |

after it"""

    def errors(self, files):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in ({"kernels/include/kernels/a.h": "", "kernels/types/include/kernels/t.h": "",
                                "base/include/base/b.h": "", "kernels/inner.h": ""} | files).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
            return include_errors(folder, rooms_of(self.DESIGN))

    def test_reads_the_table(self):
        rooms = rooms_of(self.DESIGN)
        self.assertEqual(rooms, {"base": [], "kernels": [], "model": ["base"], "analysis": ["base", "kernels"],
                                 "ui": ["base", "kernels/types"], "app": None})
        self.assertEqual(order_errors(rooms), [])
        self.assertEqual(len(order_errors({"base": ["model"], "model": ["base"]})), 1)

    def test_allows_what_the_table_says(self):
        self.assertEqual(self.errors({"analysis/x.cpp": '#include "kernels/a.h"\n#include "base/b.h"\n#include <vector>\n',
                                      "ui/x.cpp": '#include "kernels/t.h"\n', "app/x.cpp": '#include "kernels/a.h"\n',
                                      "model/x.cpp": '#include <torch/torch.h>\n', "kernels/x.cu": "#include <cuda.h>\n"}), [])

    def test_finds_an_arrow_that_is_not_in_the_table(self):
        for path, text in {"kernels/x.cpp": '#include "base/b.h"', "base/x.cpp": '# include "kernels/a.h"',
                           "ui/x.cpp": '#include "kernels/a.h"', "model/x.cpp": '#include "kernels/t.h"'}.items():
            errors = self.errors({path: text + "\n"})
            self.assertEqual(len(errors), 1, path)
            self.assertIn("may include", errors[0])

    def test_finds_an_arrow_past_the_state(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in {"ui/state/s.h": "", "ui/canvas/c.h": '#include "s.h"\n', "ui/shell/a_pane.h": "", "ui/shell/window.cpp": '#include "a_pane.h"\n#include "c.h"\n',
                               "ui/shell/a_pane.cpp": '#include "a_pane.h"\n#include "s.h"\n#include "c.h"\n', "ui/shell/b_pane.cpp": '#include "a_pane.h"\n',
                               "ui/state/s.cpp": '#include "c.h"\n', "ui/canvas/c.cpp": '#include "window.h"\n#include "a_pane.h"\n'}.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
            errors = window_errors(folder)
        self.assertEqual([error.split(" ")[0] for error in errors], ["ui/canvas/c.cpp", "ui/shell/a_pane.cpp", "ui/shell/b_pane.cpp", "ui/state/s.cpp"])

    def test_finds_an_arrow_inside_app(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path, text in {"app/support/s.h": "", "app/bench/b.h": '#include "support/s.h"\n', "app/main.cpp": '#include "bench/b.h"\n',
                               "app/support/s.cpp": '#include "s.h"\n#include "bench/b.h"\n', "app/other/o.h": ""}.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
            errors = app_errors(folder, {"support": [], "bench": ["support"]})
        self.assertEqual(len(errors), 2, errors)
        self.assertIn("app/other/ has no row", errors[0])
        self.assertIn("support/s.cpp includes bench/b.h", errors[1])

    def test_finds_a_header_that_is_not_public(self):
        self.assertIn("no public header", self.errors({"app/x.cpp": '#include "inner.h"\n'})[0])

    def test_finds_plain_data_that_needs_more(self):
        self.assertIn("plain data", self.errors({"kernels/types/t.cpp": '#include "kernels/a.h"\n'})[0])
        self.assertEqual(len(self.errors({"analysis/types/t.cpp": '#include "kernels/a.h"\n'})), 1)
        self.assertEqual(self.errors({"analysis/types/t.cpp": '#include "kernels/t.h"\n'}), [])
        self.assertEqual(self.errors({"analysis/types/t.cpp": '#include "base/b.h"\n'}), [])

    def test_finds_a_library_in_the_wrong_room(self):
        for path, text in {"ui/x.cpp": "#include <torch/torch.h>", "analysis/x.cpp": "#include <hdf5.h>",
                           "model/x.cpp": "#include <cuda_runtime.h>"}.items():
            self.assertEqual(len(self.errors({path: text + "\n"})), 1, path)


if __name__ == "__main__":
    unittest.main()
