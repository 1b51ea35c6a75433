#include <algorithm>
#include <string_view>

#include "analysis/compare.h"
#include "analysis/types/timing.h"
#include "compare/decode_comparison.h"
#include "compare/mask_quality.h"
#include "compare/output_error.h"
#include "compare/prefill_device.h"
#include "kernels/cpu_executor.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

constexpr std::string_view kDecodePrefix = "decode/";
constexpr int64_t kCheckedRows = 32;  // rows whose output is compared with the float64 reference

std::string KnownMethods() {
  std::string names;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods())
    names += (names.empty() ? "" : ", ") + method->spec().name;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    names += ", ";
    if (kernels::FindPrefillMethod(method->spec().name) != nullptr) names += kDecodePrefix;
    names += method->spec().name;
  }
  return names;
}

// Refuses values that the method does not have or that are out of range.
Status CheckValues(const kernels::MethodSpec& spec, const kernels::ParameterValues& values) {
  kernels::ParameterValues checked(spec);
  for (const auto& [name, value] : values.values()) {
    if (const std::string error = checked.Set(spec, name, value); !error.empty())
      return {StatusCode::kInvalidArgument, error};
  }
  return {};
}

// The methods select and attend without knowing a model's sliding window; they are compared only where it cuts nothing.
Status CheckWindow(const HeadTensors& head) {
  if (head.window == 0 || head.window >= head.num_tokens) return {};
  return {StatusCode::kUnsupported, "head " + HeadName(head.id) + " attends only its newest " +
                                        std::to_string(head.window) +
                                        " tokens by the model's own design: compare methods on heads without a window"};
}

// The row's attention in float64, straight from the index's kept ranges.
Status ReferenceRow(const kernels::AttentionProblem& problem, const kernels::SparseIndexView& index, int32_t row,
                    float* o) {
  kernels::AttentionProblem single = problem;
  single.seq_q = 1;
  single.first_position = problem.first_position + row;
  single.q.data = static_cast<const char*>(problem.q.data) + row * problem.q.row_stride * SizeOf(problem.dtype);
  std::vector<kernels::ColumnRange> ranges;
  kernels::AppendKeptRanges(index, 0, 0, row, &ranges);
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = 1;
  shape.seq_k = problem.seq_k;
  shape.first_position = single.first_position;
  shape.rule.kind = kernels::MaskKind::kNone;  // the ranges are already what the rule leaves
  kernels::SparseIndexBuilder builder(shape);
  for (const kernels::ColumnRange& range : ranges) builder.AddRange(range.begin, range.end);
  builder.FinishList();
  const kernels::SparseIndex single_index = builder.Build();
  kernels::AttentionOutput output;
  output.o = {o, problem.head_dim, problem.head_dim, problem.head_dim};
  return kernels::AttendReference(single, single_index.View(), output);
}

// Relative error of the executor itself on rows spread evenly from the first to the last.
Status KernelError(const kernels::AttentionProblem& problem, const kernels::SparseIndexView& index,
                   const std::vector<float>& o, double* error) {
  const int64_t rows = std::min<int64_t>(kCheckedRows, problem.seq_q);
  const int64_t head_dim = problem.head_dim;
  std::vector<float> reference(static_cast<size_t>(rows * head_dim));
  std::vector<float> measured(reference.size());
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = rows == 1 ? 0 : i * (problem.seq_q - 1) / (rows - 1);
    if (Status status = ReferenceRow(problem, index, static_cast<int32_t>(row), reference.data() + i * head_dim);
        !status.ok())
      return status;
    std::copy_n(o.data() + row * head_dim, head_dim, measured.data() + i * head_dim);
  }
  *error = MeasureError(measured.data(), reference.data(), rows, problem.head_dim).relative;
  return {};
}

}  // namespace

struct HeadComparison::Impl {
  HeadTensorsPtr head;
  CompareOptions options;

  // The prefill baseline, measured by the first prefill method that runs.
  std::unique_ptr<PrefillDevice> device;
  std::vector<float> dense_o;
  Timing dense_attend;
  // The decode baseline.
  std::unique_ptr<DecodeComparison> decode;

