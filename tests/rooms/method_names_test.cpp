// SPDX-License-Identifier: Apache-2.0
// Nobody decides by a method's name: outside the method's own file no code compares a string with a registered name or
// with the beginning of one, its letters or the name of a parameter, nor with what is there for people to read (title,
// family, paper, summary). What a method is stands in its spec's traits. Names that people type are found by
// Find*Method().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "choices/file_kinds.h"
#include "kernels/decode_method.h"
#include "kernels/method.h"

namespace headscope::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A string literal: its text, and the code around it without spaces.
struct Literal {
  std::string text;
  std::string before;  // the last 60 characters
  char after = 0;
  char after_comma = 0;  // where a comma follows, what follows that
  std::string behind;    // the next 60 characters
  int line = 1;
};

// Code without comments; literals by the way.
class Scanner {
 public:
  explicit Scanner(const std::string& source) : source_(source) {
    while (at_ < source_.size()) Step();
    for (size_t i = 0; i < literals_.size(); ++i) {
      literals_[i].behind = code_.substr(ends_[i], 60);
      const std::string behind = literals_[i].behind.substr(0, 2);
      literals_[i].after = behind.empty() ? '\0' : behind[0];
      literals_[i].after_comma = behind.size() == 2 && behind[0] == ',' ? behind[1] : '\0';
    }
  }
  const std::vector<Literal>& literals() const { return literals_; }
  // Without comments and spaces; a literal is "", a character ''.
  const std::string& code() const { return code_; }
  // Of the characters in the code, in its order.
  const std::vector<char>& characters() const { return characters_; }

 private:
  bool Begins(const char* text) const { return source_.compare(at_, std::string(text).size(), text) == 0; }
  void Skip(size_t end) {
    end = std::min(end, source_.size());
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<int64_t>(at_), source_.begin() + static_cast<int64_t>(end), '\n'));
    at_ = end;
  }
  // Behind the next `text`, or of the source where there is none.
  size_t EndOf(const std::string& text, size_t from) const {
    const size_t found = source_.find(text, from);
    return found == std::string::npos ? source_.size() : found + text.size();
  }
  void Step() {
    if (Begins("//")) return Skip(source_.find('\n', at_));
    if (Begins("/*")) return Skip(EndOf("*/", at_ + 2));
    if (Begins("R\"(")) {
      code_ += "\"\"";
      return Skip(EndOf(")\"", at_));
    }
    if (source_[at_] == '\'') {
      // Also 1'000: a digit separator ends nothing.
      const bool is_character = at_ + 2 < source_.size() && (source_[at_ + 2] == '\'' || source_[at_ + 1] == '\\');
      const size_t end = is_character ? source_.find('\'', at_ + (source_[at_ + 1] == '\\' ? 3 : 2)) + 1 : at_ + 1;
      code_ += is_character ? "''" : "'";
      if (is_character) characters_.push_back(source_[at_ + 1]);
      return Skip(end);
    }
    if (source_[at_] == '"') return TakeLiteral();
    if (std::isspace(static_cast<unsigned char>(source_[at_])) == 0) code_ += source_[at_];
    Skip(at_ + 1);
  }
  void TakeLiteral() {
    Literal literal;
    literal.line = line_;
    literal.before = code_.size() > 60 ? code_.substr(code_.size() - 60) : code_;
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != '"' && source_[end] != '\n') {
      if (source_[end] == '\\') ++end;
      literal.text += source_[end++];
    }
    Skip(end + 1);
    code_ += "\"\"";
    literals_.push_back(literal);
    ends_.push_back(code_.size());
  }

  const std::string& source_;
  size_t at_ = 0;
  int line_ = 1;
  std::string code_;
  std::vector<Literal> literals_;
  std::vector<size_t> ends_;
  std::vector<char> characters_;
};

bool EndsWithAny(const std::string& text, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) { return text.ends_with(end); });
}

// Whether code ends with ".field=" of a designated initialiser: a value of its own, such as a text to be shown.
bool IsDesignator(const std::string& code) {
  const size_t dot = code.find_last_of(".{,;()");
  return dot != std::string::npos && dot > 0 && code[dot] == '.' && (code[dot - 1] == '{' || code[dot - 1] == ',');
}

// The names of methods and of parameters, as one types them, and the methods' titles.
struct Names {
  std::set<std::string> methods, parameters, titles = {};

