#include "emulation/blocks.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/codec.h"
#include "core/float_environment.h"
#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/parallel.h"
#include "emulation/simd.h"

namespace apscope {

namespace {

// Blocks are taken apart into buffers of at most this many elements.
constexpr std::size_t chunk = 512;
// Work is handed out in groups of blocks of about this many elements.
constexpr std::size_t group_elements = std::size_t{1} << 15;

void check(bool agrees, const char* what, std::size_t given, std::size_t wanted) {
    if (agrees) return;
    throw std::invalid_argument("the array of " + std::string(what) + " holds " + std::to_string(given) + ", the shape " +
                                std::to_string(wanted) + "; they must agree");
}

// One block's place: its elements are first, first + stride, ...; its scale's index.
struct Place {
    std::size_t first, stride, count, scale;
};

// Calls work(place) for every block, over threads.
template <class Work>
void for_blocks(BlockShape shape, const BlockFormat& format, int threads, Work&& work) {
    const FloatEnvironment environment;
    const auto size = static_cast<std::size_t>(format.block_size);
    const std::size_t blocks = shape.blocks(format), total = shape.scales(format);
    const std::size_t together = std::max<std::size_t>(1, group_elements / size);
    const auto group = [&](std::size_t g) {
        for (std::size_t b = g * together; b < std::min(total, (g + 1) * together); ++b) {
            const std::size_t inner = b % shape.inner, block = b / shape.inner % blocks, outer = b / shape.inner / blocks;
            const std::size_t begin = block * size;
            work(Place{(outer * shape.length + begin) * shape.inner + inner, shape.inner, std::min(size, shape.length - begin), b});
        }
    };
    const std::size_t groups = total / together + (total % together != 0);
    if (groups <= 1 || threads == 1) {
        for (std::size_t g = 0; g < groups; ++g) group(g);
    } else {
        parallel_for(groups, threads, group);
    }
}

// What encoding needs of a format and a projection, derived once.
struct Encoder {
    const BlockFormat& format;
    Cast<double> element, scale;
    BlockSettings settings;
    float largest, tensor_scale, tensor_scale_inverse;

