#include "emulation/blocks/block_job.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace apscope::detail {

namespace {

template <class Real>
MovableFormat<Real> movable(const FloatFormat& f, const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    using L = Layout<Real>;
    const int lift = L::fraction_bits - f.mantissa_bits;
    return {make_grid<Real>(cast.emin, f.mantissa_bits), cast.largest,
            static_cast<Bits>(L::bias - f.bias) << f.mantissa_bits, lift};
}

// The range of k for which a format can be multiplied by 2^k: its quantum remains a normal number
// of Real, and c of core/grid.h remains finite for its largest number. The quantum also remains at
// least `spare` binades above the smallest normal number, because stochastic rounding multiplies
// the quantum by numbers of 24 bits, and these products must be exact.
template <class Real>
struct Moves {
    int lowest, highest;
    Moves(const FloatFormat& f, const Cast<Real>& cast, int spare) {
        constexpr int bias = Layout<Real>::bias, fraction_bits = Layout<Real>::fraction_bits;
        lowest = 1 - bias + spare - (cast.emin - f.mantissa_bits);
        highest = bias - fraction_bits + f.mantissa_bits - std::max(cast.emin, f.emax());
    }
    bool at_rest() const { return lowest <= 0 && highest >= 0; }
};

// Returns whether the format is evenly spaced down to a zero, and the parity of the significand
// decides ties.
template <class Real>
bool is_even(const FloatFormat& f, const Cast<Real>& cast) {
    const int emax = f.emax();
    return is_plain(cast) && f.subnormals && f.zero != Zero::none && !cast.even_code_ties &&
           f.mantissa_bits <= Layout<Real>::fraction_bits - 2 && emax >= 1 - Layout<Real>::bias &&
           emax >= cast.emin - f.mantissa_bits;
}

template <class Real>
bool serves_rounding(const BlockEncoder& e) {
    const RoundingMode mode = e.projection.rounding;
    if (!is_stochastic(mode)) return true;
    const int bits = e.projection.random_bits;
    return std::is_same_v<Real, float> &&
           (mode == RoundingMode::stochastic || mode == RoundingMode::stochastic_equal) &&
           bits <= 32 && e.settings.stream.random_bits == bits;
}

template <class Real>
void set_cast(BlockJob<Real>& job, const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    const BlockEncoder& e = job.encoder;
    BlockCast<Real>& c = job.cast;
    c.element = movable<Real>(e.format.element, cast);
    c.over_positive = cast.overflow_positive;
    c.over_negative = cast.overflow_negative;
    const auto moves = [](Bits value) {
        return (value & ~sign_bit<Real>) < infinity_bits<Real> ? ~Bits{0} : Bits{0};
    };
    c.moves_positive = moves(c.over_positive);
    c.moves_negative = moves(c.over_negative);
    c.negative_zero = cast.negative_zero;
    const unsigned sign_code = e.element_codec.sign_code;
    c.flip = e.format.twos_complement ? 2 * sign_code - 1 : sign_code;
    c.add = e.format.twos_complement ? 1 : 0;
    c.mask = 2 * sign_code - 1;
    c.zero_code = cast.negative_zero != 0 ? sign_code : 0;
    c.over_code_positive = e.element_code(static_cast<float>(bits_cast<Real>(c.over_positive)));
    c.over_code_negative = e.element_code(static_cast<float>(bits_cast<Real>(c.over_negative)));
    c.bound = static_cast<Real>(e.largest);
    c.tensor_scale = static_cast<Real>(e.tensor_scale);
}

template <class Real>
void set_power_rule(BlockJob<Real>& job, const Cast<Real>& cast) {
    using Bits = BitsOf<Real>;
    using L = Layout<Real>;
    const BlockFormat& f = job.encoder.format;
    const Moves<Real> moves(f.element, cast, job.draws ? 1 : 0);
    PowerScaleRule<Real>& p = job.power;
    const ScaleStep step = scale_step(f);
    p.offset = L::bias + f.element.emax() - step.base;
    p.more_from = fraction_from<Real>(step.from);
    p.min = std::ilogb(f.scale.smallest_positive());
    p.max = f.scale.emax();
    p.lowest = moves.lowest;
    p.highest = moves.highest;
    // Below this limit of |x|, c is finite for every k.
    p.limit = static_cast<Bits>(2 * L::bias - L::fraction_bits + f.element.mantissa_bits + 1)
              << L::fraction_bits;
    job.served = p.lowest <= p.highest;
    job.min_scale_code = static_cast<int>(
        encode_one(static_cast<float>(f.scale.smallest_positive()), job.encoder.scale_codec));
}

void set_ratio_rule(BlockJob<float>& job, const Cast<float>& cast) {
    const BlockEncoder& e = job.encoder;
    const Cast<float> scale =
        make_cast<float>(e.format.scale, {RoundingMode::ties_to_even, Overflow::saturate});
    job.ratio = true;
    job.served = is_even<float>(e.format.scale, scale) &&
                 Moves<float>(e.format.scale, scale, 0).at_rest() &&
                 Moves<float>(e.format.element, cast, job.draws ? 1 : 0).at_rest();
    job.ratio_rule = {movable<float>(e.format.scale, scale),
                      e.largest,
                      bits_cast<float>(scale.largest),
                      e.tensor_scale,
                      e.tensor_scale_inverse,
                      e.settings.stretch,
                      e.settings.divides_first};
}

}  // namespace

template <class Real>
BlockJob<Real> make_block_job(BlockEncoder encoder) {
    BlockJob<Real> job{std::move(encoder)};
    const BlockEncoder& e = job.encoder;
    const Cast<Real> cast = make_cast<Real>(e.format.element, e.projection);
    if (!is_even<Real>(e.format.element, cast) || !serves_rounding<Real>(e)) return job;
    job.draws = is_stochastic(e.projection.rounding);
    job.few = e.projection.random_bits <= 24;
    set_cast(job, cast);
    if (e.format.rule != ScaleRule::ratio) {
        set_power_rule(job, cast);
    } else if constexpr (std::is_same_v<Real, float>) {
        set_ratio_rule(job, cast);
    }
    return job;
}

template BlockJob<float> make_block_job<float>(BlockEncoder);
template BlockJob<double> make_block_job<double>(BlockEncoder);

}  // namespace apscope::detail