  Status MeasureDense() {
    if (!dense_o.empty()) return {};
    if (device == nullptr) {
      Status status = MakePrefillDevice(options.device, head, options.num_threads, options.cancelled, &device);
      if (!status.ok()) return status;
    }
    const kernels::PrefillMethod* dense = kernels::FindPrefillMethod("dense");
    kernels::SparseIndex index;
    Status status = dense->Select(head->Problem(), kernels::ParameterValues(dense->spec()),
                                  {options.num_threads, options.cancelled}, &index);
    if (!status.ok()) return status;
    std::vector<float> o;
    std::vector<double> times;
    status = device->Attend(index.View(), options.repeats, &o, &times);
    if (!status.ok()) return status;
    dense_attend = SummariseTimes(times);
    dense_o = std::move(o);
    return {};
  }

  Status RunPrefill(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                    MethodResult* result) {
    if (Status status = CheckPrefillHead(*head); !status.ok()) return status;
    if (Status status = CheckWindow(*head); !status.ok()) return status;
    if (Status status = MeasureDense(); !status.ok()) return status;

    kernels::SparseIndex index;
    std::vector<double> times;
    for (int32_t run = 0; run <= options.repeats; ++run) {  // the first warms up
      const Stopwatch watch;
      const Status status = method.Select(head->Problem(), values, {options.num_threads, options.cancelled}, &index);
      if (!status.ok()) return status;
      if (run > 0) times.push_back(watch.Milliseconds());
    }
    result->select = SummariseTimes(times);

    std::vector<float> o;
    if (Status status = device->Attend(index.View(), options.repeats, &o, &times); !status.ok()) return status;
    result->attend = SummariseTimes(times);
    result->dense_attend = dense_attend;
    result->speedup = dense_attend.median_ms / (result->select.median_ms + result->attend.median_ms);
    result->phase = "prefill";
    result->device = device->name();

    const OutputError error = MeasureError(o.data(), dense_o.data(), head->num_rows, head->head_dim);
    result->relative_error = error.relative;
    result->max_error = error.maximum;
    result->cosine = error.cosine;
    if (Status status = KernelError(device->Problem(), index.View(), o, &result->kernel_error); !status.ok())
      return status;

    std::vector<float> mass;
    if (Status status = KeptMass(*head, index.View(), options.num_threads, options.cancelled, &mass); !status.ok())
      return status;
    const MassSummary summary = Summarise(*head, mass);
    result->kept_fraction = kernels::CountPairs(index.View()).Density();
    result->cra_min = summary.minimum;
    result->cra_mean = summary.mean;
    return {};
  }

  Status RunDecode(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, MethodResult* result) {
    if (Status status = CheckWindow(*head); !status.ok()) return status;
    if (options.device != "cpu") {
      return {StatusCode::kUnsupported,
              "decode methods are compared on the CPU in this version: choose --device cpu for " + method.spec().name};
    }
    if (decode == nullptr) decode = std::make_unique<DecodeComparison>(head, options);
    return decode->Run(method, values, result);
  }
};

HeadComparison::HeadComparison(HeadTensorsPtr head, const CompareOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->head = std::move(head);
  impl_->options = options;
  impl_->options.repeats = std::max(1, options.repeats);
}

HeadComparison::~HeadComparison() = default;

Status HeadComparison::Run(const std::string& method, const kernels::ParameterValues& values, MethodResult* result) {
  std::string_view name = method;
  const kernels::PrefillMethod* prefill = nullptr;
  const kernels::DecodeMethod* decode = nullptr;
  if (name.starts_with(kDecodePrefix)) {
    name.remove_prefix(kDecodePrefix.size());
    decode = kernels::FindDecodeMethod(name);
  } else {
    prefill = kernels::FindPrefillMethod(name);
    if (prefill == nullptr) decode = kernels::FindDecodeMethod(name);
  }
  if (prefill == nullptr && decode == nullptr) {
    return {StatusCode::kInvalidArgument, "method '" + method + "' is not registered: choose from " + KnownMethods()};
  }
  const kernels::MethodSpec& spec = prefill != nullptr ? prefill->spec() : decode->spec();
  if (Status status = CheckValues(spec, values); !status.ok()) return status;
  MethodResult made;
  made.head = impl_->head->id;
  made.method = spec.name;
  made.parameters = values.ToString(spec);
  const Status status =
      prefill != nullptr ? impl_->RunPrefill(*prefill, values, &made) : impl_->RunDecode(*decode, values, &made);
  if (status.ok()) *result = std::move(made);
  return status;
}

}  // namespace headscope::analysis