  static bool Begins(const std::set<std::string>& names, const std::string& text) {
    return !text.empty() &&
           std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.starts_with(text); });
  }
};

// What compares a letter of a method's name or title, at whatever place: `name[0] == 's'`.
std::vector<std::string> ComparedLetters(const Scanner& scanner) {
  static const std::regex letter(
      R"(((method|spec(\(\))?)\.(name|title)|\b(method_?)?[nN]ame|\bmethod)(\(\))?(\[\w+\]|\.at\(\w+\)|\.(front|back)\(\))[!=]='')");
  std::vector<std::string> found;
  const std::string& code = scanner.code();
  for (std::sregex_iterator at(code.begin(), code.end(), letter); at != std::sregex_iterator(); ++at) {
    const auto end = code.begin() + at->position() + at->length();
    // A character is two quotes, and nothing else in the code has one of these but a digit separator.
    size_t place = 0;
    for (auto quote = code.begin(); quote + 1 < end - 1; ++quote) {
      if (*quote != '\'' || quote[1] != '\'') continue;
      ++place;
      ++quote;
    }
    // A dot or a slash is of a file's name.
    if (std::isalnum(static_cast<unsigned char>(scanner.characters().at(place))) != 0) found.push_back(at->str());
  }
  return found;
}

// "line N: text" of every literal that code decides by.
std::vector<std::string> Decisions(const std::string& source, const Names& names) {
  const Scanner scanner(source);
  std::vector<std::string> found;
  const std::vector<std::string> comparing = {"==", "!=", "==QStringLiteral(", "!=QStringLiteral(", "strcmp("};
  const std::vector<std::string> looked_up = {"contains(", ".count(", ".find(", ".at("};
  const std::vector<std::string> searching = {"starts_with(", "startsWith(", "compare(", ".find(", ".rfind(",
                                              "ends_with(",   "contains(",   ".count(",  ".at(",   "strncmp("};
  // One of two names, by something that the method's own traits would say.
  const auto chosen = [](const Literal& literal) {
    const std::string statement = literal.before.substr(literal.before.find_last_of(";{}") + 1);
    return statement.ends_with('?') ||
           (statement.ends_with(':') && !statement.ends_with("::") && statement.find('?') != std::string::npos);
  };
  for (const Literal& literal : scanner.literals()) {
    const std::string unique = literal.text.starts_with("decode/") ? literal.text.substr(7) : literal.text;
    const bool is_method = names.methods.contains(unique);
    const bool compared = EndsWithAny(literal.before, comparing) || literal.after == '=' || literal.after == '!';
    // {"name", something}: a table from names to what they mean. A list of names is none.
    const bool tabled = literal.before.ends_with("{") && literal.after_comma != '\0' && literal.after_comma != '"';
    const bool kept = literal.before.ends_with("=") && !EndsWithAny(literal.before, {"==", "!=", "<=", ">="}) &&
                      !IsDesignator(literal.before);
    const bool searched = EndsWithAny(literal.before, searching);
    // A part of a name, whichever: substr(0, 4) == "spar".
    static const std::regex part_of(R"((\.|->)(substr|left|mid|first)\([^()]*\)[!=]=$)");
    static const std::regex of_that(R"(^[!=]=[\w.()]*(\.|->)(substr|left|mid|first)\()");
    const bool of_part = std::regex_search(literal.before, part_of) || std::regex_search(literal.behind, of_that);
    // Of whatever has a title: it is for people, whichever part of it is asked for.
    static const std::regex of_its_title(
        R"((\.|->)title(\(\))?([!=]=|\.(starts_with|ends_with|find|rfind|contains|compare)\()$)");
    static const std::regex of_that_title(R"(^[!=]=[\w.()]*(\.|->)title\b)");
    const bool of_title = !literal.text.empty() && (std::regex_search(literal.before, of_its_title) ||
                                                    std::regex_search(literal.behind, of_that_title));
    const bool of_name = EndsWithAny(literal.before, {".name==", ".name!=", ".name.starts_with(", ".name.compare("});
    const bool subscript = literal.before.ends_with('[') && literal.after == ']';  // of a map from names
    if ((is_method && (compared || tabled || kept || subscript || chosen(literal))) ||
        ((searched || of_part) && Names::Begins(names.methods, unique)) || of_title ||
        (compared && names.titles.contains(literal.text)) || (of_part && Names::Begins(names.titles, literal.text)) ||
        ((compared || EndsWithAny(literal.before, looked_up)) && names.parameters.contains(literal.text)) ||
        (of_name && (names.parameters.contains(literal.text) || Names::Begins(names.parameters, literal.text)))) {
      found.push_back("line " + std::to_string(literal.line) + ": \"" + literal.text + "\"");
    }
  }
  for (const char* text :
       {".family", ".paper", ".summary", "spec().title", "spec.title", ".note", "UnitText()", "UnitText(parameter)"}) {
    for (const char* use :
         {"==", "!=", ".starts_with(", ".ends_with(", ".find(", ".rfind(", ".contains(", ".compare(", ".substr("}) {
      if (scanner.code().find(std::string(text) + use) != std::string::npos) found.push_back(std::string(text) + use);
    }
  }
  for (const std::string& use : ComparedLetters(scanner)) found.push_back(use);
  // By identity, which is a name as well.
  for (const char* use : {"==Find", "!=Find", "==&Find", "!=&Find", "==*Find"}) {
    for (size_t at = scanner.code().find(use); at != std::string::npos; at = scanner.code().find(use, at + 1)) {
      const std::string rest = scanner.code().substr(at, 48);
      if (rest.find("Method(\"\"") != std::string::npos) found.push_back(rest);
    }
  }
  return found;
}