    Encoder(const BlockFormat& f, const Projection& p, const BlockSettings& given)
        : format(f),
          element(make_cast<double>(f.element, p)),
          scale(make_cast<double>(f.scale, {RoundingMode::ties_to_even, Overflow::saturate})),
          settings(given),
          largest(static_cast<float>(f.element.largest())),
          tensor_scale(1),
          tensor_scale_inverse(1) {}
};

// A block's scale and how its elements are brought into the element format's range.
struct Scale {
    double value;    // NaN: so is every element
    double inverse;  // x inverse, exact (power-of-two rules)
    float multiply;  // fl32(x multiply), clipped (rule ratio)
};

Scale choose_scale(const Encoder& e, double amax, bool has_nan) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    // A NaN with no place among the elements.
    if (has_nan && !e.format.element.has_nan()) return {nan, 0, 0};
    if (e.format.rule == ScaleRule::ratio) {
        // NVFP4's order of fp32 operations.
        const float one_over_largest = 1.0f / e.largest;
        const float narrow = static_cast<float>(amax);
        const float plain = e.settings.divides_first ? narrow / e.largest * e.tensor_scale : narrow * (e.tensor_scale * one_over_largest);
        const float ratio = plain * e.settings.stretch;
        const double d = round_to_format<RoundingMode::ties_to_even, double>(ratio, e.scale, 0);
        const float divisor = static_cast<float>(d) * e.tensor_scale_inverse;
        return {d, 0, std::min(1.0f / divisor, FLT_MAX)};
    }
    const int k = amax > 0 ? scale_exponent(e.format, amax) : std::ilogb(e.format.scale.smallest_positive());
    return {std::ldexp(1.0, k), std::ldexp(1.0, -k), 0};
}

// x as it is rounded to an element.
inline double scaled(const Encoder& e, const Scale& s, double x) {
    if (e.format.rule == ScaleRule::ratio) {
        if (x != x) return x;
        return std::clamp(static_cast<float>(x) * s.multiply, -e.largest, e.largest);
    }
    // Exact, but for fp64 inputs hundreds of binades below every element: of those only the sign,
    // and that they are not zero, can matter.
    const double result = x * s.inverse;
    if (x != 0 && std::abs(result) < DBL_MIN) return std::copysign(DBL_MIN, x);
    return result;
}

// The rule on a buffer, deterministic modes.
template <RoundingMode M, bool Plain>
struct RoundElements {
    static APSCOPE_INLINE void run(double* values, std::size_t count, const Cast<double>* given) {
        const Cast<double> cast = known<Plain>(*given);
        for (std::size_t i = 0; i < count; ++i) values[i] = round_to_format<M, double>(values[i], cast, 0);
    }
};

// The element values of every block: sink(place, offset in the block, element values, scale).
template <class Real, class Sink>
void encode_loop(std::span<const Real> in, BlockShape shape, const Encoder& e, RoundingMode rounding, int threads, Sink&& sink) {
    for_blocks(shape, e.format, threads, [&](const Place& place) {
        double amax = 0;
        bool has_nan = false;
        for (std::size_t j = 0; j < place.count; ++j) {
            const double magnitude = std::abs(static_cast<double>(in[place.first + j * place.stride]));
            has_nan |= magnitude != magnitude;
            if (magnitude > amax && magnitude <= std::numeric_limits<double>::max()) amax = magnitude;
        }
        const Scale scale = choose_scale(e, amax, has_nan);
        double elements[chunk];
        for (std::size_t begin = 0; begin < place.count; begin += chunk) {
            const std::size_t n = std::min(chunk, place.count - begin);
            const std::size_t first = place.first + begin * place.stride;
            for (std::size_t j = 0; j < n; ++j) elements[j] = scaled(e, scale, in[first + j * place.stride]);
            dispatch(rounding, [&]<RoundingMode M>() {
                if constexpr (is_stochastic(M)) {
                    for (std::size_t j = 0; j < n; ++j) {
                        elements[j] = round_to_format<M, double>(elements[j], e.element, e.settings.stream.at(first + j * place.stride));
                    }
                } else {
                    is_plain(e.element) ? simd::run<RoundElements<M, true>>(elements, n, &e.element)
                                        : simd::run<RoundElements<M, false>>(elements, n, &e.element);
                }
            });
            sink(place, begin, std::span<const double>(elements, n), scale.value);
        }
    });
}

// element * scale / tensor scale. The product is exact in fp64, and in fp32 for rule ratio, whose
// division is the one of fp32.
template <class Real>
Real combine(const BlockFormat& f, double element, double scale, float tensor_scale) {
    if (scale != scale) return std::numeric_limits<Real>::quiet_NaN();
    const double product = element * scale;
    if (product != product) return std::numeric_limits<Real>::quiet_NaN();
    if (!f.tensor_scale) return static_cast<Real>(product);
    return static_cast<Real>(static_cast<float>(product) / tensor_scale);
}

// S_enc = min(fl32(largest element * largest scale / amax), FLT_MAX) over the finite elements.
template <class Real>
void find_tensor_scale(std::span<const Real> in, Encoder& e) {
    const FloatEnvironment environment;
    if constexpr (!std::is_same_v<Real, float>) {
        if (e.format.rule == ScaleRule::ratio) {
            throw std::invalid_argument("the array is float64, but " + e.format.name() +
                                        " is defined by float32 operations; convert it to float32 first");
        }
    }
    if (!e.format.tensor_scale) return;
    float amax = e.settings.amax.value_or(0.0f);
    for (const Real x : e.settings.amax ? std::span<const Real>{} : in) {
        const float magnitude = std::abs(static_cast<float>(x));
        amax = magnitude > amax && magnitude <= FLT_MAX ? magnitude : amax;
    }
    if (amax == 0) return;
    const float range = e.largest * (e.settings.scale_range > 0 ? e.settings.scale_range : static_cast<float>(e.format.scale.largest()));
    e.tensor_scale = std::min(range / amax, FLT_MAX);
    e.tensor_scale_inverse = 1.0f / e.tensor_scale;
}

template <class Real>
void quantize_array(std::span<const Real> in, std::span<Real> out, BlockShape shape, const BlockFormat& format,
                    const Projection& projection, std::uint64_t seed, int threads) {
    validate(projection, format.element);
    require_counted(projection.rounding, "blocks");
    check(in.size() == shape.size(), "elements", in.size(), shape.size());
    check(out.size() == shape.size(), "results", out.size(), shape.size());
    Encoder e(format, projection, {array_stream(seed, projection.random_bits), {}});
    find_tensor_scale(in, e);
    encode_loop(in, shape, e, projection.rounding, threads,
                [&](const Place& place, std::size_t begin, std::span<const double> elements, double scale) {
                    for (std::size_t j = 0; j < elements.size(); ++j) {
                        out[place.first + (begin + j) * place.stride] = combine<Real>(format, elements[j], scale, e.tensor_scale);
                    }
                });
}

template <class Real>
float encode_array(std::span<const Real> in, std::span<std::uint8_t> codes, std::span<std::uint8_t> scales, BlockShape shape,
                   const BlockFormat& format, const Projection& projection, const BlockSettings& settings, int threads) {
    validate(projection, format.element);
    require_counted(projection.rounding, "blocks");
    check(in.size() == shape.size(), "elements", in.size(), shape.size());
    check(codes.size() == shape.size(), "element codes", codes.size(), shape.size());
    check(scales.size() == shape.scales(format), "scale codes", scales.size(), shape.scales(format));
    Encoder e(format, projection, settings);
    find_tensor_scale(in, e);
    const Codec element_codec = make_codec(format.element), scale_codec = make_codec(format.scale);
    const unsigned sign_code = element_codec.sign_code;
    encode_loop(in, shape, e, projection.rounding, threads,
                [&](const Place& place, std::size_t begin, std::span<const double> elements, double scale) {
                    scales[place.scale] = static_cast<std::uint8_t>(encode_one(static_cast<float>(scale), scale_codec));
                    for (std::size_t j = 0; j < elements.size(); ++j) {
                        // Under a NaN scale no element counts: code 0.
                        unsigned code = scale != scale ? 0 : encode_one(static_cast<float>(elements[j]), element_codec);
                        if (format.twos_complement && (code & sign_code)) code = (2 * sign_code - (code & (sign_code - 1))) & (2 * sign_code - 1);
                        codes[place.first + (begin + j) * place.stride] = static_cast<std::uint8_t>(code);
                    }
                });
    return e.tensor_scale;
}

// The values of all codes of a format of at most 8 bits.
std::vector<double> value_table(const FloatFormat& format) {
    const Codec codec = make_codec(format);
    std::vector<double> values(std::size_t{1} << format.storage_bits());
    for (std::size_t code = 0; code < values.size(); ++code) values[code] = decode_one(static_cast<std::uint32_t>(code), codec);
    return values;
}

std::vector<double> element_table(const BlockFormat& format) {
    std::vector<double> values = value_table(format.element);
    if (!format.twos_complement) return values;
    // Magnitudes stand at the positive codes; -half is the one integer without a positive twin.
    const std::size_t half = values.size() / 2;
    for (std::size_t code = half + 1; code < values.size(); ++code) values[code] = -values[values.size() - code];
    values[half] = -static_cast<double>(half) * values[1];
    return values;
}

void check_width(std::span<const std::uint8_t> codes, std::size_t count, const char* what) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
        if (codes[i] >= count) {
            throw std::invalid_argument("the " + std::string(what) + " code " + std::to_string(codes[i]) + " at " + std::to_string(i) +
                                        " is not below " + std::to_string(count));
        }
    }
}

}  // namespace

