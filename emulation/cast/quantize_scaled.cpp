#include "emulation/cast/quantize_scaled.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <stdexcept>

#include "emulation/machine/parallel.h"

namespace apscope::detail {

namespace {

// A thread rounds one piece at a time, in parts whose fp64 numbers stay in the first-level cache.
constexpr std::size_t piece = std::size_t{1} << 16, part = 2048;

void check_scale(double scale) {
    if (std::isfinite(scale) && scale > 0.0) return;
    std::ostringstream text;
    text << "scale=" << scale << " must be a positive finite number";
    throw std::invalid_argument(text.str());
}

RandomSource from(const RandomSource& random, std::size_t begin, std::size_t count) {
    RandomSource rest = random;
    rest.first_element += begin;
    if (rest.words) rest.words = rest.words->subspan(begin, count);
    return rest;
}

template <class Real>
void quantize_array(std::span<const Real> in, std::span<Real> out, double scale,
                    const FloatFormat& format, const Projection& projection,
                    const RandomSource& random, int threads) {
    check_scale(scale);
    const ArrayQuantizer<Real> plain(format, projection);
    const ArrayQuantizer<double> wide(format, projection);
    if (in.size() != out.size() || (random.words && random.words->size() != in.size()))
        return plain(in, out, random, threads);  // throws, and the message gives the reason
    const auto round_part = [&](std::size_t begin, std::size_t count) {
        std::array<double, part> scaled;
        std::array<Real, part> nans;
        const std::span<double> numbers(scaled.data(), count);
        bool any_nan = false;
        for (std::size_t i = 0; i < count; ++i) {
            any_nan |= std::isnan(in[begin + i]);
            numbers[i] = static_cast<double>(in[begin + i]) * scale;
        }
        const RandomSource words = from(random, begin, count);
        if (any_nan) plain(in.subspan(begin, count), std::span(nans.data(), count), words);
        wide(numbers, numbers, words);
        for (std::size_t i = 0; i < count; ++i) {
            const bool is_nan = std::isnan(in[begin + i]);
            out[begin + i] = is_nan ? nans[i] : static_cast<Real>(numbers[i] / scale);
        }
    };
    const auto round_piece = [&](std::size_t p) {
        const std::size_t end = std::min(in.size(), (p + 1) * piece);
        for (std::size_t begin = p * piece; begin < end; begin += part)
            round_part(begin, std::min(part, end - begin));
    };
    parallel_pieces((in.size() + piece - 1) / piece, threads, round_piece);
}

}  // namespace

void quantize_scaled(std::span<const float> in, std::span<float> out, double scale,
                     const FloatFormat& format, const Projection& projection,
                     const RandomSource& random, int threads) {
    quantize_array(in, out, scale, format, projection, random, threads);
}
void quantize_scaled(std::span<const double> in, std::span<double> out, double scale,
                     const FloatFormat& format, const Projection& projection,
                     const RandomSource& random, int threads) {
    quantize_array(in, out, scale, format, projection, random, threads);
}

}  // namespace apscope::detail
