// Transport: the properties of a scheme's messages on which the network's cost depends: the width
// of sums on their way, the values agreed before a message, the sums before a message is made. It
// is part of a scheme's definition; volumes and modelled times follow from it
// (analysis/cost/cost_model.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

namespace apscope::detail {

// Names, in the column `topology`, of reductions that belong to a scheme and cross with no
// topology.
namespace reductions {
inline constexpr std::string_view gather = "gather", vote = "vote", code_sum = "code_sum",
                                  two_phase = "own:two_phase", linear = "linear";
inline constexpr std::array own{gather, vote, code_sum, two_phase, linear};
}  // namespace reductions

inline constexpr std::uint64_t all_side_bits = std::numeric_limits<std::uint64_t>::max();

struct Transport {
    // The bits of a value in a message, and in a sum of `workers` messages, partial or final. By
    // default sums are as long as messages: factors, gathered codes, second encodings.
    int code_bits = 0;
    std::function<int(int workers)> sum_bits = {};
    bool exact_sums = false;  // sums have no width, so no network can carry partial ones
    int rounds = 1;           // messages one after another, each a part of the bytes
    // The number of workers in a node. Their values are added as numbers of node_bits before the
    // node makes one message of code_bits per value, of which each worker sends its part.
    int node = 1, node_bits = 32;
    // Side information belongs to elements (scales of blocks): a part of a message has its own, in
    // both phases.
    bool side_in_parts = false;
    // The bits of a message's side information on which the workers agree before they encode (by a
    // MAX all-reduce); the rest travels with the message.
    std::uint64_t agreed_bits = 0;
    // In two phases: bits of a value in phase 2 over those in phase 1; NaN if unknown.
    bool phased = false;
    double second_width = 1.0;
    // In a hierarchy of two levels: the transport of the groups' sums. The other fields describe
    // the workers' messages.
    std::shared_ptr<const Transport> over = {};
};

// The bits of a sum of `workers` integers 0..largest.
inline int bits_of_sum(int workers, int largest) {
    int bits = 0;
    for (std::int64_t sum = std::int64_t{workers} * largest; sum != 0; sum >>= 1) ++bits;
    return bits;
}

}  // namespace apscope::detail
