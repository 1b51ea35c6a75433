// SPDX-License-Identifier: Apache-2.0
#include "commands/common_options.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/device.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "data/trace_files.h"
#include "support/listed.h"
#include "support/option_checks.h"

namespace headscope::app {
namespace {

constexpr const char* kMethodType = "NAME[:k=v,..]";

template <typename Tasks>
CLI::Option* TaskOption(CLI::App* command, Tasks* tasks, const std::string& use) {
  return command->add_option("--task", *tasks, use);
}

template <typename Count>
CLI::Option* DecodeRowsOption(CLI::App* command, Count* rows, const std::string& note) {
  const std::string gap = note.empty() ? "" : " ";
  return LimitIntegers(
      command->add_option("--decode-rows", *rows, "Last query rows that decode methods run on" + gap + note), 1);
}

}  // namespace

void AddDeviceOption(CLI::App* command, Device* device, const std::string& note) {
  command
      ->add_option_function<std::string>(
          "--device", [device](const std::string& text) { *device = ParseDevice(text); },
          "cpu, cuda or cuda:N" + (note.empty() ? "" : "; " + note))
      ->default_str(DeviceText(*device));
}

void AddComputeTypeOption(CLI::App* command, std::optional<ElementType>* type) {
  command
      ->add_option_function<std::string>(
          "--dtype", [type](const std::string& text) { *type = ParseComputeType(text); }, "auto, fp32 or bf16")
      ->default_str(std::string(ComputeTypeName(*type)));
}

CLI::Option* AddMethodOption(CLI::App* command, const std::string& name, std::string* method, const std::string& use) {
  return command->add_option(name, *method, use)->type_name(kMethodType);
}

CLI::Option* AddMethodsOption(CLI::App* command, std::vector<std::string>* methods, const std::string& use) {
  return command->add_option("--method", *methods, use)
      ->type_name(kMethodType)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* AddMetricsOption(CLI::App* command, std::vector<std::string>* metrics, const std::string& use) {
  return command->add_option("--metrics", *metrics, use)->delimiter(',')->type_name("a,b");
}

CLI::Option* AddSizeOption(CLI::App* command, std::string* size, const std::string& use) {
  return command->add_option("--size", *size, use)->type_name("WxH");
}

CLI::Option* AddTaskOption(CLI::App* command, std::string* task, const std::string& use) {
  return TaskOption(command, task, use);
}

CLI::Option* AddTaskOption(CLI::App* command, std::optional<std::string>* task, const std::string& use) {
  return TaskOption(command, task, use);
}

CLI::Option* AddTaskOption(CLI::App* command, std::vector<std::string>* tasks, const std::string& use) {
  return TaskOption(command, tasks, use)->delimiter(',')->type_name("a,b");
}

CLI::Option* AddTaskLengthOption(CLI::App* command, int64_t* length) {
  return LimitIntegers(command->add_option("--length", *length, "Tokens of the task's prompt and answer"), 1)
      ->capture_default_str();
}

CLI::Option* AddSeedOption(CLI::App* command, uint64_t* seed, const std::string& use) {
  return LimitIntegers(command->add_option("--seed", *seed, use), 0, std::numeric_limits<int64_t>::max())
      ->capture_default_str();
}

void AddThreadsOption(CLI::App* command, int32_t* num_threads) {
  LimitIntegers(command->add_option("--threads", *num_threads, "CPU threads (0: all cores)"), 0, 4096)
      ->capture_default_str();
}

void AddRecordedHeadsOption(CLI::App* command, std::string* heads) {
  command->add_option("--heads", *heads, "Heads, such as 4:3,2:* (all recorded)")->type_name("L:H,..");
}

void AddModelHeadsOptions(CLI::App* command, std::string* layers, std::string* heads, const std::string& heads_note) {
  command->add_option("--layers", *layers, "Layers, such as 0-3,7 (all)");
  command->add_option("--heads", *heads, "Query heads (all)" + (heads_note.empty() ? "" : "; " + heads_note));
}

void AddMaxRowsOption(CLI::App* command, int64_t* max_rows, const std::string& use) {
  LimitIntegers(command->add_option("--max-rows", *max_rows,
                                    "Use about this many query rows per head" + use + ", evenly spaced (0: every row)"),
                0)
      ->capture_default_str();
}

CLI::Option* AddDecodeRowsOption(CLI::App* command, int32_t* rows, const std::string& note) {
  return DecodeRowsOption(command, rows, note);
}

CLI::Option* AddDecodeRowsOption(CLI::App* command, std::optional<int32_t>* rows, const std::string& note) {
  return DecodeRowsOption(command, rows, note);
}

CLI::Option* AddFilesOption(CLI::App* command, int32_t* num_files, const std::string& note) {
  const std::string comma = note.empty() ? "" : ", ";
  return LimitIntegers(command->add_option("--files", *num_files,
                                           "Files that hold the trace, each some of the layers" + comma + note +
                                               ": OUT-00001-of-0000N.h5 and so on, any one of which opens the whole"),
                       1, data::kMaxTraceFiles)
      ->capture_default_str();
}

CLI::Option* AddRepeatOption(CLI::App* command, int32_t* repeats) {
  return LimitIntegers(command->add_option("--repeat,--repeats", *repeats, "Timed repeats, whose median is reported"),
                       1, 100'000)
      ->capture_default_str();
}

CLI::Option* AddOutputOptions(CLI::App* command, std::string* output, bool* force, const std::string& what,
                              const std::string& type_name) {
  CLI::Option* const option = command->add_option("-o,--output", *output, what)->type_name(type_name);
  command->add_flag("--force", *force, "Replace an existing output");
  return option;
}

void AddPublishedCodeFlag(CLI::App* command, bool* as_published) {
  command->add_flag("--minference-code", *as_published,
                    "Run MInference's best patterns as its published code does: the first 30 columns and the last "
                    "100 slashes are always kept, and budgets are at least 30 columns and 50 slashes");
}

void AddJsonOption(CLI::App* command, bool* json, const std::string& what) {
  command->add_flag("--json", *json, what);
}

void AddQuietOption(CLI::App* command, bool* quiet) {
  command->add_flag("--quiet", *quiet, "Do not show progress");
}

std::pair<std::string, double> NameAndNumber(const std::string& field, const std::string& text,
                                             const std::string& expected) {
  const size_t equals = text.find('=');
  const std::string number = equals == std::string::npos ? std::string() : text.substr(equals + 1);
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || read.ec != std::errc() || read.ptr != number.data() + number.size() || !std::isfinite(value))
    throw UsageError({.field = field, .value = Quoted(text), .problem = "it must be " + expected});
  return {text.substr(0, equals), value};
}

namespace {

// "far_mass=0.2".
void SetThreshold(const std::string& text, analysis::ClassRules* rules) {
  const std::string field = "class-threshold";
  const auto [name, value] = NameAndNumber(field, text, "a threshold and a number, such as far_mass=0.2");
  const analysis::ClassThreshold* const threshold = analysis::FindClassThreshold(name);
  if (threshold == nullptr) {
    throw UsageError({.field = field,
                      .problem = Quoted(name) + " is not known",
                      .remedy = "choose from " + Listed(analysis::ClassThresholds(), &analysis::ClassThreshold::name)});
  }
  if (!(value >= 0 && value <= 1))
    throw UsageError({.field = field, .value = Quoted(text), .problem = "a threshold is a number from 0 to 1"});
  rules->*threshold->member = value;
}

analysis::ClassRules ClassRulesIn(const std::string& path) {
  try {
    return analysis::ReadClassRules(path);
  } catch (BadInputError& error) {
    error.AddRemedy("`headscope analyze --print-classes` writes them");
    throw;
  }
}

}  // namespace

void AddClassOptions(CLI::App* command, ClassOptions* classes) {
  command->add_option("--classes", classes->file, "Thresholds of the classes, as --print-classes writes them")
      ->type_name("FILE.json");
  command
      ->add_option("--class-threshold", classes->thresholds,
                   "Thresholds of the classes, on top of --classes: " +
                       Listed(analysis::ClassThresholds(), &analysis::ClassThreshold::name))
      ->delimiter(',')
      ->type_name("NAME=VALUE,..");
}

analysis::ClassRules RulesOf(const ClassOptions& classes) {
  analysis::ClassRules rules;
  if (!classes.file.empty()) rules = ClassRulesIn(classes.file);
  for (const std::string& threshold : classes.thresholds) SetThreshold(threshold, &rules);
  return rules;
}

analysis::Measure ParseMeasure(const std::string& text) {
  if (const std::optional<analysis::Measure> measure = analysis::MeasureOfName(text)) return *measure;
  throw UsageError({.field = "measure", .value = Quoted(text), .problem = "choose layer or head"});
}

}  // namespace headscope::app
