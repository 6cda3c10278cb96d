#include "emulation/schemes/codecs/signs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fixed_shape_sum.h"
#include "emulation/schemes/codecs/bits.h"

namespace apscope::detail {

double sign_scale(std::span<const double> x, SignScale rule, std::size_t length) {
    if (rule == SignScale::one) return 1.0;
    if (length == 0) return 0.0;
    double sum = 0.0;
    for (std::size_t first = 0; first < x.size(); first += sum_block) {
        const std::size_t count = std::min(sum_block, x.size() - first);
        sum += rule == SignScale::l1 ? block_sum(count, [&](std::size_t i) { return std::abs(x[first + i]); })
                                     : block_sum(count, [&](std::size_t i) { return x[first + i] * x[first + i]; });
    }
    const double mean = sum / static_cast<double>(length);
    const double scale = rule == SignScale::l1 ? mean : std::sqrt(mean);
    return static_cast<float>(std::min(scale, static_cast<double>(std::numeric_limits<float>::max())));
}

Message encode_signs(std::span<const double> x, double scale, std::size_t length, bool packs) {
    Message m;
    m.values.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) m.values[i] = x[i] >= 0.0 ? scale : -scale;
    m.payload_bits = length;
    if (!packs) return m;
    BitWriter bits;
    for (std::size_t i = 0; i < length; ++i) bits.put(i >= x.size() || x[i] >= 0.0, 1);
    m.payload = bits.take();
    return m;
}

}  // namespace apscope::detail
