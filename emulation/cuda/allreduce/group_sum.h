// How a thread of an all-reduce reads a group of a worker's values, and how it adds two groups:
//
//      StepRounding     fp32, ties to even by a step (emulation/arithmetic/rounding_steps.h)
//      FloatRounding    fp32, by a step or in one of the ways of group_rounding.h
//      RuleLeaf,        fp64 and the rule itself: every format, mode and scale
//      RuleSum
//      QuantaSum        stochastic sums of fp64, by quanta
//
// Values are rounded in fp32, to a format whose exponents are shifted by that of a scale 2^k
// (scaled_format.h), and added in fp32 in the cases of emulation/allreduce/fp32_sums.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "emulation/arithmetic/rounding_steps.h"
#include "emulation/cuda/allreduce/hop_rounding.h"
#include "emulation/cuda/cast/group_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

// The sums of a group's elements, and with Kahan's sums their compensations.
template <class Number, int Size, bool Kahan>
struct GroupSums {
    Number value[Size];
};
template <class Number, int Size>
struct GroupSums<Number, Size, true> {
    Number value[Size], lost[Size];
};

// The bias and the variance that the stochastic roundings of the hops add to the sums of a group's
// elements, if they are wanted.
template <int Size>
struct GroupMoments {
    bool wanted;
    double bias[Size] = {}, variance[Size] = {};
    std::uint32_t undefined = 0;  // bit j: those of element j are not defined

    APSCOPE_HD void add(int j, const RoundingMoments& m) {
        bias[j] += m.bias;
        variance[j] += m.variance;
        undefined |= static_cast<std::uint32_t>(!m.defined) << j;
    }
};
struct NoMoments {
    static constexpr bool wanted = false;
    APSCOPE_HD void add(int, const RoundingMoments&) {}
};

// Zeros may have the wrong sign, and NaNs any bits, until canonicalize_nan_and_zero().
struct StepRounding {
    StepCast<float> step;  // Step::none, addition or bits

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], std::uint64_t) const {
        if (step.step == Step::addition) {
            for (float& value : values) value = round_step<Step::addition>(value, step);
        } else if (step.step == Step::bits) {
            for (float& value : values) value = round_step<Step::bits>(value, step);
        }
    }
    APSCOPE_HD StepRounding with_stream(std::uint32_t, std::uint32_t) const { return *this; }
};

struct FloatRounding {
    enum class Way : std::int32_t { step, addition, split };
    Way way = Way::step;
    StepRounding step;
    AdditionRounding addition;
    SplitRounding split;

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], std::uint64_t first) const {
        if (way == Way::step) step(values, first);
        else if (way == Way::addition) addition(values, first);
        else split(values, first);
    }
    APSCOPE_HD FloatRounding with_stream(std::uint32_t worker, std::uint32_t stage) const {
        FloatRounding rounding = *this;
        rounding.split.stream.worker = worker;
        rounding.split.stream.stage_and_hop = stage;
        return rounding;
    }
};

// Reads values that are rounded in fp32; `to` may be fp64, for sums that are not rounded.
template <class Rounding>
struct FloatLeaf {
    Rounding rounding;

    template <class Number, int Size>
    APSCOPE_HD void operator()(float (&values)[Size], Number (&to)[Size], std::uint32_t worker,
                               std::uint64_t element) const {
        rounding.with_stream(worker, stage_and_hop(Stage::wire, 0))(values, element);
        for (int j = 0; j < Size; ++j) {
            if constexpr (std::is_same_v<Number, float>) to[j] = values[j];
            else to[j] = widened(canonicalize_nan_and_zero(values[j], sign_bit<float>));
        }
    }
};

// Adds in fp32, then rounds.
template <class Rounding>
struct FloatSum {
    using Number = float;
    Rounding rounding;
    std::uint32_t zero_sign;  // the sign bit if the result's format has a -0, else 0

