// All-reduce on a GPU: for one element, one thread rounds the value of every worker, runs all hops
// of the topology and, if there is a scale, divides the sum by it. No intermediate result leaves
// the thread, which stores few partial sums (HopOrder::deeper_first).
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulation/cuda/allreduce/hop_program.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

inline constexpr int reduce_slots = 15;  // slots per thread, enough for 2^16 workers

struct ReduceTask {
    const float* in;  // `workers` rows of `elements` values
    std::uint64_t elements;
    int workers;
    std::uint64_t first, last;  // the elements of one chunk: first .. last - 1
    double* out;                // `elements` values
    bool input_cast;            // true: values are rounded by `wire`
    double scale;               // factor of the values before they are rounded
    double inverse;             // factor of the sum; if 0, the sum is divided by `scale` instead
    double divisor;             // last divisor of the sum
    Cast<double> wire;
    PhiloxKey key;
    HopRunner<RuleAdder> hops;  // without instructions, the step computes the fp64 sum in the order
                                // of workers

    APSCOPE_HD std::uint64_t count() const { return last - first; }

    APSCOPE_HD double leaf(int worker, std::uint64_t i) const {
        const double x = widened(in[static_cast<std::uint64_t>(worker) * elements + i]);
        if (!input_cast) return x;
        const RandomStream stream{key, static_cast<std::uint32_t>(worker),
                                  stage_and_hop(Stage::wire, 0), wire.random_bits};
        if (wire.rounding == RoundingMode::ties_to_even)
            return round_to_format<RoundingMode::ties_to_even, double>(x * scale, wire,
                                                                       std::uint64_t{0});
        const std::uint64_t random = is_stochastic(wire.rounding) ? stream.at(i) : 0;
        return round_by_mode<double>(x * scale, wire, random, stream, i);
    }

    APSCOPE_HD void reduce(std::uint64_t item, HopSlot* slots) const {
        const std::uint64_t i = first + item;
        double sum;
        if (hops.count == 0) {
            sum = leaf(0, i);
            for (int w = 1; w < workers; ++w) sum += leaf(w, i);
        } else {
            sum = hops(i, [&](std::int32_t worker) { return leaf(worker, i); }, slots, 1, nullptr);
        }
        if (scale != 1.0) sum = inverse != 0.0 ? sum * inverse : sum / scale;
        out[i] = divisor != 1.0 ? sum / divisor : sum;
    }
};

// Stored: the program stores partial sums, in a thread's local memory. A chain of hops stores none.
template <bool Stored>
struct ReduceStep : ReduceTask {
    APSCOPE_HD void operator()(std::uint64_t item) const {
        if constexpr (Stored) {
            HopSlot slots[reduce_slots];
            reduce(item, slots);
        } else {
            reduce(item, nullptr);
        }
    }
};

}  // namespace apscope::detail
