#include "emulation/schemes/float_exchange.h"

#include <algorithm>

#include "emulation/machine/row_kernels.h"

namespace apscope::detail {

FloatExchange::FloatExchange(const FloatEncoder& encoder, const Decision& decision, int workers,
                             bool adds_hops, FloatBuffers& buffers)
    : encoder_(encoder), decision_(decision), workers_(workers),
      wire_(encoder.grid, decision, workers),
      accumulator_(make_accumulator(encoder.reduction.accumulate, encoder.reduction.projection)),
      buffers_(buffers) {
    if (!wire_.is_narrow()) return;
    // Gathered values are added in decoded form.
    const bool gathers = encoder.reduction.gathers();
    sums_ = fp32_sums(gathers ? wire_.grid().value() : encoder.grid.format,
                      encoder.reduction.accumulate, encoder.reduction.projection,
                      gathers ? 0 : decision.exponent.value(), workers);
    wide_ = adds_hops && !sums_;
}

Fp32Sums* FloatExchange::sums_of(const Topology& topology) {
    if (!sums_ || topology.is_plain()) return sums_ ? &*sums_ : nullptr;
    for (auto& [known, sums] : others_)
        if (known == topology) return sums ? &*sums : nullptr;
    const Reduction& r = encoder_.reduction;
    auto& sums = others_.emplace_back(topology, std::nullopt).second;
    sums = fp32_sums(topology, encoder_.grid.format, r.accumulate, r.projection,
                     decision_.exponent.value(), workers_);
    return sums ? &*sums : nullptr;
}

void FloatExchange::encode(std::size_t w, std::span<const float> in, std::size_t first,
                           PhiloxKey key) {
    wire_.encode({static_cast<std::uint32_t>(w), w}, in, first, key, wide_, buffers_);
}

void FloatExchange::reduce(const Topology& topology, bool exact, std::size_t first,
                           std::size_t elements, PhiloxKey key, double divisor, std::span<double> y,
                           HopMoments* moments) {
    const std::size_t count = y.size();
    const bool gather = topology.kind == Topology::Kind::gather;
    if (exact && wire_.is_narrow()) {
        std::fill(y.begin(), y.end(), -0.0);  // -0 + x is x, also for x = -0
        for (const Buffer<float>& row : buffers_.narrow)
            simd::run<AddWidened>(y.data(), row.data(), count);
        if (divisor != 1.0) simd::run<DivideRow>(y.data(), divisor, count);
        return;
    }
    if (Fp32Sums* sums = exact ? nullptr : sums_of(topology)) {
        std::vector<const float*>& rows = buffers_.narrow_rows;
        rows.clear();
        for (const Buffer<float>& row : buffers_.narrow) rows.push_back(row.data());
        buffers_.narrow_sum.resize(count);
        detail::reduce(topology, rows, first, count, elements, *sums, key, buffers_.narrow_sum,
                       buffers_.narrow_scratch, moments);
        simd::run<WidenAndDivide>(buffers_.narrow_sum.data(), y.data(), divisor, count);
        return;
    }
    for (std::size_t w = 0; wire_.is_narrow() && !wide_ && w < buffers_.narrow.size(); ++w) {
        buffers_.codes[w].resize(count);  // fp32 cannot represent this topology's sums
        buffers_.decoded[w].resize(count);
        simd::run<WidenAndScale>(buffers_.narrow[w].data(), buffers_.decoded[w].data(),
                                 buffers_.codes[w].data(), decision_.scale, count);
    }
    std::vector<std::vector<double>> narrowed;
    std::vector<const double*> rows;
    for (std::size_t w = 0; w < buffers_.codes.size(); ++w) {
        if (gather) {
            narrowed.emplace_back(count);
            for (std::size_t i = 0; i < count; ++i)
                narrowed[w][i] = static_cast<float>(buffers_.decoded[w][i]);
        }
        rows.push_back(gather  ? narrowed[w].data()
                       : exact ? buffers_.decoded[w].data()
                               : buffers_.codes[w].data());
    }
    detail::reduce(exact ? Topology{} : topology, rows, first, count, elements, accumulator_, key,
                   y, buffers_.scratch, moments);
    if (!exact && !gather) {
        if (const Divisors& by = wire_.divisors(); by.any())
            divide_sum(y, by.after, workers_, accumulator_, key, first);
        wire_.decode(y);
    }
    if (divisor != 1.0) simd::run<DivideRow>(y.data(), divisor, count);
}

}  // namespace apscope::detail