    // Moments are not computed.
    template <int Size, class Moments = NoMoments>
    APSCOPE_HD void add(float (&to)[Size], const float (&a)[Size], int sign, const float (&b)[Size],
                        std::uint32_t hop, std::uint64_t element, Moments&& = {}) const {
        for (int j = 0; j < Size; ++j) to[j] = sign < 0 ? a[j] - b[j] : a[j] + b[j];
        rounding.with_stream(0, stage_and_hop(Stage::reduce, hop))(to, element);
    }
    APSCOPE_HD double result(float sum) const {
        return widened(canonicalize_nan_and_zero(sum, zero_sign));
    }
};

struct RuleLeaf {
    bool input_cast;  // false: values are not rounded
    double scale;     // factor of the values before they are rounded
    Cast<double> wire;
    PhiloxKey key;

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], double (&to)[Size], std::uint32_t worker,
                               std::uint64_t element) const {
        for (int j = 0; j < Size; ++j) to[j] = rounded(widened(values[j]), worker, element + j);
    }
    APSCOPE_HD double rounded(double x, std::uint32_t worker, std::uint64_t element) const {
        if (!input_cast) return x;
        if (wire.rounding == RoundingMode::ties_to_even)
            return round_to_format<RoundingMode::ties_to_even, double>(x * scale, wire,
                                                                       std::uint64_t{0});
        const RandomStream stream{key, worker, stage_and_hop(Stage::wire, 0), wire.random_bits};
        const std::uint64_t random = is_stochastic(wire.rounding) ? stream.at(element) : 0;
        return round_by_mode<double>(x * scale, wire, random, stream, element);
    }
};

// Adds fp64 numbers and rounds the exact sums once, for any accumulator.
struct RuleSum {
    using Number = double;
    Cast<double> cast;
    PhiloxKey key;

    // Adds the moments of stochastic roundings to `moments`.
    template <int Size, class Moments = NoMoments>
    APSCOPE_HD void add(double (&to)[Size], const double (&a)[Size], int sign,
                        const double (&b)[Size], std::uint32_t hop, std::uint64_t element,
                        Moments&& moments = {}) const {
        const auto signed_b = [&](int j) { return static_cast<double>(sign) * b[j]; };
        if (cast.rounding == RoundingMode::ties_to_even) {
            for (int j = 0; j < Size; ++j)
                to[j] = add_rounded<RoundingMode::ties_to_even>(a[j], signed_b(j), cast, 0);
            return;
        }
        std::uint64_t words[Size] = {};
        if (is_stochastic(cast.rounding))
            draw_group({key, 0, stage_and_hop(Stage::reduce, hop), cast.random_bits}, element,
                       words);
        for (int j = 0; j < Size; ++j) {
            if (moments.wanted && is_stochastic(cast.rounding))
                moments.add(j, moments_by_rule(add_to_odd(a[j], signed_b(j)), cast));
            to[j] = add_by_mode(a[j], signed_b(j), cast, words[j]);
        }
    }
    APSCOPE_HD double result(double sum) const { return sum; }
};

// The same by quanta, if rounds_by_quanta(cast) and odd_suffices(cast) are true.
struct QuantaSum {
    using Number = double;
    Cast<double> cast;
    PhiloxKey key;

    template <int Size, class Moments = NoMoments>
    APSCOPE_HD void add(double (&to)[Size], const double (&a)[Size], int sign,
                        const double (&b)[Size], std::uint32_t hop, std::uint64_t element,
                        Moments&& moments = {}) const {
        std::uint64_t words[Size];
        draw_group({key, 0, stage_and_hop(Stage::reduce, hop), cast.random_bits}, element, words);
        for (int j = 0; j < Size; ++j) {
            const double odd = sum_to_odd(a[j], static_cast<double>(sign) * b[j], false);
            const SignedQuanta sum(odd, cast);
            if (moments.wanted) moments.add(j, sum.moments(cast));
            to[j] = sum.rounded(cast, words[j]);
        }
    }
};

// fp64 sums that are not rounded to a format.
struct PlainSum {
    using Number = double;

    template <int Size>
    APSCOPE_HD void add(double (&to)[Size], const double (&a)[Size], int, const double (&b)[Size],
                        std::uint32_t, std::uint64_t) const {
        for (int j = 0; j < Size; ++j) to[j] = a[j] + b[j];
    }
    APSCOPE_HD double result(double sum) const { return sum; }
};

}  // namespace apscope::detail
