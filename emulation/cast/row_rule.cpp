#include "emulation/cast/row_rule.h"

#include "emulation/machine/simd.h"

namespace apscope::detail {

namespace {

template <RoundingMode M, bool Plain>
struct RoundByRule {
    static APSCOPE_INLINE void run(const double* in, double* out, std::size_t count,
                                   const Cast<double>* given, const std::uint64_t* words) {
        const Cast<double> cast = assume_plain<Plain>(*given);
#pragma GCC ivdep  // rows do not overlap, or are identical
        for (std::size_t i = 0; i < count; ++i)
            out[i] = round_to_format<M, double>(in[i], cast, is_stochastic(M) ? words[i] : 0);
    }
};

}  // namespace

void round_by_rule(const double* in, double* out, std::size_t count, const Cast<double>& cast,
                   const std::uint64_t* words) {
    dispatch(cast.rounding, [&]<RoundingMode M>() {
        is_plain(cast) ? simd::run<RoundByRule<M, true>>(in, out, count, &cast, words)
                       : simd::run<RoundByRule<M, false>>(in, out, count, &cast, words);
    });
}

}  // namespace apscope::detail
