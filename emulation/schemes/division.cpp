#include "emulation/schemes/division.h"

#include <cmath>

#include "emulation/machine/divide.h"
#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

// The smallest power of two that is at least sqrt(W) or, if that is smaller, the largest power of
// two that divides 2 W.
double fsdp_factor(int workers) {
    std::int64_t factor = 1;
    while (workers % factor == 0 && factor * factor < workers) factor *= 2;
    return static_cast<double>(factor);
}

struct MultiplyRow {
    static APSCOPE_INLINE void run(double* row, double factor, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) row[i] *= factor;
    }
};

}  // namespace

Divisors Division::of(int workers) const {
    const auto all = static_cast<double>(workers);
    double before = all;
    switch (place) {
        case Place::after: return {};
        case Place::before: break;
        case Place::sqrt: before = static_cast<float>(std::sqrt(all)); break;
        case Place::fsdp: before = fsdp_factor(workers); break;
        case Place::factor: before = factor; break;
    }
    return {before, all / before};
}

void divide_codes(std::span<double> codes, double divisor, const RowCast& cast,
                  const RandomStream& stream, std::uint64_t first) {
    simd::run<DivideRow>(codes.data(), divisor, codes.size());
    cast.round(codes.data(), 1.0, codes.data(), codes.size(), stream, first);
}

void divide_sum(std::span<double> sum, double after, int workers, const RowCast& accumulator,
                PhiloxKey key, std::uint64_t first) {
    if (after != 1.0) {
        const RandomStream stream{key, 1, stage_and_hop(Stage::reduce, 0),
                                  accumulator.cast().random_bits};
        divide_codes(sum, after, accumulator, stream, first);
    }
    simd::run<MultiplyRow>(sum.data(), static_cast<double>(workers), sum.size());
}

}  // namespace apscope::detail
