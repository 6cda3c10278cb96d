#include "emulation/schemes/codecs/signs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "emulation/schemes/codecs/bits.h"
#include "emulation/schemes/codecs/statistics.h"

namespace apscope::detail {

double sign_scale(const RowReader& x, SignScale rule, std::size_t length) {
    if (rule == SignScale::one) return 1.0;
    if (length == 0) return 0.0;
    const double sum = rule == SignScale::l1 ? fixed_sum_of(x, [](double v) { return std::abs(v); })
                                             : fixed_sum_of(x, [](double v) { return v * v; });
    const double mean = sum / static_cast<double>(length);
    const double scale = rule == SignScale::l1 ? mean : std::sqrt(mean);
    return static_cast<float>(
        std::min(scale, static_cast<double>(std::numeric_limits<float>::max())));
}

std::size_t padded_length(std::size_t n, std::size_t workers) {
    const std::size_t unit = workers * std::lcm(workers, std::size_t{8});
    return (n + unit - 1) / unit * unit;
}

void encode_signs(Message& m, std::span<const double> x, double scale, std::size_t padding,
                  bool packs) {
    m.prepare(x.size(), false, false);
    for (std::size_t i = 0; i < x.size(); ++i) m.values[i] = x[i] >= 0.0 ? scale : -scale;
    m.payload_bits = x.size() + padding;
    if (!packs) return;
    BitWriter bits;
    for (std::size_t i = 0; i < x.size() + padding; ++i) bits.put(i >= x.size() || x[i] >= 0.0, 1);
    m.payload = bits.take();
}

}  // namespace apscope::detail
