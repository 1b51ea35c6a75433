// SPDX-License-Identifier: Apache-2.0
// The options that several commands have: one name, one line of help and one check each. What a command adds to the
// help is given with the call.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/class_rules.h"
#include "analysis/head_sweeps.h"
#include "base/device.h"
#include "base/element_type.h"

namespace headscope::app {

// --device, parsed where it is read: the commands see a device and no text. `note` follows the choices.
void AddDeviceOption(CLI::App* command, Device* device, const std::string& note = "");
// --dtype of a running model; nothing: as its checkpoint says.
void AddComputeTypeOption(CLI::App* command, std::optional<ElementType>* type);
// --method of a command that takes several, each with its parameters (choices/method_choice.h); may be repeated.
CLI::Option* AddMethodsOption(CLI::App* command, std::vector<std::string>* methods, const std::string& use);
// An option of this name that takes one method.
CLI::Option* AddMethodOption(CLI::App* command, const std::string& name, std::string* method, const std::string& use);
// --metrics: the names of statistics, `use` of which follows. The option, so that a caller can see whether it was
// given.
CLI::Option* AddMetricsOption(CLI::App* command, std::vector<std::string>* metrics, const std::string& use);
// --size of a picture, WxH in pixels (choices/head_selection.h).
CLI::Option* AddSizeOption(CLI::App* command, std::string* size, const std::string& use);
// --task; `use` says what for, and which there are. A list of them, or one.
CLI::Option* AddTaskOption(CLI::App* command, std::string* task, const std::string& use);
CLI::Option* AddTaskOption(CLI::App* command, std::optional<std::string>* task, const std::string& use);
CLI::Option* AddTaskOption(CLI::App* command, std::vector<std::string>* tasks, const std::string& use);
// --length and --seed of a task's prompt.
CLI::Option* AddTaskLengthOption(CLI::App* command, int64_t* length);
CLI::Option* AddSeedOption(CLI::App* command, uint64_t* seed, const std::string& use);
// --threads, 0 for all cores.
void AddThreadsOption(CLI::App* command, int32_t* num_threads);
// --heads of a trace, by layer and head: L:H,.. (choices/head_selection.h).
void AddRecordedHeadsOption(CLI::App* command, std::string* heads);
// --layers and --heads by their numbers in the model. `heads_note` follows the word.
void AddModelHeadsOptions(CLI::App* command, std::string* layers, std::string* heads,
                          const std::string& heads_note = "");
// --max-rows: how many query rows of a head are looked at. `use` follows "of a head", where the option has but one.
void AddMaxRowsOption(CLI::App* command, int64_t* max_rows, const std::string& use = "");
// --decode-rows: how many of a trace's last rows a decode method runs on. `note` follows.
CLI::Option* AddDecodeRowsOption(CLI::App* command, int32_t* rows, const std::string& note = "");
CLI::Option* AddDecodeRowsOption(CLI::App* command, std::optional<int32_t>* rows, const std::string& note = "");
// --files that a trace is written to. `note` follows what is in each.
CLI::Option* AddFilesOption(CLI::App* command, int32_t* num_files, const std::string& note = "");
// --repeat.
CLI::Option* AddRepeatOption(CLI::App* command, int32_t* repeats);
// -o,--output and --force, which lets it replace what is there. `what` is the help of the first.
CLI::Option* AddOutputOptions(CLI::App* command, std::string* output, bool* force, const std::string& what,
                              const std::string& type_name = "OUT");
// --classes and --class-threshold.
struct ClassOptions {
  std::string file;                     // empty: the defaults
  std::vector<std::string> thresholds;  // on top of them
};
void AddClassOptions(CLI::App* command, ClassOptions* classes);
// Throws UsageError, and as analysis::ReadClassRules.
analysis::ClassRules RulesOf(const ClassOptions& classes);
// "NAME=NUMBER", or a usage error that says what it should be.
std::pair<std::string, double> NameAndNumber(const std::string& field, const std::string& text,
                                             const std::string& expected);
// --minference-code: how MInference's best patterns are read.
void AddPublishedCodeFlag(CLI::App* command, bool* as_published);
// --json. `what` says what is printed and the name of its schema.
void AddJsonOption(CLI::App* command, bool* json, const std::string& what);
// --quiet.
void AddQuietOption(CLI::App* command, bool* quiet);

// What --measure takes: "layer" or "head".
analysis::Measure ParseMeasure(const std::string& text);

}  // namespace headscope::app
