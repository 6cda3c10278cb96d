#include "emulation/schemes/special_values.h"

#include <cmath>

#include "core/bits.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

struct WidenFinite {
    static APSCOPE_INLINE void run(const float* in, std::size_t count, double* out,
                                   std::uint32_t* special_bits) {
        constexpr std::uint32_t infinity = 0x7F800000u;
        std::uint32_t special = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const auto bits = bits_cast<std::uint32_t>(in[i]);
            const std::uint32_t finite = (bits & infinity) == infinity ? 0u : bits;
            special |= finite ^ bits;
            out[i] = bits_cast<float>(finite);
        }
        *special_bits = special;
    }
};

}  // namespace

bool widen_finite(std::span<const float> gradients, std::span<double> out) {
    std::uint32_t special = 0;
    simd::run<WidenFinite>(gradients.data(), gradients.size(), out.data(), &special);
    return special == 0;
}

void widen_gradients(std::span<const float> gradients, bool sees_special, std::size_t worker,
                     std::span<double> out, std::vector<SpecialValue>& special) {
    if (widen_finite(gradients, out)) return;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (std::isfinite(gradients[i])) continue;
        if (sees_special) out[i] = gradients[i];
        else special.push_back({worker, i, gradients[i]});
    }
}

void restore(std::span<const SpecialValue> special, Exchange& e) {
    for (const SpecialValue& s : special) {
        Message& message = e.sent[s.worker];
        message.values[s.element] = s.value;
        e.intended[s.worker][s.element] = s.value;
        if (!message.variance.empty()) message.bias[s.element] = message.variance[s.element] = 0.0;
        for (Row& row : e.reduced) row[s.element] += s.value;
    }
}

}  // namespace apscope::detail