Names RegisteredNames() {
  Names names;
  const auto add = [&](const auto& methods) {
    for (const auto* method : methods) {
      names.methods.insert(method->spec().name);
      names.titles.insert(method->spec().title);
      for (const ParameterSpec& parameter : method->spec().parameters) names.parameters.insert(parameter.name);
    }
  };
  add(PrefillMethods());
  add(DecodeMethods());
  for (const app::FileKind& kind : app::FileKinds()) names.methods.insert(kind.name);
  return names;
}

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Whether a spec in this source, of a method or of a parameter, has that name, perhaps as one of two.
bool GivesTheName(const std::string& source, const std::string& name) {
  for (size_t at = source.find(".name = "); at != std::string::npos; at = source.find(".name = ", at + 1)) {
    if (source.substr(at, source.find(',', at) - at).find('"' + name + '"') != std::string::npos) return true;
  }
  return false;
}

// A name, and the only file that may say it or compare it.
struct Mention {
  const char* file;
  const char* name;
};
// Words that are the names of parameters as well, and are compared for what else they mean.
constexpr Mention kOtherWords[] = {
    // What the window draws its map into, as a variable of the environment says it.
    {"ui/canvas/gl_surface.cpp", "window"},
    // One of q, k and v.
    {"app/commands/command_quantise.cpp", "k"},
};

TEST(MethodNames, AreComparedInNoRoom) {
  const std::filesystem::path source = HEADSCOPE_SOURCE_DIR;
  int files = 0;
  std::vector<std::string> found;
  for (const char* room :
       {"base", "data", "kernels", "model", "sparse_model", "eval", "capture", "analysis", "ui", "app", "benchmarks"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source / room)) {
      const std::string suffix = entry.path().extension();
      if (suffix != ".cpp" && suffix != ".h" && suffix != ".cu" && suffix != ".cuh") continue;
      ++files;
      const std::string text = Read(entry.path());
      Names others = RegisteredNames();
      if (entry.path().parent_path() == source / "kernels" / "methods" || entry.path().stem() == "file_kinds") {
        // A method's own file may say its name, and so may the list of those that are made of a file.
        std::erase_if(others.methods, [&](const std::string& name) { return GivesTheName(text, name); });
        std::erase_if(others.parameters, [&](const std::string& name) { return GivesTheName(text, name); });
      }
      const std::string file = std::filesystem::relative(entry.path(), source).string();
      for (const Mention& word : kOtherWords) {
        if (file == word.file) others.parameters.erase(word.name);
      }
      for (const std::string& decision : Decisions(text, others)) found.push_back(file + ", " + decision);
    }
  }
  EXPECT_GT(files, 300);
  EXPECT_THAT(found, IsEmpty()) << "ask the method's traits (kernels/method_spec.h), or find it by Find*Method()";
}

