// A thread rounds a group of elements in one of four ways, which give the same bits:
//
//      AdditionRounding   fp32, deterministic: one addition and one subtraction
//                         (emulation/cast/quantize_addition.h)
//      SplitRounding      fp32, every mode: emulation/cast/quantize_split.h and
//                         emulation/cast/stochastic_bits.h
//      QuantaRounding     fp64, stochastic: by_mode.h
//      RuleRounding       every format, mode and width: the rule itself
//
// The first three ways test the mode at most once per group. With stochastic rounding, elements
// that share a Philox block are in one group, and the index in the stream of the group's first
// element is a multiple of the group's size.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "core/rounding.h"
#include "emulation/cast/quantize_addition.h"
#include "emulation/cast/stochastic_bits.h"
#include "emulation/cuda/cast/by_mode.h"
#include "emulation/draws/random_words.h"

namespace apscope::detail {

struct AdditionRounding {
    using Number = float;
    AdditionCast<float> cast;

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], std::uint64_t) const {
        dispatch(cast.cast.rounding, [&]<RoundingMode M>() {
            if constexpr (!is_stochastic(M)) {
                for (float& value : values)
                    value = bits_cast<float>(rounded_by_addition<M, true>(value, cast));
            }
        });
    }
};

// Returns drawn_below_bits() for the random digits of an element. A rounding needs it with
// probability 2^-33 or less. It is inlined, because a kernel with a call needs more registers.
APSCOPE_HD bool further_digits_below(std::uint32_t magnitude, const SplitCast& cast,
                                     const RandomStream& stream, std::uint64_t element) {
    const RandomStream wide{stream.key, stream.worker, stream.stage_and_hop, 64};
    return drawn_below_bits(magnitude, cast, StreamWord{&wide, element});
}

struct SplitRounding {
    using Number = float;
    SplitCast cast;
    RandomStream stream;

    template <int Size>
    APSCOPE_HD void operator()(float (&values)[Size], std::uint64_t first) const {
        const RoundingMode mode = cast.cast.rounding;
        std::uint64_t words[Size] = {};
        if (is_stochastic(mode)) draw_group(stream, first, words);
        dispatch(mode, [&]<RoundingMode M>() {
            for (int j = 0; j < Size; ++j) {
                if constexpr (!is_stochastic(M)) {
                    values[j] = cast.first_normal != 0
                                    ? round_split<M, true, true>(values[j], cast)
                                    : round_split<M, false, true>(values[j], cast);
                } else {
                    const std::uint64_t added = added_bits<M>(words[j], cast.cast.random_bits);
                    values[j] =
                        draw_bits<M, true>(values[j], cast, added, [&](std::uint32_t magnitude) {
                            return further_digits_below(magnitude, cast, stream,
                                                        first + static_cast<std::uint64_t>(j));
                        });
                }
            }
        });
    }
};

struct QuantaRounding {
    using Number = double;
    Cast<double> cast;  // one for which rounds_by_quanta() is true
    RandomStream stream;

    template <int Size>
    APSCOPE_HD void operator()(double (&values)[Size], std::uint64_t first) const {
        std::uint64_t words[Size];
        draw_group(stream, first, words);
        for (int j = 0; j < Size; ++j)
            values[j] = SignedQuanta(values[j], cast).rounded(cast, words[j]);
    }
};

template <class Real>
struct RuleRounding {
    using Number = Real;
    Cast<Real> cast;
    RandomStream stream;

    template <int Size>
    APSCOPE_HD void operator()(Real (&values)[Size], std::uint64_t first) const {
        const RoundingMode mode = cast.rounding;
        std::uint64_t words[Size] = {};
        if (is_stochastic(mode) && mode != RoundingMode::stochastic_exact)
            draw_group(stream, first, words);
        for (int j = 0; j < Size; ++j) {
            values[j] = round_by_mode<Real>(values[j], cast, words[j], stream,
                                            first + static_cast<std::uint64_t>(j));
        }
    }
};

}  // namespace apscope::detail
