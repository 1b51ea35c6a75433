# SPDX-License-Identifier: Apache-2.0
"""Units that may be compiled as one have no name of their own in common.

usage: unit_names_test.py SOURCE_FOLDER

headscope_batches (cmake/HeadscopeRoom.cmake), which headscope_test calls, puts several sources of a target into one unit, and which ones come together changes with every
source that is added: two sources of one target with the same name in their unnamed namespaces would stop some later build. Targets and sources
are read from the CMakeLists.txt, all branches of their conditions together, so that builds without CUDA or cairo are held too.
"""

import collections
import glob
import pathlib
import re
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")
FOLDERS = ("analysis", "app", "base", "benchmarks", "capture", "data", "eval", "kernels", "model", "sparse_model", "tests", "ui")
COMMAND = re.compile(r"^[ \t]*(\w+)[ \t]*\(((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*)\)", re.MULTILINE)


class Listing:
    """The targets of a CMakeLists.txt and their sources: of every if the body, of every else too."""

    def __init__(self, path, project):
        self.folder, self.variables = path.parent.resolve(), collections.defaultdict(list)
        self.variables["PROJECT_SOURCE_DIR"], self.variables["CMAKE_CURRENT_SOURCE_DIR"] = [str(project.resolve())], [str(self.folder)]
        self.sources, self.batched, self.alone, self.depth = collections.defaultdict(list), [], set(), 0
        text = re.sub(r"#.*", "", path.read_text())
        self.run([(match[1], match[2]) for match in COMMAND.finditer(text)])

    def words(self, text):
        found = []
        for word in re.findall(r'"[^"]*"|\S+', text):
            word = word.strip('"')
            whole = re.fullmatch(r"\$\{(\w+)\}", word)
            if whole:
                found += self.variables[whole[1]]
            else:
                found.append(re.sub(r"\$\{(\w+)\}", lambda use: " ".join(self.variables[use[1]]), word))
        return found

    def run(self, commands):
        at = 0
        while at < len(commands):
            name, text = commands[at]
            at += 1
            if name == "foreach":
                end, depth = at, 1
                while depth:
                    depth += {"foreach": 1, "endforeach": -1}.get(commands[end][0], 0)
                    end += 1
                variable, *values = self.words(text)
                for value in values:
                    self.variables[variable] = [value]
                    self.run(commands[at:end - 1])
                at = end
            else:
                self.depth += {"if": 1, "endif": -1}.get(name, 0)
                self.command(name, self.words(text))

    def command(self, name, words):
        if name == "set":
            self.variables[words[0]] += words[1:]
        elif name == "list" and words[0] == "APPEND":
            self.variables[words[1]] += words[2:]
        elif name == "list" and words[0] == "REMOVE_ITEM" and self.depth == 0:
            removed = {self.path(word) for word in words[2:]}
            self.variables[words[1]] = [word for word in self.variables[words[1]] if self.path(word) not in removed]
        elif name == "file" and words[0] == "GLOB":
            for pattern in words[2:]:
                if pattern.endswith(".cpp"):
                    self.variables[words[1]] += sorted(glob.glob(str(self.folder / pattern)))
        elif name in ("add_library", "add_executable", "target_sources", "headscope_room", "headscope_test"):
            target = "headscope_" + words[0] if name == "headscope_room" else words[0]
            self.sources[target] += [self.path(word) for word in words[1:] if word.endswith(".cpp")]
            if name == "headscope_test" and "ALONE" not in words and len(self.sources[target]) > 1:
                self.batched.append(target)
        elif name == "set_source_files_properties" and "SKIP_UNITY_BUILD_INCLUSION" in words:
            self.alone |= {self.path(word) for word in words if word.endswith(".cpp")}
        elif name == "headscope_batches":
            self.batched.append(words[0])

    def path(self, word):
        return (self.folder / word).resolve()


def batched_targets(folder):
    """{target: its sources that may be put together}."""
    targets = {}
    for room in FOLDERS:
        for path in sorted((folder / room).rglob("CMakeLists.txt")):
            text = path.read_text()
            if "headscope_batches(" in text or "headscope_test(" in text:
                listing = Listing(path, folder)
                for target in listing.batched:
                    targets[target] = sorted({source for source in listing.sources[target] if source.exists()} - listing.alone)
    return targets


