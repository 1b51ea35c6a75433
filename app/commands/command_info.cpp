// SPDX-License-Identifier: Apache-2.0
// headscope info FILE|DIR [--json]: what a trace or checkpoint holds.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/types/printable.h"
#include "base/byte_text.h"
#include "base/number_list.h"
#include "capture/stored_points.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "data/model_json.h"
#include "data/trace_reader.h"
#include "kernels/method.h"
#include "kernels/method_names.h"
#include "model/model_config.h"
#include "model/model_session.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/output_file.h"
#include "support/progress_line.h"

namespace headscope::app {
namespace {

using analysis::Printable;
using Json = nlohmann::ordered_json;

// Of a trace that was cut from a longer one (headscope export --tokens).
std::string CutFrom(int64_t first_token) {
  return first_token == 0
             ? ""
             : ", cut from a longer trace at its token " + std::to_string(first_token) +
                   "\n             (lse covers the tokens before the cut too; their share is outside_mass)";
}

// What the model generated after the prompt.
struct Decoded {
  int64_t num_tokens = 0;
  int64_t num_steps = 0;  // forward passes that made them
};
Decoded CountDecoded(const data::TraceReader& trace) {
  Decoded decoded;
  std::set<int32_t> steps;
  for (const data::TokenRecord& token : trace.tokens()) {
    if (token.phase != data::TokenPhase::kDecode) continue;
    ++decoded.num_tokens;
    steps.insert(token.step);
  }
  decoded.num_steps = static_cast<int64_t>(steps.size());
  return decoded;
}

// The model's own answer to a task: the generated tokens that stand where it belongs.
std::string GivenAnswer(const data::TraceReader& trace) {
  std::string text;
  int32_t left = trace.layout().answer_tokens;
  for (const data::TokenRecord& token : trace.tokens()) {
    if (token.phase != data::TokenPhase::kDecode || left == 0) continue;
    text += token.text;
    --left;
  }
  return text;
}

// How good it is; none where it is not judged.
std::optional<float> AnswerScore(const data::TraceLayout& layout) {
  if (layout.answer_tokens == 0 || std::isnan(layout.answer_score)) return {};
  return layout.answer_score;
}

std::string DecodedText(const Decoded& decoded) {
  if (decoded.num_tokens == 0) return ", none generated";
  return ", " + std::to_string(decoded.num_tokens) + " of them generated in " + std::to_string(decoded.num_steps) +
         (decoded.num_steps == 1 ? " decode step" : " decode steps");
}

// Names and prompts come from files, which may hold anything: what is not UTF-8 is U+FFFD in JSON and \xNN in text.
std::string Text(const Json& json) {
  return analysis::PrintableJson(json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)) + "\n";
}

std::string RopeName(const data::LayerFacts& facts) {
  return data::NameOf(facts.rope.convention);
}

// What all recorded layers have; null where they differ ("facts" then tells).
template <typename Get>
Json Shared(const data::TraceLayout& layout, Get get) {
  const auto first = get(layout.facts.front());
  const bool same = std::all_of(layout.facts.begin(), layout.facts.end(),
                                [&](const data::LayerFacts& facts) { return get(facts) == first; });
  return same ? Json(first) : Json();
}

std::string HeadsText(const data::LayerFacts& facts) {
  return NumberListText(facts.qo_heads) + " (KV " + NumberListText(facts.kv_heads) + ")";
}

std::string HeadCounts(int64_t num_qo_heads, int64_t num_kv_heads) {
  return std::to_string(num_qo_heads) + (num_qo_heads == 1 ? " query head over " : " query heads over ") +
         std::to_string(num_kv_heads) + (num_kv_heads == 1 ? " KV head" : " KV heads");
}

// Of layers that differ: everything of one that is not as usual, in words.
std::string FactsText(const data::LayerFacts& facts) {
  std::ostringstream out;
  out << HeadCounts(facts.num_qo_heads, facts.num_kv_heads) << ", head_dim " << facts.head_dim;
  if (facts.v_head_dim != facts.head_dim) out << " (v " << facts.v_head_dim << ')';
  out << ", scale " << facts.softmax_scale << ", RoPE " << RopeName(facts);
  if (facts.window > 0) out << ", window " << facts.window;
  if (facts.chunk > 0) out << ", chunk " << facts.chunk;
  if (facts.bidirectional) out << ", bidirectional";
  if (facts.soft_cap > 0) out << ", soft cap " << facts.soft_cap;
  if (!facts.sinks.empty()) out << ", learned sinks";
  if (facts.output_gate != data::OutputGate::kNone) out << ", output gate " << data::NameOf(facts.output_gate);
  if (facts.v_is_k) out << ", v is k";
  if (facts.kv_layer >= 0) out << ", k and v of layer " << facts.kv_layer;
  if (facts.selection.sets > 0) out << ", own selection of " << facts.selection.ids;
  if (facts.selection_layer >= 0) out << ", selection of layer " << facts.selection_layer;
  return out.str();
}

// "  window     256 tokens in layers 1,3", a line for each length of one; empty where no layer has any.
std::string WindowsText(const data::TraceLayout& layout) {
  std::map<int32_t, std::vector<int32_t>> layers;
  for (size_t slot = 0; slot < layout.facts.size(); ++slot) {
    if (layout.facts[slot].window > 0) layers[layout.facts[slot].window].push_back(layout.layers[slot]);
  }
  std::string text;
  for (const auto& [window, slots] : layers) {
    text += "  window     " + std::to_string(window) + " tokens in " +
            (slots.size() == layout.facts.size() ? "every layer"
                                                 : (slots.size() == 1 ? "layer " : "layers ") + NumberListText(slots)) +
            "\n";
  }
  return text;
}

// "  heads      0-7 (KV 0-3)", or where layers differ in anything but their windows a line for each of them.
std::string LayersText(const data::TraceLayout& layout) {
  const auto without_window = [](data::LayerFacts facts) {
    facts.window = 0;
    return facts;
  };
  const data::LayerFacts first = without_window(layout.facts.front());
  if (std::all_of(layout.facts.begin(), layout.facts.end(),
                  [&](const data::LayerFacts& facts) { return without_window(facts) == first; })) {
    return "  heads      " + HeadsText(first) + "\n" + WindowsText(layout) +
           (first.bidirectional ? "  attention  bidirectional: rows see later tokens too\n" : "");
  }
  std::string text;
  for (size_t slot = 0; slot < layout.facts.size(); ++slot) {
    const data::LayerFacts& facts = layout.facts[slot];
    text += "  layer " + std::to_string(layout.layers[slot]) + ": " + FactsText(facts) + "; heads " + HeadsText(facts) +
            "\n";
  }
  return text;
}

// The capture points of a layer, "pre-rope, value-norms".
std::vector<std::string> RecordedBeside(const data::LayerFacts& facts) {
  std::vector<std::string> names;
  for (const model::CapturePointInfo& info : model::kCapturePoints) {
    if (facts.*capture::StoredFact(info.point)) names.emplace_back(info.name);
  }
  return names;
}

std::string RopeAndScale(const data::TraceLayout& layout) {
  const data::LayerFacts& first = layout.facts.front();
  if (std::any_of(layout.facts.begin(), layout.facts.end(), [&](const data::LayerFacts& facts) {
        return facts.softmax_scale != first.softmax_scale || facts.soft_cap != first.soft_cap ||
               facts.rope.convention != first.rope.convention;
      })) {
    return "";
  }
  std::ostringstream out;
  out << ", RoPE " << RopeName(first) << ", scale " << first.softmax_scale;
  if (first.soft_cap > 0) out << ", soft cap " << first.soft_cap;
  return out.str();
}

constexpr size_t kAlwaysRecorded = 4;  // q, k, v and lse

int TraceInfo(const std::string& path, bool json) {
  const data::TraceReader trace(path);
  const data::TraceLayout& layout = trace.layout();
  const data::ModelInfo& model = layout.model;
  int64_t bytes = 0;
  Json files = Json::array();
  for (const std::string& file : trace.files()) {
    bytes += static_cast<int64_t>(std::filesystem::file_size(file));
    files.push_back(file);
  }
  const Decoded decoded = CountDecoded(trace);
  std::ostringstream out;
  if (json) {
    out << Text({{"schema", "headscope-info-1"},
                 {"kind", "trace"},
                 {"path", path},
                 {"complete", trace.complete()},
                 {"bytes", bytes},
                 {"files", files},
                 {"num_tokens", trace.num_tokens()},
                 {"num_decode_tokens", decoded.num_tokens},
                 {"num_decode_steps", decoded.num_steps},
                 {"first_token", layout.first_token},
                 {"num_rows", trace.num_rows()},
                 {"prompt", layout.prompt_source},
                 {"task_answer", layout.task_answer},
                 {"given_answer", AnswerScore(layout) ? Json(GivenAnswer(trace)) : Json()},
                 {"answer_score", AnswerScore(layout) ? Json(*AnswerScore(layout)) : Json()},
                 {"layers", layout.layers},
                 {"qo_heads", Shared(layout, [](const data::LayerFacts& facts) { return facts.qo_heads; })},
                 {"kv_heads", Shared(layout, [](const data::LayerFacts& facts) { return facts.kv_heads; })},
                 {"encoding", NameOf(layout.encoding)},
                 {"capture_point", layout.capture_point},
                 {"recorded_beside", Shared(layout, RecordedBeside)},
                 {"recorded", capture::RecordedNames(layout.facts)},
                 {"attention", layout.attention.empty() ? kernels::PrefillBaseline().spec().name : layout.attention},
                 {"rope_convention", Shared(layout, RopeName)},
                 {"softmax_scale", Shared(layout, [](const data::LayerFacts& facts) { return facts.softmax_scale; })},
                 {"soft_cap", Shared(layout, [](const data::LayerFacts& facts) { return facts.soft_cap; })},
                 {"facts", data::LayersJson(layout)},
                 {"row_selection", layout.row_selection},
                 {"model", data::ModelJson(model)}});
  } else {
    out << Printable(path) << ": trace, " << ByteText(bytes)
        << (files.size() > 1 ? " in " + std::to_string(files.size()) + " files" : "")
        << (trace.complete()
                ? ", complete"
                : ", NOT complete (its capture is still running or was cut short; all of this is readable)")
        << "\n  model      " << Printable(model.name) << " (" << Printable(model.model_type) << "), "
        << model.num_layers << " layers, " << HeadCounts(model.num_qo_heads, model.num_kv_heads) << ", head_dim "
        << model.head_dim << "\n  prompt     " << Printable(layout.prompt_source) << "\n  tokens     "
        << trace.num_tokens() << DecodedText(decoded) << CutFrom(layout.first_token) << "\n  query rows "
        << trace.num_rows() << " (" << Printable(layout.row_selection) << ")\n  layers     "
        << NumberListText(layout.layers) << '\n'
        << LayersText(layout) << "  values     " << NameOf(layout.encoding) << ", q and k "
        << Printable(layout.capture_point) << RopeAndScale(layout) << '\n';
    if (!layout.attention.empty()) out << "  attention  " << Printable(layout.attention) << '\n';
    if (const auto recorded = capture::RecordedNames(layout.facts); recorded.size() > kAlwaysRecorded)
      out << "  recorded   " << Listed(recorded) << '\n';
    if (!layout.task_answer.empty()) out << "  answer     \"" << Printable(layout.task_answer) << "\"\n";
    if (const std::optional<float> score = AnswerScore(layout))
      out << "  given      \"" << Printable(GivenAnswer(trace)) << "\", score " << *score << '\n';
  }
  WriteText(out.str(), "", false);
  return kDone;
}

int CheckpointInfo(const std::string& path, bool json) {
  const model::CheckpointSummary summary = model::ReadCheckpointSummary(path, json, StopOnInterrupt());
  const std::vector<std::string> recorded = capture::RecordedNames(model::ReadModelConfig(path));
  const std::string refusal = model::CaptureRefusal(path);
  const std::string text_refusal = model::TextRefusal(path);
  std::ostringstream out;
  if (json) {
    out << Text({{"schema", "headscope-info-1"},
                 {"kind", "checkpoint"},
                 {"path", path},
                 {"model_type", summary.model_type},
                 {"dtype", summary.dtype.empty() ? Json() : Json(summary.dtype)},
                 {"num_parameters", summary.num_parameters},
                 {"bytes", summary.bytes},
                 {"num_files", summary.num_files},
                 {"num_layers", summary.num_layers},
                 {"num_qo_heads", summary.num_qo_heads},
                 {"num_kv_heads", summary.num_kv_heads},
                 {"head_dim", summary.head_dim},
                 {"hidden_size", summary.hidden_size},
                 {"vocabulary_size", summary.vocabulary_size},
                 {"max_positions", summary.max_positions},
                 {"weights_sha256", summary.weights_sha256},
                 {"recorded", recorded},
                 {"capture_refusal", refusal.empty() ? Json() : Json(refusal)},
                 {"text_refusal", text_refusal.empty() ? Json() : Json(text_refusal)}});
  } else {
    out << Printable(path) << ": checkpoint, " << Printable(summary.model_type) << ", "
        << static_cast<double>(summary.num_parameters) / 1e6 << " M parameters in " << summary.num_files
        << (summary.num_files == 1 ? " file (" : " files (") << ByteText(summary.bytes) << ", "
        << (summary.dtype.empty() ? "no tensor" : Printable(summary.dtype)) << ")\n  " << summary.num_layers
        << " layers, hidden " << summary.hidden_size << ", " << HeadCounts(summary.num_qo_heads, summary.num_kv_heads)
        << ", head_dim " << summary.head_dim << ", vocabulary " << summary.vocabulary_size << ", context "
        << summary.max_positions << " tokens\n  a trace of every head takes " << ByteText(summary.values_per_token * 2)
        << " per token in bf16\n";
    if (recorded.size() > kAlwaysRecorded) out << "  it would hold " << Listed(recorded) << '\n';
    if (!refusal.empty())
      out << "  capture would refuse it: " << Printable(refusal) << '\n';
    else if (!text_refusal.empty())
      out << "  capture takes token ids alone (--tokens): " << Printable(text_refusal) << '\n';
  }
  WriteText(out.str(), "", false);
  return kDone;
}

}  // namespace

void AddInfoCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("info", "What a trace or a checkpoint holds");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("path", *path, "Trace or checkpoint folder")->required()->type_name("FILE|DIR");
  AddJsonOption(command, json.get(), "Print JSON (schema headscope-info-1)");
  command->callback([=, &action] {
    action = [=] {
      std::error_code unreadable;  // what cannot even be looked up is no folder, and the trace's reader says why
      return std::filesystem::is_directory(*path, unreadable) ? CheckpointInfo(*path, *json) : TraceInfo(*path, *json);
    };
  });
}

}  // namespace headscope::app
