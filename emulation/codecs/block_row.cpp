#include "emulation/codecs/block_row.h"

#include <algorithm>
#include <cfloat>

#include "core/codec.h"
#include "core/stochastic_moments.h"
#include "emulation/codecs/bits.h"

namespace apscope {

namespace {

// Every element's bias and variance, from the scale its block got.
void state_moments(Message& m, const BlockRow& row, std::span<const double> x, const BlockFormat& format, const Projection& projection) {
    const Cast<double> cast = make_cast<double>(format.element, projection);
    const BasicCodec<double> scales = make_codec<double>(format.scale);
    const double largest = format.element.largest();
    m.bias.resize(x.size());
    m.variance.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double scale = decode_one<double>(row.scales[i / static_cast<std::size_t>(format.block_size)], scales);
        const bool ratio = format.rule == ScaleRule::ratio;
        const float inverse = 1.0f / row.tensor_scale;
        const float multiply = ratio ? std::min(1.0f / (static_cast<float>(scale) * inverse), FLT_MAX) : 0.0f;
        const double v = ratio ? std::clamp<double>(std::clamp(static_cast<float>(x[i]), -FLT_MAX, FLT_MAX) * multiply, -largest, largest)
                               : x[i] / scale;
        const RoundingMoments rounding = stochastic_moments(v, cast, projection.rounding, true);
        // The decoded values of the two neighbours, as decode_blocks would give them.
        const auto decoded = [&](double element) -> double {
            return format.tensor_scale ? static_cast<float>(element * scale) / row.tensor_scale : element * scale;
        };
        if (rounding.variance == 0.0) {
            m.bias[i] = decoded(v + rounding.bias) - x[i];
            continue;
        }
        const double low = round_to_format<RoundingMode::toward_zero, double>(v, cast, 0);
        const double high = round_to_format<RoundingMode::away_from_zero, double>(v, cast, 0);
        const double p = (v + rounding.bias - low) / (high - low), gap = decoded(high) - decoded(low);
        m.bias[i] = decoded(low) + p * gap - x[i];
        m.variance[i] = p * (1.0 - p) * (gap * gap);
    }
}

}  // namespace

std::vector<float> narrow_row(std::span<const double> x) {
    std::vector<float> narrow(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        narrow[i] = static_cast<float>(std::clamp<double>(x[i], -FLT_MAX, FLT_MAX));
    }
    return narrow;
}

BlockRow encode_block_row(std::span<const double> x, const BlockFormat& format, const Projection& projection, const BlockSettings& settings) {
    const BlockShape shape{1, x.size(), 1};
    BlockRow row{std::vector<std::uint8_t>(x.size()), std::vector<std::uint8_t>(shape.scales(format)), 1.0f, std::vector<float>(x.size())};
    if (format.rule == ScaleRule::ratio) {
        const std::vector<float> narrow = narrow_row(x);
        row.tensor_scale = encode_blocks(std::span<const float>(narrow), row.codes, row.scales, shape, format, projection, settings);
    } else {
        row.tensor_scale = encode_blocks(x, row.codes, row.scales, shape, format, projection, settings);
    }
    decode_blocks(row.codes, row.scales, row.tensor_scale, row.values, shape, format);
    return row;
}

Message block_message(const BlockRow& row, std::span<const double> x, const BlockFormat& format, const Projection& projection, bool packs) {
    Message m;
    m.values.assign(row.values.begin(), row.values.end());
    if (is_stochastic(projection.rounding)) state_moments(m, row, x, format, projection);
    const int width = format.element.storage_bits();
    m.payload_bits = row.codes.size() * static_cast<std::uint64_t>(width);
    m.side_bits = row.scales.size() * static_cast<std::uint64_t>(format.scale.storage_bits()) + (format.tensor_scale ? 32 : 0);
    if (!packs) return m;
    BitWriter bits;
    for (const std::uint8_t code : row.codes) bits.put(code, width);
    m.payload = bits.take();
    return m;
}

}  // namespace apscope
