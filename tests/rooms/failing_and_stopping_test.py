# SPDX-License-Identifier: Apache-2.0
"""One way to fail and one to stop (docs/design.md, section 7), in every source.

usage: failing_and_stopping_test.py SOURCE_FOLDER

Exit codes are made of an error's type in one file, and nobody else decides by the type of a standard exception what a failure was. What
a person's input causes is thrown as an Error (base/errors.h): a std::invalid_argument is a defect of the caller. A request to stop is a
std::stop_token everywhere: no flag, no callback that says whether to go on.
"""

import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")
ROOMS = ("base", "data", "kernels", "model", "sparse_model", "eval", "capture", "analysis", "ui", "app", "benchmarks")
SUFFIXES = {".cpp", ".h", ".cu", ".cuh"}

# The policy; what ends a process whose exceptions nobody sees any more; the helper process, which has no other exit.
POLICY = {"app/support/exit_codes.h", "app/support/failure.h", "app/support/failure.cpp", "app/support/sudden_end.cpp", "data/contents/contents_main.cpp"}
EXIT_CODES = re.compile(r"(?<!ErrorKind::)\b(kWrongUsage|kBadInput|kDeviceOrMemoryMissing|kFailed)\b")
CATCHES_STANDARD = re.compile(r"catch \((?:const )?std::(invalid_argument|out_of_range|logic_error|runtime_error|length_error|domain_error|range_error)\b")

# What the standard library says of failures that only show while a program runs: our own are Errors. (The family of std::logic_error stays: a
# defect of the caller.) Thrown all the same where nobody sees the exception: a helper process that ends by it, and a sentence that the same
# function catches.
THROWS_STANDARD = re.compile(r"\bthrow std::(?:runtime_error|range_error|overflow_error|underflow_error|system_error|exception)\b")
MAY_THROW_STANDARD = {"data/contents/sandbox.cpp", "model/network/torch_runtime.cpp"}
# An exception whose type says no exit code.
OWN_FAMILY = re.compile(r"\b(?:class|struct) \w+ (?:final )?: (?:public )?std::(?:\w+_error|exception|invalid_argument|out_of_range)\b")

# Names that requests to stop have had; each line of code of one of these is another form.
STOP_FORMS = {
    "a flag": re.compile(r"atomic(?:<bool>|_bool|_flag)[*&]?(?:>\(?\w*\)?)? *(?:const )?\w*(?:cancel|stop|interrupt|abort|quit|halt)", re.IGNORECASE),
    "a flag behind a pointer": re.compile(r"std::atomic(?:<bool>|_bool|_flag) *[*&]"),
    "a shared flag": re.compile(r"shared_ptr<std::atomic(?:<bool>|_bool|_flag)> *\w*(?:cancel|stop|interrupt|current)", re.IGNORECASE),
    "a shared bool": re.compile(r"(?:cancel|stop|interrupt|abort)\w* *= *std::make_shared<bool>", re.IGNORECASE),
    "a volatile": re.compile(r"\bvolatile\b.*(?:cancel|stop|interrupt|sig_atomic)", re.IGNORECASE),
    "an own type": re.compile(r"\b(?:class|struct|using) \w*(?:CancelFlag|CancelToken|StopToken|StopFlag|CancellationToken)\b"),
    "an own test": re.compile(r"\b(?:bool|auto) (?:Is)?(?:Cancelled|Canceled|Interrupted|StopRequested)\("),
    "a question": re.compile(r"\b\w*(?:Should|Must|May|Can)(?:Stop|Cancel|Abort|Quit|Halt|Continue|Proceed|GoOn|KeepGoing)\w*\("),
    "a callback": re.compile(r"std::function<bool\([^)]*\)>[^;]*\b\w*(?:cancel|stop|interrupt|abort|quit|progress|go_on|going|continue|proceed)", re.IGNORECASE),
    "an error of its own": re.compile(r"\bCancelledError\(\""),
    "a status of its own": re.compile(r"\bkCancelled, *\""),
    "a callback of a token": re.compile(r"\bstop_callback\b"),  # Ctrl-C's token may have none (app/support/interrupt.h)
}

# Where stopping has its words.
SAYS_STOPPED = {"base/include/base/stop.h", "kernels/types/include/kernels/stop_status.h"}

