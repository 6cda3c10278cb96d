#include "emulation/blocks/block_rule.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "emulation/cast/row_rule.h"

namespace apscope::detail {

namespace {

// Blocks are processed in buffers of at most this number of elements.
constexpr std::size_t chunk = 512;

// A block's scale, and the factor that brings its elements into the element format's range.
struct Scale {
    double value;    // if NaN, every element is NaN
    double inverse;  // power-of-two rules: x * inverse is rounded to the element
    float multiply;  // rule ratio: fl32(x * multiply), clipped, is rounded to the element
};

// Properties of a block: the amax of its finite elements, and whether it has NaNs or infinities.
struct Content {
    double amax = 0;
    bool has_nan = false, has_infinity = false;
};

// Returns whether non-finite elements make the block's scale NaN.
bool scale_is_nan(const BlockFormat& f, const Content& content) {
    switch (f.nonfinite) {
        case BlockNonfinite::apart: return content.has_nan && !f.element.has_nan();
        case BlockNonfinite::torchao: return content.has_nan || content.has_infinity;
        case BlockNonfinite::torchao_0_18: return content.has_nan;
        case BlockNonfinite::transformer_engine: return false;
    }
    return false;
}

// The exponent of the scale of a block with an infinity that affects the scale.
int infinite_exponent(const BlockFormat& f, double amax) {
    return f.nonfinite == BlockNonfinite::transformer_engine || f.rule == ScaleRule::rceil
               ? f.scale.emax()
               : scale_exponent(f, std::max(amax, 0x1p128));
}

Scale choose_scale(const BlockEncoder& e, const Content& content) {
    if (scale_is_nan(e.format, content)) return {std::numeric_limits<double>::quiet_NaN(), 0, 0};
    const bool infinite = content.has_infinity && e.format.nonfinite != BlockNonfinite::apart;
    const double amax = content.amax;
    if (e.format.rule == ScaleRule::ratio) {
        // NVFP4 defines the order of these fp32 operations.
        const float one_over_largest = 1.0f / e.largest;
        const float narrow =
            infinite ? std::numeric_limits<float>::infinity() : static_cast<float>(amax);
        const float plain = e.settings.divides_first ? narrow / e.largest * e.tensor_scale
                                                     : narrow * (e.tensor_scale * one_over_largest);
        const float ratio = plain * e.settings.stretch;
        const double d = round_to_format<RoundingMode::ties_to_even, double>(ratio, e.scale, 0);
        const float divisor = static_cast<float>(d) * e.tensor_scale_inverse;
        return {d, 0, std::min(1.0f / divisor, FLT_MAX)};
    }
    const int k = infinite   ? infinite_exponent(e.format, amax)
                  : amax > 0 ? scale_exponent(e.format, amax)
                             : std::ilogb(e.format.scale.smallest_positive());
    return {std::ldexp(1.0, k), std::ldexp(1.0, -k), 0};
}

// x in units of the block's scale, before it is rounded to an element.
inline double scaled(const BlockEncoder& e, const Scale& s, double x) {
    // If the scale is not NaN and the element format has no NaN, a NaN becomes the largest element,
    // as in PTX's cvt.satfinite.
    if (x != x && e.format.nonfinite == BlockNonfinite::transformer_engine &&
        !e.format.element.has_nan())
        return e.largest;
    if (e.format.rule == ScaleRule::ratio) {
        if (x != x) return x;
        return std::clamp(static_cast<float>(x) * s.multiply, -e.largest, e.largest);
    }
    // The product is exact, except for fp64 inputs hundreds of binades below every element. Only
    // the sign of such an input, and the fact that it is not zero, affect the result.
    const double result = x * s.inverse;
    if (x != 0 && std::abs(result) < DBL_MIN) return std::copysign(DBL_MIN, x);
    return result;
}

// Computes the elements of a block, one buffer at a time: calls sink(offset in the block, values of
// the elements, scale).
template <class Real, class Sink>
void round_block(const Real* in, const BlockPlace& place, const BlockEncoder& e, Sink&& sink) {
    Content content;
    for (std::size_t j = 0; j < place.count; ++j) {
        const double magnitude = std::abs(static_cast<double>(in[place.first + j * place.stride]));
        content.has_nan |= magnitude != magnitude;
        if (magnitude > std::numeric_limits<double>::max()) content.has_infinity = true;
        else if (magnitude > content.amax) content.amax = magnitude;
    }
    const Scale scale = choose_scale(e, content);
    double elements[chunk];
    for (std::size_t begin = 0; begin < place.count; begin += chunk) {
        const std::size_t n = std::min(chunk, place.count - begin);
        const std::size_t first = place.first + begin * place.stride;
        for (std::size_t j = 0; j < n; ++j)
            elements[j] = scaled(e, scale, in[first + j * place.stride]);
        std::uint64_t words[chunk];
        const std::uint64_t* drawn = nullptr;
        if (is_stochastic(e.projection.rounding)) {
            for (std::size_t j = 0; j < n; ++j)
                words[j] =
                    e.settings.stream.at(e.settings.first_element + first + j * place.stride);
            drawn = words;
        }
        round_by_rule(elements, elements, n, e.element, drawn);
        sink(begin, std::span<const double>(elements, n), scale.value);
    }
}

// The values of all codes of a format of at most 8 bits. Every thread stores its last few tables,
// because consecutive calls often have the same format.
const std::vector<double>& value_table(const FloatFormat& format) {
    constexpr std::size_t kept = 8;
    thread_local std::vector<std::pair<FloatFormat, std::vector<double>>> tables;
    for (const auto& [known, values] : tables)
        if (known == format) return values;
    const Codec codec = make_codec(format);
    std::vector<double> values(std::size_t{1} << format.storage_bits());
    for (std::size_t code = 0; code < values.size(); ++code)
        values[code] = decode_one(static_cast<std::uint32_t>(code), codec);
    if (tables.size() == kept) tables.clear();
    return tables.emplace_back(format, std::move(values)).second;
}

}  // namespace

BlockEncoder::BlockEncoder(const BlockFormat& f, const Projection& p, const BlockSettings& given)
    : format(f), projection(p), settings(given), element(make_cast<double>(f.element, p)),
      scale(make_cast<double>(f.scale, {RoundingMode::ties_to_even, Overflow::saturate})),
      element_codec(make_codec(f.element)), scale_codec(make_codec(f.scale)),
      largest(static_cast<float>(f.element.largest())), tensor_scale(1), tensor_scale_inverse(1) {}

// S_enc = min(fl32(largest element * largest scale / amax), FLT_MAX). If settings.scale_range is
// not 0, it replaces the largest scale. S_enc is 1 if amax is 0 or infinite.
void BlockEncoder::set_tensor_scale(float amax) {
    if (amax == 0 || std::isinf(amax)) return;
    const float range =
        largest * (settings.scale_range > 0 ? settings.scale_range
                                            : static_cast<float>(format.scale.largest()));
    tensor_scale = std::min(range / amax, FLT_MAX);
    tensor_scale_inverse = 1.0f / tensor_scale;
}

std::uint8_t BlockEncoder::element_code(float value) const {
    const unsigned sign_code = element_codec.sign_code;
    unsigned code = encode_one(value, element_codec);
    if (format.twos_complement && (code & sign_code))
        code = (2 * sign_code - (code & (sign_code - 1))) & (2 * sign_code - 1);
    return static_cast<std::uint8_t>(code);
}

template <class Real>
Real combine_block_value(const BlockFormat& f, double element, double scale, float tensor_scale) {
    if (scale != scale) return std::numeric_limits<Real>::quiet_NaN();
    const double product = element * scale;
    if (product != product) return std::numeric_limits<Real>::quiet_NaN();
    if (!f.tensor_scale) return static_cast<Real>(product);
    return static_cast<Real>(static_cast<float>(product) / tensor_scale);
}

template <class Real>
void quantize_block_by_rule(const Real* in, Real* out, const BlockPlace& place,
                            const BlockEncoder& e) {
    round_block(in, place, e,
                [&](std::size_t begin, std::span<const double> elements, double scale) {
                    for (std::size_t j = 0; j < elements.size(); ++j) {
                        out[place.first + (begin + j) * place.stride] =
                            combine_block_value<Real>(e.format, elements[j], scale, e.tensor_scale);
                    }
                });
}

template <class Real>
void encode_block_by_rule(const Real* in, std::uint8_t* codes, std::uint8_t* scales,
                          const BlockPlace& place, const BlockEncoder& e) {
    round_block(
        in, place, e, [&](std::size_t begin, std::span<const double> elements, double scale) {
            scales[place.scale] =
                static_cast<std::uint8_t>(encode_one(static_cast<float>(scale), e.scale_codec));
            for (std::size_t j = 0; j < elements.size(); ++j) {
                // If the scale is NaN, every element code decodes to NaN, so code 0 is written.
                codes[place.first + (begin + j) * place.stride] =
                    scale != scale ? std::uint8_t{0}
                                   : e.element_code(static_cast<float>(elements[j]));
            }
        });
}

std::vector<double> element_values(const BlockFormat& format) {
    std::vector<double> values = value_table(format.element);
    if (!format.twos_complement) return values;
    // The table has the magnitudes at the positive codes; -half is the only integer whose magnitude
    // has no positive code.
    const std::size_t half = values.size() / 2;
    for (std::size_t code = half + 1; code < values.size(); ++code)
        values[code] = -values[values.size() - code];
    values[half] = -static_cast<double>(half) * values[1];
    return values;
}

std::vector<double> scale_values(const BlockFormat& format) { return value_table(format.scale); }

template void quantize_block_by_rule<float>(const float*, float*, const BlockPlace&,
                                            const BlockEncoder&);
template void quantize_block_by_rule<double>(const double*, double*, const BlockPlace&,
                                             const BlockEncoder&);
template void encode_block_by_rule<float>(const float*, std::uint8_t*, std::uint8_t*,
                                          const BlockPlace&, const BlockEncoder&);
template void encode_block_by_rule<double>(const double*, std::uint8_t*, std::uint8_t*,
                                           const BlockPlace&, const BlockEncoder&);
template float combine_block_value<float>(const BlockFormat&, double, double, float);
template double combine_block_value<double>(const BlockFormat&, double, double, float);

}  // namespace apscope::detail
