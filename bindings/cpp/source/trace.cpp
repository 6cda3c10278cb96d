#include "bindings/cpp/apscope/trace.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/trace/safetensors.h"
#include "analysis/trace/trace.h"
#include "analysis/trace/trace_manifest.h"
#include "bindings/cpp/source/edge.h"
#include "core/float_environment.h"

namespace apscope {

Trace open_trace(const std::filesystem::path& folder) try {
    const detail::FloatEnvironment environment;
    return Trace(std::make_shared<const detail::Trace>(detail::Trace::open(folder)));
} catch (...) {
    detail::throw_error();
}

const std::string& Trace::name() const { return trace_->manifest().name; }
const std::filesystem::path& Trace::path() const { return trace_->path(); }
const std::string& Trace::model() const { return trace_->manifest().model; }
int Trace::workers() const { return trace_->manifest().workers; }
const std::string& Trace::stage() const { return trace_->manifest().stage; }
const std::string& Trace::reduction() const { return trace_->manifest().reduction; }

std::vector<std::int64_t> Trace::steps() const {
    std::vector<std::int64_t> numbers;
    for (const detail::StepInfo& step : trace_->manifest().steps) numbers.push_back(step.number);
    return numbers;
}
std::vector<TraceTensor> Trace::tensors() const {
    std::vector<TraceTensor> all;
    for (const detail::TensorInfo& t : trace_->manifest().tensors)
        all.push_back({t.name, t.role, t.shape});
    return all;
}

TraceValues Trace::read(std::int64_t step, const std::string& tensor, int worker,
                        std::string_view kind) const try {
    const detail::FloatEnvironment environment;
    detail::TensorView view = trace_->read(step, tensor, worker, detail::parse_kind(kind));
    return {view.values, std::move(view.shape), std::move(view.owner)};
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
