// FloatSender: the messages of workers on a float grid with one scale
// (emulation/schemes/float_wire.h), for an ItemAccount. If decoded values are fp32 numbers,
// rounding and statistics may take one pass (nearest_statistics.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "analysis/replay/item_account.h"
#include "analysis/statistics/nearest_statistics.h"
#include "emulation/schemes/float_wire.h"

namespace apscope::detail {

// The buffers for one block. All schemes and items of a thread use them one after another; their
// contents are valid only during one block.
struct BlockBuffers {
    explicit BlockBuffers(int workers) : exchange(workers), ahead(workers) {}

    FloatBuffers exchange,  // for the current block
        ahead;              // for blocks ahead of the current block
    // One worker's values, and the moments of their rounding in the values' units.
    Buffer<double> x, bias, variance;
    AccountBuffers account;
};

// The scale by which the rows of such messages count limits and measure errors in ulps.
FloatScale wire_scale(const FloatGrid& grid, const FloatWire& wire);
// The encoding as a task for a device; only without divisions.
WireTask wire_task(const FloatGrid& grid, const FloatWire& wire);

class FloatSender {
public:
    // sums_draw: some partial sums are rounded stochastically, so the moments of the messages are
    // needed too. wide: codes are stored even if the decoded values are fp32 numbers.
    FloatSender(const FloatGrid& grid, const FloatWire& wire, bool sums_draw, bool wide);

    // Worker w's message, by `wire`, for the block x that begins at element `first`. The message is
    // stored in row w of the buffers.
    SentBlock send(FloatWire& wire, std::size_t w, std::span<const float> x, std::size_t first,
                   PhiloxKey key, BlockBuffers& buffers) const;
    const FloatScale& scale() const { return scale_; }  // wire_scale()
    Moments moments() const;

private:
    bool round_and_count(std::span<const float> x, Buffer<float>& narrow,
                         ErrorStatistics& sent) const;
    // Computes the moments of worker w's rounding into the buffers. Returns false if a draw could
    // overflow.
    bool find_moments(const FloatWire& wire, std::size_t w, std::span<const float> x,
                      BlockBuffers& buffers) const;

    bool draws_,         // rounding is stochastic
        divides_,        // the scheme divides, which rounds once more, so moments are unknown
        finds_moments_,  // messages have the moments of their rounding
        wide_;           // codes are stored even if the decoded values are fp32 numbers
    FloatScale scale_;
    // The cast fused with its statistics, if decoded values are fp32 numbers.
    std::optional<NearestCast> nearest_;
    float smallest_normal_ = 0.0f, largest_ = 0.0f;  // in the units of x
};

// Converts moments of scaled numbers to the gradients' units, in place.
void decode_moments(std::span<double> bias, std::span<double> variance, double scale);

}  // namespace apscope::detail
