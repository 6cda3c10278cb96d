#include "emulation/codecs/block_row.h"

#include <algorithm>
#include <cfloat>

#include "emulation/codecs/bits.h"
#include "emulation/codecs/block_moments.h"

namespace apscope {

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
