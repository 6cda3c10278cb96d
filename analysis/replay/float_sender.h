// FloatSender: what workers send on a float grid under one scale (emulation/schemes/float_wire.h),
// for the account of an item. Where fp32 holds it, it is rounded and counted in one pass
// (nearest_statistics.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "analysis/replay/item_account.h"
#include "analysis/statistics/nearest_statistics.h"
#include "emulation/schemes/float_wire.h"

namespace apscope::detail {

// What a block is worked on in. All schemes and items of a thread share it, one after another:
// nothing here outlives a block.
struct BlockBuffers {
    explicit BlockBuffers(int workers) : exchange(workers), ahead(workers) {}

    FloatBuffers exchange, ahead;      // of the block at hand, of those that come before their turn
    Buffer<double> x, bias, variance;  // of one worker; moments of its roundings, scaled back
    AccountBuffers account;
};

class FloatSender {
public:
    // sums_draw: what is added of the messages has moments, and theirs are a part of them. wide:
    // codes are kept beside values that are fp32 numbers.
    FloatSender(const FloatGrid& grid, const FloatWire& wire, bool sums_draw, bool wide);

    // By that wire, worker w's message of a block at `first`, with its own row of the buffers.
    SentBlock send(FloatWire& wire, std::size_t w, std::span<const float> x, std::size_t first,
                   PhiloxKey key, BlockBuffers& buffers) const;
    // For the wire's limits and ulps.
    const FloatScale& scale() const { return scale_; }
    Moments moments() const;

private:
    bool round_and_count(std::span<const float> x, Buffer<float>& narrow,
                         ErrorStatistics& sent) const;
    // Whether no draw could overflow.
    bool find_moments(const FloatWire& wire, std::size_t w, std::span<const float> x,
                      BlockBuffers& buffers) const;

    bool draws_, divides_, finds_moments_, wide_;  // moments of two draws in a row are not known
    FloatScale scale_;
    std::optional<NearestCast> nearest_;  // the cast with its statistics, where it is fp32's
    float smallest_normal_ = 0.0f, largest_ = 0.0f;  // in x's units
};

// Moments of numbers under a scale in the gradients' own units, in place.
void decode_moments(std::span<double> bias, std::span<double> variance, double scale);

}  // namespace apscope::detail
