// SPDX-License-Identifier: Apache-2.0
#include "commands/common_options.h"

#include "base/device.h"

namespace headscope::app {

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

void AddThreadsOption(CLI::App* command, int32_t* num_threads) {
  command->add_option("--threads", *num_threads, "CPU threads (0: all cores)")->capture_default_str();
}

void AddRecordedHeadsOption(CLI::App* command, std::string* heads) {
  command->add_option("--heads", *heads, "Heads, such as 4:3,2:* (all recorded)")->type_name("L:H,..");
}

void AddModelHeadsOptions(CLI::App* command, std::string* layers, std::string* heads, const std::string& heads_note) {
  command->add_option("--layers", *layers, "Layers, such as 0-3,7 (all)");
  command->add_option("--heads", *heads, "Query heads (all)" + (heads_note.empty() ? "" : "; " + heads_note));
}

void AddMaxRowsOption(CLI::App* command, int64_t* max_rows, const std::string& use) {
  command
      ->add_option("--max-rows", *max_rows,
                   "Use about this many query rows per head" + use + ", evenly spaced (0: every row)")
      ->capture_default_str();
}

CLI::Option* AddRepeatOption(CLI::App* command, int32_t* repeats) {
  return command->add_option("--repeat,--repeats", *repeats, "Timed repeats; the median is reported")
      ->capture_default_str();
}

CLI::Option* AddOutputOptions(CLI::App* command, std::string* output, bool* force, const std::string& what,
                              const std::string& type_name) {
  CLI::Option* const option = command->add_option("-o,--output", *output, what)->type_name(type_name);
  command->add_flag("--force", *force, "Replace an existing output");
  return option;
}

void AddJsonOption(CLI::App* command, bool* json, const std::string& what) {
  command->add_flag("--json", *json, what);
}

void AddQuietOption(CLI::App* command, bool* quiet) {
  command->add_flag("--quiet", *quiet, "Do not show progress");
}

}  // namespace headscope::app