# Comments, texts and the preprocessor's lines, none of which declares anything.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'|^[ \t]*#(?:[^\n\\]|\\.)*', re.DOTALL | re.MULTILINE)
BRACE, STOP = re.compile(r"[{}]"), re.compile(r"[;{}]")
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b\s*([\w:]*)\s*")
TYPE = re.compile(r"(?:typedef\s+)?(struct|class|union|enum(?:\s+class|\s+struct)?)\b\s*(?:alignas\([^)]*\)\s*)?(\w*)")
WORD = re.compile(r"[A-Za-z_]\w*")
TYPE_WORDS = {"int", "char", "bool", "float", "double", "long", "short", "unsigned", "signed", "auto", "void", "const"}


def behind(text, begin):
    """The place behind the block that begins at `begin`."""
    depth = 0
    for match in BRACE.finditer(text, begin):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)


def split(text, separator=","):
    """Parts between separators that are in no brackets."""
    parts, depth, part = [], 0, ""
    for letter in text.replace("->", "  ").replace("<<", "  ").replace(">=", "  ").replace("<=", "  "):
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(letter, 0)
        if letter == separator and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return parts + [part]


def without_template(head):
    while head.startswith("template"):
        depth, at = 0, head.find("<")
        for at in range(at, len(head)):
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            if depth == 0:
                break
        head = head[at + 1:].strip()
    return head


def parameter_type(text):
    """`const Row& row = {}` -> `const Row&`."""
    text = " ".join(split(text, "=")[0].split())
    match = re.search(r"^(.*[\w>&*.\]])\s*\b([A-Za-z_]\w*)$", text)
    if match and match[2] not in TYPE_WORDS and not match[1].endswith("::") and match[1].strip() not in ("const", "struct", "class"):
        text = match[1]
    return re.sub(r"\s*([&*<>,])\s*", r"\1", text.strip())


def declared(head, body):
    """[(name, form)] of a declaration at the scope of a namespace, whose block, if any, is `body`: the parameter types of a function; what an alias
    stands for, since units may give one thing the same alias; else None."""
    head = without_template(re.sub(r"\[\[.*?\]\]", "", head).strip())
    if not head or head.startswith(("using namespace", "static_assert", "friend", "extern")):
        return []
    if head.startswith("using"):
        alias = re.match(r"using\s+(\w+)\s*=(.*)", head, re.DOTALL)
        return [(alias[1], "".join(alias[2].split()))] if alias else []
    if head.startswith("namespace"):
        alias = re.match(r"namespace\s+(\w+)\s*=(.*)", head, re.DOTALL)
        return [(alias[1], "".join(alias[2].split()))]
    kind = TYPE.match(head)
    if kind and (body is not None or "=" in head) and not re.match(r"[^=]*\w\s+\w+\s*\(", head):
        names = [(kind[2], None)] if kind[2] else []
        if kind[1] == "enum" and body is not None:
            names += [(WORD.search(part)[0], None) for part in split(body) if WORD.search(part)]
        return names
    if kind and re.fullmatch(r"(struct|class|union|enum(\s+class)?)\s+\w+(\s*:\s*\w+)?", head):
        return []  # it is defined elsewhere
    if head.startswith("typedef"):
        return [(WORD.findall(head)[-1], None)]
    value = split(head, "=")
    before = value[0]
    call = re.search(r"(operator\s*[^\s\w(]+|operator\s*\(\)|[\w:~]+)\s*\(", before)
    if call and not (head.startswith("constexpr") and body is None):  # whose constants may have their values in brackets
        depth, end = 0, call.end() - 1
        for end in range(call.end() - 1, len(head)):
            depth += {"(": 1, ")": -1}.get(head[end], 0)
            if depth == 0:
                break
        inside = head[call.end():end]
        parameters = tuple(parameter_type(part) for part in split(inside)) if inside.strip() else ()
        return [] if "::" in call[1] else [(call[1], parameters)]
    names = []
    for number, part in enumerate(split(head)):
        name = re.match(r"\s*(.*?)\b([A-Za-z_]\w*)\s*(?:\[[^=]*\]\s*)?(?:=|\{|\(|$)", part, re.DOTALL)
        if name and (number > 0 or name[1].strip()) and "::" not in part.split("=")[0][name.start(2) - 2:name.start(2)]:
            names.append((name[2], None))
    return names