void quantize_blocks(std::span<const float> in, std::span<float> out, BlockShape shape, const BlockFormat& format,
                     const Projection& projection, std::uint64_t seed, int threads) {
    quantize_array(in, out, shape, format, projection, seed, threads);
}
void quantize_blocks(std::span<const double> in, std::span<double> out, BlockShape shape, const BlockFormat& format,
                     const Projection& projection, std::uint64_t seed, int threads) {
    quantize_array(in, out, shape, format, projection, seed, threads);
}
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes, std::span<std::uint8_t> scales, BlockShape shape,
                    const BlockFormat& format, const Projection& projection, std::uint64_t seed, int threads) {
    return encode_array(in, codes, scales, shape, format, projection, {array_stream(seed, projection.random_bits), {}}, threads);
}
float encode_blocks(std::span<const float> in, std::span<std::uint8_t> codes, std::span<std::uint8_t> scales, BlockShape shape,
                    const BlockFormat& format, const Projection& projection, const BlockSettings& settings, int threads) {
    return encode_array(in, codes, scales, shape, format, projection, settings, threads);
}
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes, std::span<std::uint8_t> scales, BlockShape shape,
                    const BlockFormat& format, const Projection& projection, std::uint64_t seed, int threads) {
    return encode_array(in, codes, scales, shape, format, projection, {array_stream(seed, projection.random_bits), {}}, threads);
}
float encode_blocks(std::span<const double> in, std::span<std::uint8_t> codes, std::span<std::uint8_t> scales, BlockShape shape,
                    const BlockFormat& format, const Projection& projection, const BlockSettings& settings, int threads) {
    return encode_array(in, codes, scales, shape, format, projection, settings, threads);
}

void decode_blocks(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales, float tensor_scale,
                   std::span<float> out, BlockShape shape, const BlockFormat& format, int threads) {
    check(codes.size() == shape.size(), "element codes", codes.size(), shape.size());
    check(out.size() == shape.size(), "results", out.size(), shape.size());
    check(scales.size() == shape.scales(format), "scale codes", scales.size(), shape.scales(format));
    const std::vector<double> element_values = element_table(format), scale_values = value_table(format.scale);
    check_width(codes, element_values.size(), "element");
    check_width(scales, scale_values.size(), "scale");
    for_blocks(shape, format, threads, [&](const Place& place) {
        const double scale = scale_values[scales[place.scale]];
        for (std::size_t j = 0; j < place.count; ++j) {
            const std::size_t i = place.first + j * place.stride;
            out[i] = combine<float>(format, element_values[codes[i]], scale, tensor_scale);
        }
    });
}

}  // namespace apscope
