#include "analysis/replay/float_sender.h"

#include "emulation/cast/row_moments.h"

namespace apscope::detail {

namespace {

struct DecodeMoments {
    static APSCOPE_INLINE void run(double* bias, double* variance, double scale,
                                   std::size_t count) {
        divide_by(scale, [&](auto quotient) __attribute__((always_inline)) {
#pragma GCC ivdep  // the arrays do not overlap
            for (std::size_t i = 0; i < count; ++i) {
                bias[i] = quotient(bias[i]);
                variance[i] = quotient(quotient(variance[i]));
            }
        });
    }
};

}  // namespace

void decode_moments(std::span<double> bias, std::span<double> variance, double scale) {
    simd::run<DecodeMoments>(bias.data(), variance.data(), scale, bias.size());
}

FloatScale wire_scale(const FloatGrid& grid, const FloatWire& wire) {
    const double before = wire.divisors().before;
    return {wire.cast(), wire.scale(), 1.0 / before, grid.format.smallest_normal() * before,
            grid.format.largest()};
}

WireTask wire_task(const FloatGrid& grid, const FloatWire& wire) {
    return {wire_scale(grid, wire), grid.projection, wire.grid(), wire.inverse()};
}

FloatSender::FloatSender(const FloatGrid& grid, const FloatWire& wire, bool sums_draw, bool wide)
    : draws_(is_stochastic(grid)), divides_(wire.divisors().any()),
      finds_moments_((draws_ || sums_draw) && !divides_), wide_(wide),
      scale_(wire_scale(grid, wire)) {
    if (!wire.is_narrow()) return;
    const FloatFormat& format = wire.grid().value();
    if (!finds_moments_ && !wide) nearest_ = make_nearest_cast(format, grid.projection);
    smallest_normal_ = static_cast<float>(format.smallest_normal());
    largest_ = static_cast<float>(format.largest());
}

Moments FloatSender::moments() const {
    return !draws_ ? Moments::deterministic : divides_ ? Moments::none : Moments::closed_form;
}

bool FloatSender::round_and_count(std::span<const float> x, Buffer<float>& narrow,
                                  ErrorStatistics& sent) const {
    if (!nearest_) return false;
    narrow.resize(x.size());
    return add_nearest(sent, x.data(), narrow.data(), x.size(), *nearest_, StoreMode::stored);
}

bool FloatSender::find_moments(const FloatWire& wire, std::size_t w, std::span<const float> x,
                               BlockBuffers& buffers) const {
    Buffer<double>&bias = buffers.bias, &variance = buffers.variance;
    bias.assign(x.size(), 0.0);
    variance.assign(x.size(), 0.0);
    if (!draws_) {
        const FloatBuffers& sent = buffers.exchange;
        for (std::size_t i = 0; i < x.size(); ++i)
            bias[i] = (wire.is_narrow() ? sent.narrow[w][i] : sent.decoded[w][i]) - x[i];
        return true;
    }
    const bool defined =
        add_moments(x.data(), x.size(), scale_.scale, scale_.cast, bias.data(), variance.data());
    decode_moments(bias, variance, scale_.scale);
    return defined;
}

SentBlock FloatSender::send(FloatWire& wire, std::size_t w, std::span<const float> x,
                            std::size_t first, PhiloxKey key, BlockBuffers& buffers) const {
    FloatBuffers& exchanged = buffers.exchange;
    SentBlock block;
    ErrorStatistics& sent = block.statistics;
    const bool counted = round_and_count(x, exchanged.narrow[w], sent);
    std::span<const double> bias, variance;  // moments of the messages' stochastic rounding
    if (!counted) {
        wire.encode({static_cast<std::uint32_t>(w), w}, x, first, key, wide_, exchanged);
        if (finds_moments_) {
            sent.moments_defined = find_moments(wire, w, x, buffers);
            block.bias = buffers.bias;
            block.variance = buffers.variance;
        }
        if (draws_) {
            bias = block.bias;
            variance = block.variance;
        }
    }
    if (wire.is_narrow()) {
        const float* y = exchanged.narrow[w].data();
        if (!counted) {
            sent.add_block<float>(x, exchanged.narrow[w], &scale_, bias, variance);
            sent.count_limits(x, exchanged.narrow[w], smallest_normal_, largest_);
        }
        block.values = SentBlock::Floats{x.data(), y, {x.data(), y, 1.0, double{largest_}}};
    } else {
        buffers.x.assign(x.begin(), x.end());
        const Buffer<double>& rounded = wire.rounded(exchanged, w);
        sent.add_block<double>(buffers.x, exchanged.decoded[w], &scale_, bias, variance);
        sent.count_limits(buffers.x, rounded, scale_);
        const double *wide = buffers.x.data(), *y = exchanged.decoded[w].data();
        block.values =
            SentBlock::Doubles{wide, y, {wide, rounded.data(), scale_.scale, scale_.largest}};
    }
    block.saturates = sent.saturated != 0;
    return block;
}

}  // namespace apscope::detail
