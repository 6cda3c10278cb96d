#include "emulation/schemes/float_exchange.h"

#include <algorithm>
#include <cmath>

#include "emulation/machine/row_kernels.h"

namespace apscope::detail {

FloatExchange::FloatExchange(const FloatEncoder& encoder, const Decision& decision, int workers,
                             bool adds_hops, FloatBuffers& buffers)
    : encoder_(encoder), decision_(decision), workers_(workers),
      divisors_(encoder.grid.division.of(workers)),
      wire_(encoder.grid.format, encoder.grid.projection),
      accumulator_(make_accumulator(encoder.reduction.accumulate, encoder.reduction.projection)),
      buffers_(buffers) {
    if (!decision.exponent) return;
    inverse_ = std::ldexp(1.0, -*decision.exponent);
    const FloatFormat& format = encoder.grid.format;
    const Projection& projection = encoder.grid.projection;
    const std::optional<FloatFormat> grid = scaled_format(format, *decision.exponent);
    if (!grid || projection.rounding == RoundingMode::stochastic_exact || divisors_.any()) return;
    grid_ = grid;
    job_ = make_row_job(*grid, projection);
    // Gathered values are added in decoded form.
    const bool gathers = encoder.reduction.gathers();
    sums_ = fp32_sums(gathers ? *grid : format, encoder.reduction.accumulate,
                      encoder.reduction.projection, gathers ? 0 : *decision.exponent, workers);
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

void FloatExchange::decode(std::span<double> codes) const {
    simd::run<DivideRow>(codes.data(), decision_.scale, codes.size());
}

void FloatExchange::encode(std::size_t w, std::span<const float> in, std::size_t first,
                           PhiloxKey key) {
    const std::size_t count = in.size();
    const auto worker = static_cast<std::uint32_t>(w);
    Buffer<double>&codes = buffers_.codes[w], &decoded = buffers_.decoded[w];
    if (wide_) {
        codes.resize(count);
        decoded.resize(count);
    }
    if (!job_) {
        encode_row(in, codes.data(), decision_.scale, wire_, key, worker, first);
        if (divisors_.before != 1.0) {
            buffers_.undivided[w].assign(codes.begin(), codes.end());
            const RandomStream words{key, worker, stage_and_hop(Stage::wire, 1),
                                     wire().random_bits};
            divide_codes(codes, divisors_.before, wire_, words, first);
        }
        for (std::size_t i = 0; i < count; ++i) decoded[i] = codes[i] * divisors_.before;
        decode(decoded);
        return;
    }
    Buffer<float>& narrow = buffers_.narrow[w];
    narrow.resize(count);
    const RandomStream stream{key, worker, stage_and_hop(Stage::wire, 0), wire().random_bits};
    round_row(*job_, in.data(), narrow.data(), count, stream, first);
    if (wide_)
        simd::run<WidenAndScale>(narrow.data(), decoded.data(), codes.data(), decision_.scale,
                                 count);
}

void FloatExchange::reduce(const Topology& topology, bool exact, std::size_t first,
                           std::size_t elements, PhiloxKey key, double divisor, std::span<double> y,
                           HopMoments* moments) {
    const std::size_t count = y.size();
    const bool gather = topology.kind == Topology::Kind::gather;
    if (exact && job_) {
        std::fill(y.begin(), y.end(), -0.0);  // -0 + x is x
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
    for (std::size_t w = 0; job_ && !wide_ && w < buffers_.narrow.size(); ++w) {
        buffers_.codes[w].resize(count);  // a topology whose sums fp32 cannot hold
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
        if (divisors_.any()) divide_sum(y, divisors_.after, workers_, accumulator_, key, first);
        decode(y);
    }
    if (divisor != 1.0) simd::run<DivideRow>(y.data(), divisor, count);
}

}  // namespace apscope::detail
