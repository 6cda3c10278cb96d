#include "emulation/schemes/codecs/super_group.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/bits.h"

namespace apscope::detail::super_group {

Codec::Codec(Quantizer quantizer, Rules rules)
    : by_paper_(rules == Rules::paper), between_(by_paper_ && quantizer == Quantizer::mee) {
    constexpr std::array<double, 3> distances{0.27, 0.20, 0.08};
    for (std::size_t i = 0; i < distances.size(); ++i)
        lattices_.emplace_back(2 << i, quantizer == Quantizer::mee ? distances[i] : 0.0);
}

void Codec::send(Values& x, int bits, const Values& r, const double* r_of_scales,
                 BitWriter& wire) const {
    const Lattice& lattice = lattices_[bits == 8 ? 2 : bits == 4 ? 1 : 0];
    std::array<double, groups> scales;
    for (std::size_t j = 0; j < groups; ++j) {
        double amax = 0.0;
        for (std::size_t i = 0; i < group; ++i) amax = std::max(amax, std::abs(x[j * group + i]));
        scales[j] = added(divided(amax, lattice.at(lattice.last())), 1e-7);
    }
    const double most = *std::ranges::max_element(scales), unit = bf16(divided(most, 255.0));
    wire.put(bits_cast<std::uint32_t>(static_cast<float>(unit)) >> 16, 16);
    for (std::size_t j = 0; j < groups; ++j) {
        const double exact = multiplied(divided(scales[j], most), 255.0), low = std::floor(exact);
        double q = std::ceil(exact);
        if (by_paper_) q = low + (r_of_scales[j] < exact - low ? 1.0 : 0.0);
        q = q >= 1.0 ? std::min(q, 255.0) : 1.0;  // NaN: 1
        const double scale = multiplied(q, unit);
        wire.put(static_cast<std::uint64_t>(q), 8);
        for (std::size_t i = j * group; i < (j + 1) * group; ++i) {
            const double t = divided(x[i], scale);
            const double l = std::isnan(t) ? 0.0 : lattice.rounded(t, r[i], between_);
            x[i] = std::isnan(t) ? t : multiplied(lattice.at(l), scale);
            wire.put(static_cast<std::uint64_t>(l + lattice.last()), lattice.bits());
        }
    }
}

}  // namespace apscope::detail::super_group
