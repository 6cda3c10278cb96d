// Transport: the properties of a scheme's messages that determine the cost of the network. They are
// the width of messages and of partial sums, the bits on which workers agree before they encode,
// and the sums inside a node before the node makes its message. The cost model computes volumes and
// modelled times from these properties (analysis/cost/cost_model.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

namespace apscope::detail {

// The names, in the column `topology` of results, of reductions that belong to a scheme and that no
// topology replaces.
namespace reductions {
inline constexpr std::string_view gather = "gather", vote = "vote", code_sum = "code_sum",
                                  two_phase = "own:two_phase", linear = "linear",
                                  streams = "streams", ring = "own:ring",
                                  butterfly = "own:butterfly";
inline constexpr std::array own{gather, vote,    code_sum, two_phase,
                                linear, streams, ring,     butterfly};
}  // namespace reductions

// The value of Transport::agreed_bits if the workers agree on all side information.
inline constexpr std::uint64_t all_side_bits = std::numeric_limits<std::uint64_t>::max();

struct Transport {
    // The bits per value in a message, and in a partial or final sum of `workers` messages. If
    // sum_bits is empty, sums have the width of messages, as for factors, gathered codes and second
    // encodings.
    int code_bits = 0;
    std::function<int(int workers)> sum_bits = {};
    bool exact_sums = false;  // sums have no finite width, so a network cannot send partial sums
    int rounds = 1;  // number of messages sent one after another, each with a part of the bytes
    // The number of workers in a node. The values of a node's workers are added as numbers of
    // node_bits before the node makes one message of code_bits per value; each of its workers sends
    // a part of that message.
    int node = 1, node_bits = 32;
    // True if side information belongs to elements, such as the scales of blocks, so that a part of
    // a message contains only the side information of that part, in both phases.
    bool side_in_parts = false;
    // The bits of one scale, norm or the like, if every `unit` consecutive elements have one; unit
    // = 0: every row of the tensor has. whole_bits: those that every part of a message needs
    // besides. Unknown if scale_bits is 0.
    int scale_bits = 0, whole_bits = 0;
    std::size_t unit = 0;
    // The bits of a message's side information on which the workers agree before they encode (by a
    // MAX all-reduce); the rest travels with the message.
    std::uint64_t agreed_bits = 0;
    bool phased = false;  // the reduction has two phases
    // Bits per value in phase 2 divided by bits per value in phase 1; NaN if unknown.
    double phase2_width = 1.0;
    // For `streams`, where the payload is all that a worker sends: the number of messages that the
    // busiest worker sends one after another, of a tensor with this many values.
    std::function<int(int workers, double values)> messages = {};
    // The transport of the groups' sums in a hierarchy of two levels, whose other fields describe
    // the workers' messages; otherwise null.
    std::shared_ptr<const Transport> over = {};
};

// The number of bits of a sum of `workers` integers from 0 to `largest`.
inline int bits_of_sum(int workers, int largest) {
    int bits = 0;
    for (std::int64_t sum = std::int64_t{workers} * largest; sum != 0; sum >>= 1) ++bits;
    return bits;
}

}  // namespace apscope::detail
