// Transport: what the network must know of a scheme's messages to carry their sum. How wide sums
// are on their way, what is agreed before a message, what is added before one is made. Part of a
// scheme's definition; volumes and modelled times follow from it (analysis/cost/cost_model.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

namespace apscope::detail {

// Reductions that belong to a scheme and cross with no topology: what column `topology` calls them.
namespace reductions {
inline constexpr std::string_view gather = "gather", vote = "vote", code_sum = "code_sum",
                                  two_phase = "own:two_phase", linear = "linear";
inline constexpr std::array own{gather, vote, code_sum, two_phase, linear};
}  // namespace reductions

inline constexpr std::uint64_t all_side_bits = std::numeric_limits<std::uint64_t>::max();

struct Transport {
    // Of a value in a message, and in a sum of `workers` messages, partial or final. Where they are
    // not given sums are as long as messages: factors, gathered codes, second encodings.
    int code_bits = 0;
    std::function<int(int workers)> sum_bits = {};
    bool exact_sums = false;  // sums have no width, so no network can carry partial ones
    int rounds = 1;           // messages one after another, each a part of the bytes
    // Workers of a node, whose values are added as numbers of node_bits before the node makes one
    // message of code_bits a value, of which each worker sends its part.
    int node = 1, node_bits = 32;
    // Side information belongs to elements (scales of blocks): a part of a message has its own, in
    // both phases.
    bool side_in_parts = false;
    // Of a message's side information, what the workers agree on before they encode (by a MAX
    // all-reduce); the rest travels with the message.
    std::uint64_t agreed_bits = 0;
    // In two phases: bits of a value in phase 2 over those in phase 1; NaN if not known.
    bool phased = false;
    double second_width = 1.0;
    // Of a hierarchy of two levels: that of the groups' sums. The rest is of the workers' messages.
    std::shared_ptr<const Transport> over = {};
};

// Sums of `workers` integers 0..largest.
inline int bits_of_sum(int workers, int largest) {
    int bits = 0;
    for (std::int64_t sum = std::int64_t{workers} * largest; sum != 0; sum >>= 1) ++bits;
    return bits;
}

}  // namespace apscope::detail