# Only the command line names options: it makes one of a field (app/support/option_checks.h), and the window, which says the same sentences,
# a control. The window's command lines are what people copy, and benchmarks/ are programs with options of their own.
# A single letter is an option of ours where we have one; those of other programs (`ulimit -n`) are none.
OPTION_NAMES = re.compile(r'"(?:[^"\\]|\\.)*?(?<![-\w])(?:--[a-z][a-z-]*|-[oh]\b(?!-))(?:[^"\\]|\\.)*"')
IS_COMMAND_LINE = ("app/main.cpp", "app/commands/", "app/bench/", "app/manual/", "app/support/option_checks.", "benchmarks/")
# The same of subcommands: a lower room says what helps (base/error_with_help.h), and the command line which of them does it.
SUBCOMMANDS = sorted(path.stem.removeprefix("command_") for path in (SOURCE / "app" / "commands").glob("command_*.cpp"))
SUBCOMMAND_NAMES = re.compile(r'"(?:[^"\\\n]|\\.)*?\bheadscope (?:%s)\b(?:[^"\\\n]|\\.)*"' % "|".join(SUBCOMMANDS))
# Where there is no window, a whole command that needs none is the remedy.
WRITES_COMMAND_LINES = {"ui/state/command_line.cpp", "app/window.cpp"}


# A value in quotes that a sentence puts round it by hand. kernels/ stands alone and writes the same quotes; these write other languages.
QUOTED_BY_HAND = re.compile(r"""(?:'|(?<!=)\\")" *(?:\+|<<)|(?:\+|<<) *"(?:'(?!s\b)|\\")""")
SINGLE_QUOTED_BY_HAND = re.compile(r"""'" *(?:\+|<<)|(?:\+|<<) *"'(?!s\b)""")
WRITES_QUOTES = ("analysis/report/csv_text.cpp", "analysis/report/map_svg.cpp", "analysis/report/matrix_svg.cpp", "analysis/report/report_html.cpp", "analysis/report/svg_text.h",
                 "analysis/figures/cairo_canvas.cpp", "analysis/quantise/quantise_heads.cpp", "app/choices/numpy_file.cpp", "app/commands/answer_file.cpp", "app/commands/command_info.cpp",
                 "app/manual/", "benchmarks/", "data/trace/trace_export.cpp", "eval/tasks/key_value.cpp")