def own_names(text):
    """{(namespace, name): forms, as `declared` has them} of what only this source is meant to see: what is in an unnamed namespace, and constants and
    static functions outside."""
    text = NO_CODE.sub(lambda match: '""' if match[0][0] in "\"R" else "0" if match[0][0] == "'" else "", text)
    found, scopes, at, head, body = collections.defaultdict(set), [], 0, "", None

    def keep():
        own = any(name == "" for name in scopes) or re.match(r"\s*(?:inline\s+)?(constexpr|const|static)\b", head) and "::" not in head.split("(")[0].split("=")[0].split()[-1]
        if own:
            for name, parameters in declared(head, body):
                found["::".join(name for name in scopes if name), name].add(parameters)

    while stop := STOP.search(text, at):
        head += text[at:stop.start()]
        at = stop.end()
        opened = head.count("(") - head.count(")")
        if stop[0] == "{":
            space = NAMESPACE.fullmatch(head.strip())
            if space or re.fullmatch(r'\s*extern\s+""\s*', head):
                scopes.append(space[1] if space else None)
                head = ""
                continue
            at = behind(text, stop.start())
            block = text[stop.end():at - 1]
            plain = re.sub(r"operator\s*[^\w\s(]+", "operator", without_template(head.strip()))
            if opened == 0 and "(" in plain and len(split(plain, "=")) == 1:  # a function, or a value in brackets, would have no block or a `=`
                if not re.match(r"\s*[,{]", text[at:at + 80]):  # a constructor's list goes on
                    keep()
                    head, body = "", None
            elif opened == 0:
                body = block if body is None else body
                head += " {} " if "=" in head else " "
        elif stop[0] == ";" and opened == 0:
            keep()
            head, body = "", None
        elif stop[0] == "}":
            head, body = "", None
            if scopes:
                scopes.pop()
    return found


def clash(form, other):
    if isinstance(form, tuple) and isinstance(other, tuple):
        return form == other  # or they overload each other
    return form is None or form != other


def clashes(folder):
    """One sentence for each name that two sources of a batched target have."""
    errors, names_of = [], {}
    for target, sources in batched_targets(folder).items():
        known = collections.defaultdict(list)
        for source in sources:
            if source not in names_of:
                names_of[source] = own_names(source.read_text(errors="replace"))
            for key, forms in names_of[source].items():
                for other, others in known[key]:
                    if any(clash(one, two) for one in forms for two in others):
                        errors.append(f"{other.relative_to(folder.resolve())} and {source.relative_to(folder.resolve())}, which {target} may compile as one unit, both declare {key[1]}; rename one")
                known[key].append((source, forms))
    return errors


class Repository(unittest.TestCase):
    def test_every_batched_target(self):
        targets = batched_targets(SOURCE)
        self.assertGreater(len(targets), 20)
        self.assertEqual([target for target, sources in targets.items() if len(sources) < 2], [])
        self.assertEqual(clashes(SOURCE), [])


