// Makes formats and projections, valid or not, from bytes.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/block_format.h"
#include "core/projection.h"
#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {

// Reads bytes from the front; gives zeros if none are left.
class ByteReader {
public:
    explicit ByteReader(Bytes bytes) : rest_(bytes) {}

    template <class Value>
    Value take() {
        Value value{};
        const std::size_t count = std::min(rest_.size(), sizeof value);
        if (count != 0) std::memcpy(&value, rest_.data(), count);
        rest_ = rest_.subspan(count);
        return value;
    }
    // An integer from 0 to count - 1.
    int below(int count) { return take<std::uint8_t>() % count; }
    bool flag() { return below(2) != 0; }
    std::string_view line() {
        const std::string_view text = text_of(rest_), taken = text.substr(0, text.find('\n'));
        rest_ = rest_.subspan(std::min(taken.size() + 1, rest_.size()));
        return taken;
    }
    Bytes rest() const { return rest_; }

private:
    Bytes rest_;
};

// The presets with some fields changed, because random fields are hardly ever a valid format.
inline FloatFormat format_of(ByteReader& bytes) {
    const int exponent_bits = bytes.below(14) - 1, mantissa_bits = bytes.below(56) - 1;
    FloatFormat f = make_format(exponent_bits, mantissa_bits, static_cast<Specials>(bytes.below(7)),
                                bytes.flag());
    const int changed = bytes.below(256);
    if (changed & 1) f.bias = bytes.take<std::int16_t>();
    if (changed & 1) f.subnormal_exponent = 1 - f.bias;
    if (changed & 2) f.bias = bytes.take<std::int32_t>();
    if (changed & 4) f.subnormals = bytes.flag();
    if (changed & 8) f.subnormal_exponent = bytes.take<std::int32_t>();
    if (changed & 16) f.zero = static_cast<Zero>(bytes.below(3));
    if (changed & 32)
        f.nan_codes = bytes.flag() ? bytes.take<std::uint64_t>() : bytes.take<std::uint8_t>();
    if (changed & 64) f.has_infinity = bytes.flag();
    if (changed & 128) f.nan_at_negative_zero = bytes.flag(), f.even_code_ties = bytes.flag();
    return f;
}

inline BlockFormat block_format_of(const FloatFormat& element, ByteReader& bytes) {
    BlockFormat f;
    f.element = element;
    f.scale = format_of(bytes);
    f.block_size = bytes.flag() ? bytes.take<std::int32_t>() : bytes.take<std::uint8_t>();
    f.rule = static_cast<ScaleRule>(bytes.below(scale_rule_count));
    const int changed = bytes.below(8 * block_nonfinite_count);
    f.nonfinite = static_cast<BlockNonfinite>(changed / 8);
    f.twos_complement = (changed & 1) != 0;
    f.tensor_scale = (changed & 2) != 0;
    if (changed & 4) f.scale = make_format(8, 0, Specials::e8m0, false);
    return f;
}

inline Projection projection_of(ByteReader& bytes) {
    Projection p;
    p.rounding = static_cast<RoundingMode>(bytes.below(rounding_mode_count));
    p.overflow = static_cast<Overflow>(bytes.below(overflow_count));
    p.underflow = static_cast<Underflow>(bytes.below(underflow_count));
    p.keep_payload = bytes.flag();
    if (bytes.flag()) p.random_bits = bytes.take<std::int8_t>();
    return p;
}

}  // namespace apscope::detail::fuzz