def sources(folder):
    for room in ROOMS:
        for path in sorted((folder / room).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(folder)


def code_of(text):
    """The lines without comments."""
    return [re.sub(r"//.*", "", line) for line in text.splitlines()]


def policy_errors(name, text):
    errors = []
    for number, line in enumerate(code_of(text), 1):
        if CATCHES_STANDARD.search(line) and not name.startswith("kernels/"):  # which turns them into statuses
            errors.append(f"{name}:{number}: catches a standard exception by its type; let what is foreseen be thrown as an Error (base/errors.h)")
        if THROWS_STANDARD.search(line) and not name.startswith("kernels/") and name not in MAY_THROW_STANDARD:
            errors.append(f"{name}:{number}: throws a standard exception; throw the Error of that kind (base/errors.h), whose type says the exit code")
        if OWN_FAMILY.search(line) and not name.startswith("kernels/") and name != "base/include/base/errors.h":
            errors.append(f"{name}:{number}: an exception of no kind; derive it from an Error (base/errors.h)")
        if EXIT_CODES.search(line) and name.startswith("app/") and name not in POLICY:
            errors.append(f"{name}:{number}: chooses an exit code; throw the error of that kind, and app/support/failure.cpp gives it")
    return errors


def option_errors(name, text):
    if name.startswith(IS_COMMAND_LINE) or name in WRITES_COMMAND_LINES:
        return []
    return [
        f"{name}:{number}: names a command-line option; name the field (base/errors.h)"
        for number, line in enumerate(text.splitlines(), 1) if not line.lstrip().startswith("//") and OPTION_NAMES.search(line)
    ]


def subcommand_errors(name, text):
    if name.startswith(IS_COMMAND_LINE) or name in WRITES_COMMAND_LINES:
        return []
    # A sentence may go on in the string of the next line.
    joined = re.sub(r'"\s*\n\s*"', "", "\n".join(code_of(text)))
    return [f"{name}: {match[0]} names a subcommand; say what helps (base/error_with_help.h)" for match in SUBCOMMAND_NAMES.finditer(joined)]


def quote_errors(name, text):
    if name.startswith(WRITES_QUOTES):
        return []
    by_hand = SINGLE_QUOTED_BY_HAND if name.startswith("kernels/") else QUOTED_BY_HAND
    return [f"{name}:{number}: quotes a value by hand; call Quoted (base/quoted_text.h)" for number, line in enumerate(code_of(text), 1) if by_hand.search(line)]


def problem_errors(name, text):
    """Of Fault{.problem = "..; .."}: what follows the semicolon is for its remedy."""
    errors = []
    for match in re.finditer(r"\.problem\s*=(?!=)\s*", text):
        depth, at = 0, match.end()
        for part in re.finditer(r'"((?:[^"\\]|\\.)*)"|[({\[]|[)}\]]|[,;]', text[at:]):
            if part[0][0] == '"':
                if re.search(r"; |;$", part[1]):
                    errors.append(f"{name}:{text[:at].count(chr(10)) + 1}: the problem says what to do; that is the remedy (base/errors.h)")
                    break
            elif part[0] in "({[":
                depth += 1
            elif part[0] in ")}]":
                depth -= 1
            if depth < 0 or depth == 0 and part[0] in ",;":
                break
    return errors


def sentence_errors(name, text):
    """Of throw XError("..; ..") and its like: what is wrong and what to do are told apart (base/errors.h), so that whoever catches it can add to it."""
    errors = []
    for match in re.finditer(r"\bthrow (?:Failed|Usage|BadInput|Device)Error\(\s*(?!Fault\b)(?=[^{\s])", text):
        depth = 1
        for part in re.finditer(r'"((?:[^"\\]|\\.)*)"|[({\[]|[)}\]]', text[match.end():]):
            if part[0][0] == '"':
                if depth == 1 and re.search(r"; |;$|: (?:choose|give|leave|name|use) ", part[1]):
                    errors.append(f"{name}:{text[:match.start()].count(chr(10)) + 1}: one string says what is wrong and what to do; give the parts of a Fault (base/errors.h)")
                    break
            else:
                depth += 1 if part[0] in "({[" else -1
            if depth == 0:
                break
    return errors


def stop_errors(name, text):
    return [
        f"{name}:{number}: {form} asks somebody to stop, or says that it did; pass a std::stop_token, and see base/stop.h"
        for number, line in enumerate(code_of(text), 1) for form, pattern in STOP_FORMS.items()
        if pattern.search(line) and name not in SAYS_STOPPED
    ]


class Repository(unittest.TestCase):
    def test_every_source(self):
        errors, files = [], list(sources(SOURCE))
        self.assertGreater(len(files), 300)
        for path in files:
            text = (SOURCE / path).read_text(errors="replace")
            errors += policy_errors(str(path), text) + option_errors(str(path), text) + subcommand_errors(str(path), text) + quote_errors(str(path), text) + stop_errors(str(path), text) + problem_errors(str(path), text) + sentence_errors(str(path), text)
        self.assertEqual(errors, [])


class Checks(unittest.TestCase):
    """What the checks above find."""

    def test_other_ways_to_fail(self):
        for line in ("} catch (const std::invalid_argument& error) {", "} catch (std::out_of_range&) {", "  return kBadInput;", 'throw std::runtime_error("it is full");', "throw std::system_error(code);",
                     "class TooLong : public std::length_error {", "struct Other : std::exception {"):
            self.assertEqual(len(policy_errors("app/commands/a.cpp", line)), 1, line)
        for line in ("} catch (const std::exception& error) {", "} catch (const std::bad_alloc&) {", "// catch (const std::out_of_range&)", "return kDone;", 'throw std::invalid_argument("no such head");',
                     'throw std::out_of_range("head");', "throw std::bad_alloc();", "class TooLong : public UsageError {"):
            self.assertEqual(policy_errors("app/commands/a.cpp", line), [], line)
        self.assertEqual(policy_errors("app/support/failure.cpp", "return kBadInput;"), [])
        self.assertEqual(policy_errors("data/contents/sandbox.cpp", 'throw std::runtime_error("a limit cannot be read");'), [])

    def test_options_in_lower_rooms(self):
        for line in ('throw UsageError("give a larger --size");', '"as headscope bench --save-index does"', 'f("--heads");', 'throw UsageError("give -o FILE");', 'f("-o");'):
            for name in ("analysis/a.cpp", "app/choices/a.cpp", "app/workbench/a.cpp", "app/support/output_file.cpp", "app/tour.cpp"):
                self.assertEqual(len(option_errors(name, line)), 1, (name, line))
            for name in ("app/commands/a.cpp", "app/bench/a.cpp", "app/support/option_checks.cpp", "app/main.cpp"):
                self.assertEqual(option_errors(name, line), [], (name, line))
        for line in ('f("a");  --length;', '// give "--size"', 'text = "<!-- a -->";', 'text = "a--b";', 'text = "ulimit -n";', 'text = "built-on -odd 5 -o-";', 'throw UsageError({.field = "size"});'):
            self.assertEqual(option_errors("analysis/a.cpp", line), [], line)

    def test_subcommands_in_lower_rooms(self):
        self.assertIn("capture", SUBCOMMANDS)
        self.assertGreater(len(SUBCOMMANDS), 10)
        for line in ('.remedy = "give a file that headscope capture wrote"', 'tr("as `headscope analyze` prints them")', '"write it again with headscope "\n    "compare"'):
            for name in ("data/a.cpp", "ui/shell/a.cpp", "app/choices/a.cpp", "app/workbench/a.cpp"):
                self.assertEqual(len(subcommand_errors(name, line)), 1, (name, line))
            for name in ("app/commands/a.cpp", "app/support/option_checks.cpp", "ui/state/command_line.cpp"):
                self.assertEqual(subcommand_errors(name, line), [], (name, line))
        for line in ('"this headscope reads versions 1 and 2"', '// as headscope compare writes it', '"written by headscope: capture it again"', '"headscope comparison"', 'f("headscope"); compare();'):
            self.assertEqual(subcommand_errors("data/a.cpp", line), [], line)

    def test_values_quoted_by_hand(self):
        single, double = """Refuse("'" + name + "' is not known");""", r"""Refuse("\"" + name + "\" is not known");"""
        for line in (single, double, r"""out << "is \"" << name;""", r"""text + "\"";"""):
            self.assertEqual(len(quote_errors("app/commands/a.cpp", line)), 1, line)
        self.assertEqual(len(quote_errors("kernels/a.cpp", single)), 1)
        for name in ("kernels/a.cpp", "analysis/report/csv_text.cpp"):
            self.assertEqual(quote_errors(name, double), [], name)
        for line in ('Refuse(Quoted(name) + " is not known");', """"it's " + name""", """name + "'s budget" """, r"""say("as in \"a\" or " + name)""", r"""svg += " fill=\"" + color;"""):
            self.assertEqual(quote_errors("app/commands/a.cpp", line), [], line)

    def test_remedies_in_problems(self):
        for text in ('{.file = path, .problem = "is missing; make one"}', '{.problem = f(a, b) + "(" + why + "); choose another"}',
                     'fault.problem = "one" +\n    std::string("two; three");'):
            self.assertEqual(len(problem_errors("data/a.cpp", text)), 1, text)
        for text in ('{.problem = "is missing", .remedy = "look there; or here"}', '{.problem = f("a", b), .remedy = "c; d"}',
                     'fault.problem = why; Say("one; two");', 'if (fault.problem == "a; b") return;'):
            self.assertEqual(problem_errors("data/a.cpp", text), [], text)

    def test_remedies_in_one_string(self):
        for text in ('throw UsageError("it is missing; make one");', 'throw BadInputError(\n    path + ": cannot be read; choose " + Other("a"));',
                     'throw DeviceError("the memory is used up: use " + less);', 'throw FailedError("it failed" + why + "; " + remedy);'):
            self.assertEqual(len(sentence_errors("data/a.cpp", text)), 1, text)
        for text in ('throw UsageError({.problem = "it is missing", .remedy = "make one; or two"});', 'throw UsageError(Fault{.remedy = "a; b"});',
                     'throw FailedError(OutputFault(path, "it is a folder", "name a file; or two"));', 'throw FailedError(what); Say("one; two");',
                     'throw BadInputError(\n    {.file = path, .remedy = "a; b"});'):
            self.assertEqual(sentence_errors("data/a.cpp", text), [], text)

    def test_other_ways_to_stop(self):
        for line in ("const std::atomic<bool>* cancelled = nullptr;", "std::atomic<bool> stop_ = false;", "void Work(const std::atomic<bool>& flag);",
                     "std::shared_ptr<std::atomic<bool>> stop;", "volatile std::sig_atomic_t interrupted;", "struct CancelFlag {", "bool Interrupted() {",
                     "inline bool IsCancelled(const RunOptions& options) {", "const auto cancelled = std::make_shared<bool>(false);", "std::function<bool(double share)> progress;",
                     "std::function<bool(int)> keep_going;", "if (ShouldStop()) return;", "while (options.MayContinue(i)) {", "std::stop_callback on_stop(token, f);", 'throw CancelledError("stopped");', 'return {StatusCode::kCancelled, "cancelled"};'):
            self.assertGreaterEqual(len(stop_errors("a.h", line)), 1, line)
        for line in ("std::atomic<bool> failed_{false};", "const std::stop_token& stop", "std::function<void(double)> progress;", "// std::atomic<bool>* cancelled"):
            self.assertEqual(stop_errors("a.h", line), [], line)


if __name__ == "__main__":
    unittest.main()
