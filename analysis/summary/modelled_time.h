// Modelled time of a step's communication, from the rows of a table: docs/definitions.md,
// section 12.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/cost/nodes.h"
#include "analysis/cost/scheme_transport.h"
#include "analysis/summary/chosen_rows.h"
#include "analysis/summary/figures.h"

namespace apscope::detail {

// The messages with the values that workers agree on before they encode: one for all tensors, one
// per bucket, or one for all tensors that is sent during the step before, at no cost.
enum class SideMessages { fused, bucket, delayed };
// Throws std::invalid_argument for another name.
SideMessages parse_side_messages(std::string_view name);
CollectiveAlgorithm parse_side_collective(std::string_view name);  // ring, tree or halving

struct TimeOptions {
    Links links;
    // Number of elements of the model; all tensors are scaled by one factor.
    std::optional<double> elements;
    // Bytes of fp32 values per bucket. 0: one message per tensor. None: one message per step.
    std::optional<double> bucket_bytes;
    SideMessages side = SideMessages::fused;
    CollectiveAlgorithm side_collective = CollectiveAlgorithm::ring;
    std::string baseline = "ring";  // topology of the fp32 all-reduce
    // The beginning of the note of a row that has no numbers because the trace lacks an input.
    std::string not_measurable;
};

// The side information of tensors that share messages. It does not grow with the size of the
// tensors if it is one number for each tensor or for several.
class SideBits {
public:
    void add(double bits);
    bool is_one_number() const { return narrowest_ == widest_ && widest_ <= 64; }
    // The bytes of side information if all tensors were larger by this factor.
    double bytes(double factor) const { return (is_one_number() ? 1.0 : factor) * sum_ / 8; }

private:
    static constexpr double infinite = std::numeric_limits<double>::infinity();
    double narrowest_ = infinite, widest_ = -infinite, sum_ = 0;
};

// Tensors of one scheme and topology that share messages. The numbers are means over the steps:
// `values` and `buckets` are counts, all others bytes. `agreed` is the side information that the
// workers agree on beforehand, `travelling` that of the messages themselves.
struct TimedPart {
    double values = 0, payload = 0, agreed = 0, travelling = 0, buckets = 0;
    std::string reduction, grid;
};

// Numbers of one step: messages, the bytes that one worker sends, `node_bytes` of the busiest node,
// and seconds; `side_share` is side_seconds / seconds.
struct StepTime {
    double messages, payload_bytes, intra_bytes, node_bytes, side_bytes, side_seconds, pass_seconds,
        seconds, side_share;
};
// The time of a step; none if no algorithm computes the sum of a part on these nodes.
std::optional<StepTime> time_of(std::span<const TimedPart> parts, const std::string& spec,
                                int workers, const TransportOf& transport, const Links& links,
                                SideMessages side, CollectiveAlgorithm side_collective);

// One row per trace, scheme and topology of the reduced rows, in order of appearance. NaN for
// `exact`, which is not an algorithm, for a hierarchy whose groups are not the nodes, and for a row
// without numbers. Throws std::invalid_argument for an impossible option, also for nodes that do
// not divide the workers of a trace.
struct StepTimes {
    std::vector<std::uint32_t> first;  // for each row, one of the table's rows that it combines
    std::vector<std::string> topology;
    Figures figures;
};
StepTimes step_times(const RowTable& table, const TimeOptions& options,
                     const TransportOf& transport);

}  // namespace apscope::detail