// Where a name may stand for other reasons than to decide: nothing else may say one, however it would go about it.
constexpr Mention kMentions[] = {
    // A class of heads that is called as the method made for it, and its width in a table.
    {"analysis/types/include/analysis/types/head_class.h", "vertical-slash"},
    {"ui/shell/head_table.cpp", "vertical-slash"},
    // What `headscope bench` times unless told otherwise, and the column of a table that must hold the longest name.
    {"app/commands/command_bench.cpp", "dense"},
    {"app/commands/command_bench.cpp", "vertical-slash"},
    {"app/commands/command_bench.cpp", "block-sparse"},
    {"app/commands/command_bench.cpp", "sample-attention"},
    {"app/commands/command_bench.cpp", "sparq"},
    {"ui/state/runs_model.cpp", "sample-attention"},
    // Names of file formats and of fixed patterns, which are lists of their own.
    {"app/choices/file_kinds.cpp", "mask-file"},
    {"app/choices/file_kinds.cpp", "duo-attention"},
    {"app/choices/tuning_files.cpp", "duo-attention"},
    {"kernels/problems/fixed_index.cpp", "dense"},
    // A layer without experts.
    {"model/families/deepseek.cpp", "dense"},
    // A word of a title.
    {"ui/canvas/panel_run.cpp", "dense"},
};

// Literals that are a method's name, with or without "decode/" before it or parameters behind it, unless they are what
// Find*Method() is asked for.
std::vector<std::string> MentionsIn(const std::string& source, const std::set<std::string>& methods) {
  std::vector<std::string> found;
  const Scanner scanner(source);
  for (const Literal& literal : scanner.literals()) {
    const std::string unique = literal.text.starts_with("decode/") ? literal.text.substr(7) : literal.text;
    const bool asked = literal.before.ends_with("Method(");
    // "dense: a sentence" is for people.
    const size_t colon = unique.find(": ") == std::string::npos ? unique.find(':') : std::string::npos;
    if (!asked && methods.contains(unique.substr(0, colon)))
      found.push_back("line " + std::to_string(literal.line) + ": \"" + literal.text + "\"");
  }
  return found;
}

TEST(MethodNames, StandNowhereElse) {
  const std::filesystem::path source = HEADSCOPE_SOURCE_DIR;
  std::vector<std::string> found;
  for (const char* room :
       {"base", "data", "kernels", "model", "sparse_model", "eval", "capture", "analysis", "ui", "app"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source / room)) {
      const std::string suffix = entry.path().extension();
      if (suffix != ".cpp" && suffix != ".h" && suffix != ".cu" && suffix != ".cuh") continue;
      const std::string file = std::filesystem::relative(entry.path(), source).string();
      const std::string text = Read(entry.path());
      std::set<std::string> others = RegisteredNames().methods;
      if (file.starts_with("kernels/methods/"))
        std::erase_if(others, [&](const std::string& name) { return GivesTheName(text, name); });
      for (const Mention& mention : kMentions) {
        if (file == mention.file) others.erase(mention.name);
      }
      for (const std::string& mention : MentionsIn(text, others)) found.push_back(file + ", " + mention);
    }
  }
  EXPECT_THAT(found, IsEmpty()) << "ask the method's traits (kernels/method_spec.h), or find it by Find*Method()";
}

TEST(MethodNames, MentionsAreFoundHoweverTheyAreUsed) {
  const std::set<std::string> names = {"dense", "a-shape"};
  for (const char* code : {"set<string> k = {\"a-shape\", \"other\"};", "constexpr string_view k{\"dense\"};",
                           "if (Is(name, \"dense\")) x();", "if (string(\"dense\") == name) x();",
                           "Kind k = by(\"decode/dense\");", "run(\"a-shape:n_sink=4\");"}) {
    EXPECT_EQ(MentionsIn(code, names).size(), 1U) << code;
  }
  EXPECT_THAT(MentionsIn("m = FindPrefillMethod(\"dense\"); // \"dense\"\n x(\"denser\", \"a shape\");", names),
              IsEmpty());
}

