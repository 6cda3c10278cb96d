// The messages of workers under one scale on a GPU, as emulation/schemes/float_wire.h encodes them
// on the host. For each value the code is stored, as an fp32 number; if `narrow`, the decoded value
// is stored instead, which is then an fp32 number, too.
#pragma once

#include <cstdint>

#include "emulation/cuda/cast/group_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

struct WireScale {
    double factor = 1.0;   // the scale
    double inverse = 1.0;  // 1 / factor, a power of two; 0: codes are divided by the factor
    bool narrow = true;

    APSCOPE_HD double code_of(float stored) const { return narrow ? stored * factor : stored; }
    APSCOPE_HD double value_of(float stored) const { return narrow ? stored : decode(stored); }
    APSCOPE_HD double decode(double code) const {
        return inverse != 0.0 ? code * inverse : code / factor;
    }
};

// The scale of every element of every worker.
struct OneWire {
    static constexpr bool of_codes = false;
    WireScale wire;

    APSCOPE_HD WireScale at(std::uint64_t, std::uint64_t) const { return wire; }
};

// Replaces the numbers by those that are stored for them. `first`: the index of the first one's
// random word.
template <class Rounding, int Size>
APSCOPE_HD void round_for_wire(const Rounding& rounding, const WireScale& wire,
                               float (&values)[Size], std::uint64_t first) {
    if constexpr (sizeof(typename Rounding::Number) == sizeof(float)) {
        rounding(values, first);
    } else {
        double scaled[Size];
        for (int j = 0; j < Size; ++j) scaled[j] = widened(values[j]) * wire.factor;
        rounding(scaled, first);
        for (int j = 0; j < Size; ++j) values[j] = narrowed(scaled[j]);
    }
}

// Gives a rounding the random words of a worker's messages, of `bits` bits.
template <class Rounding>
APSCOPE_HD void set_worker(Rounding& rounding, PhiloxKey key, std::uint64_t worker, int bits) {
    if constexpr (requires { rounding.stream; })
        rounding.stream = {key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, 0),
                           bits};
}

// Workers first .. last - 1, whose messages have one scale.
struct WorkerRange {
    int first, last;

    APSCOPE_HD std::uint64_t size() const { return static_cast<std::uint64_t>(last - first); }
};

}  // namespace apscope::detail