class Checks(unittest.TestCase):
    """What the checks above find."""

    def names(self, text):
        return {name for _, name in own_names("namespace headscope {\nnamespace {\n" + text + "\n}\n}\n")}

    def test_declarations(self):
        for text, names in (
            ("constexpr int kA = 1 << 2, kB[] = {1, 2}; // int kC = 1;", {"kA", "kB"}),
            ("constexpr QColor kA(1, 2), kB(3, 4);", {"kA", "kB"}),
            ("const std::map<std::string, int> kA = {{\"{;\", 1}};\nbool done = false;", {"kA", "done"}),
            ("constexpr auto kA = std::to_array<Row>({{1, 2}, {3, 4}});", {"kA"}),
            ("const auto kA = [](int a) { int b = a; return b; };", {"kA"}),
            ("struct A final : B { int c = 0; void D() {} };\nclass E;", {"A"}),
            ("enum A : int { kB, kC = 2 };\nenum class D { kE };", {"A", "kB", "kC", "D"}),
            ("using A = B<int>;\nusing std::string;\nnamespace fs = std::filesystem;", {"A", "fs"}),
            ("template <typename T, int n = 2>\nstd::map<T, int> A(const T& b, int c = 1) { if (b) { int d; } return {}; }\nint kE{3};", {"A", "kE"}),
            ("struct A { explicit A(int b); int c_; };\nA::A(int b) : c_{b} { int d; }\nvoid E();", {"A", "E"}),
            ("#define A int B = 1;\n[[maybe_unused]] constexpr char kC = \'{\';", {"kC"}),
        ):
            self.assertEqual(self.names(text), names, text)
        self.assertEqual({name for _, name in own_names("namespace a { int B() { return 1; } constexpr int kC = 1; static int D() { return 2; } int X::e = 1; }")}, {"kC", "D"})

    def planted(self, first, second, listing="add_library(headscope_a STATIC one.cpp)\nif(X)\n  target_sources(headscope_a PRIVATE sub/two.cpp)\nendif()\nheadscope_batches(headscope_a 2)\n"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "base" / "sub").mkdir(parents=True)
            (folder / "base" / "CMakeLists.txt").write_text(listing)
            for path, text in (("base/one.cpp", first), ("base/sub/two.cpp", second)):
                (folder / path).write_text("namespace a {\nnamespace {\n" + text + "\n}\n}\n")
            return clashes(folder)

    def test_finds_planted_twins(self):
        for first, second in (("constexpr int kA = 1;", "constexpr double kB = 2, kA = 3;"), ("struct A { int b; };", "struct A { int b; };"),
                              ("using A = int;", "using A = long;"), ("enum { kA, kB };", "int kB = 1;"), ("class A {};", "enum class A { kB };"),
                              ("int A(const std::string& b, int c = 1) { return c; }", "void A(const std::string &name, int) {}"), ("int A() { return 1; }", "bool A = false;")):
            found = self.planted(first, second)
            self.assertEqual(len(found), 1, (first, second, found))
            self.assertIn("base/one.cpp and base/sub/two.cpp, which headscope_a", found[0])

    def test_lets_others_be(self):
        for first, second in (("int A(int b) { return b; }", "int A(double b) { return 1; }"), ("using A = int;", "using A = int;"), ("class A;", "class A;"),
                              ("int A() { int b = 1; return b; }", "int b = 1;"), ("enum class A { kB };", "constexpr int kB = 1;"),
                              ("int kA = 1;", "}\nnamespace b {\nnamespace {\nint kA = 1;\n}")):
            self.assertEqual(self.planted(first, second), [], (first, second))
        twins = ("int kA = 1;", "int kA = 1;")
        alone = "add_library(a STATIC one.cpp sub/two.cpp)\nset_source_files_properties(one.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)\nheadscope_batches(a 2)\n"
        self.assertEqual(self.planted(*twins, alone), [])
        self.assertEqual(self.planted(*twins, "add_library(a STATIC one.cpp)\nadd_library(b STATIC sub/two.cpp)\nheadscope_batches(a 2)\nheadscope_batches(b 2)\n"), [])

    def test_reads_listings(self):
        every = "foreach(_unit one two)\n  target_sources(a PRIVATE ${_unit}.cpp)\nendforeach()\nheadscope_batches(a 2)\n"
        globbed = "file(GLOB UNITS CONFIGURE_DEPENDS RELATIVE \"${CMAKE_CURRENT_SOURCE_DIR}\" *.cpp)\nheadscope_room(a SOURCES ${UNITS})\nheadscope_batches(headscope_a 2)\n"
        for listing, removed in ((every, ""), (globbed, ""), (globbed.replace("headscope_room", "list(REMOVE_ITEM UNITS two.cpp)\nheadscope_room"), "two.cpp")):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                (folder / "base").mkdir()
                (folder / "base" / "CMakeLists.txt").write_text(listing)
                for unit in ("one.cpp", "two.cpp"):
                    (folder / "base" / unit).write_text("")
                (sources,) = batched_targets(folder).values()
                self.assertEqual({source.name for source in sources}, {"one.cpp", "two.cpp"} - {removed})


if __name__ == "__main__":
    unittest.main()