TEST(MethodNames, ComparisonsAreFound) {
  const Names names{{"dense", "a-shape", "sparq"}, {"n_sink", "forced_columns"}, {"MInference A-shape", "SparQ"}};
  const auto decisions = [&](const std::string& code) { return Decisions(code, names).size(); };
  EXPECT_THAT(Decisions("\n if (spec.name == \"dense\") x();", names), ElementsAre("line 2: \"dense\""));
  EXPECT_EQ(decisions("if (\"dense\" != name) x();"), 1U);
  EXPECT_EQ(decisions("if (name == \"decode/dense\") x();"), 1U);
  EXPECT_EQ(decisions("if (name ==\n QStringLiteral(\"a-shape\")) x();"), 1U);
  EXPECT_EQ(decisions("if (name.starts_with(\"a-\")) x();"), 1U);
  EXPECT_EQ(decisions("table = {{\"dense\", Method::kDense}, {\"a-shape\", Method::kAShape}};"), 2U);
  EXPECT_EQ(decisions("constexpr char kDense[] = \"dense\";"), 1U);
  EXPECT_EQ(decisions("dense.method = decode ? \"decode/dense\" : \"dense\";"), 2U);
  EXPECT_EQ(decisions("switch (kKinds[\"a-shape\"]) { case Kind::kStatic: x(); }"), 1U);
  EXPECT_EQ(decisions("if (strcmp(name, \"x\") == 0 || names.contains(\"a-shape\")) x();"), 1U);
  EXPECT_EQ(decisions("if (parameter.name.starts_with(\"forced_\")) x();"), 1U);
  EXPECT_EQ(decisions("if (parameter.name == \"n_sink\") x();"), 1U);
  EXPECT_EQ(decisions("if (method.spec().family.starts_with(\"dynamic\")) x();"), 1U);
  EXPECT_EQ(decisions("if (method.spec().title == kSparq) x();"), 1U);
  EXPECT_EQ(decisions("if (&m == FindDecodeMethod(\"sparq\")) x();"), 1U);
  EXPECT_EQ(decisions("if (run.note.find(\"CPU\") != npos) x();"), 1U);
  EXPECT_EQ(decisions("if (name.rfind(\"a-\", 0) == 0) x();"), 1U);
  EXPECT_EQ(decisions("if (name.substr(0, 4) == \"spar\") x();"), 1U);
  EXPECT_EQ(decisions("if (\"spar\" == name.substr(0, 4)) x();"), 1U);
  EXPECT_EQ(decisions("if (c == 'x' && name[0] == 's') x();"), 1U);
  EXPECT_EQ(decisions("if (method.spec().name.front() != 's' || result.method.at(1) == 'p') x();"), 2U);
  EXPECT_EQ(decisions("if (method.title == \"SparQ\") x();"), 1U);
  EXPECT_EQ(decisions("if (entry.title.starts_with(\"Mi\") || \"Sp\" == spec->title) x();"), 2U);
  EXPECT_EQ(decisions("if (label == \"SparQ\") x();"), 1U);
  EXPECT_EQ(decisions("if (parameter == \"n_sink\") x();"), 1U);
  EXPECT_EQ(decisions("if (values.values().contains(\"n_sink\") || values.count(\"n_sink\") > 0) x();"), 2U);
}

TEST(MethodNames, OtherUsesAreNot) {
  const Names names{{"dense", "a-shape"}, {"n_sink"}, {"SparQ"}};
  const auto decisions = [&](const std::string& code) { return Decisions(code, names).size(); };
  EXPECT_EQ(decisions("// if (name == \"dense\")\n /* name == \"dense\" */ x();"), 0U);
  EXPECT_EQ(decisions("const Method* method = FindPrefillMethod(\"dense\");"), 0U);
  EXPECT_EQ(decisions("defaults = {\"dense\", \"a-shape\", \"vertical\"};"), 0U);
  EXPECT_EQ(decisions("return \"dense\"; if (other == \"bytes\" && a.starts_with(\"top_\")) x('\"');"), 0U);
  EXPECT_EQ(decisions("const char* text = \"say \\\"dense\\\"\"; int n = 1'000; if (x == \"y\") z();"), 0U);
  EXPECT_EQ(decisions("x = Kind::\"dense\"; y = a ? b : c; z = F(\"dense\");"), 0U);
  EXPECT_EQ(decisions("values.Integer(\"n_sink\");"), 0U);
  EXPECT_EQ(decisions("if (name[0] == '.' || text[0] == 's' || n == 1'000 || c == 's') x();"), 0U);
  EXPECT_EQ(decisions("if (line.substr(0, 2) == \"x\") x(); Show(method.title, \"SparQ\");"), 0U);
  EXPECT_EQ(decisions("Column column = {.field = \"method\", .widest = \"a-shape\"};"), 0U);
}

}  // namespace
}  // namespace headscope::kernels
