// The hops of a reduction (emulation/allreduce/topology.h) as instructions that a GPU thread of a
// replay runs element by element. (An all-reduce runs those of stack_program.h.) Every addition has
// the hop number, which selects the random stream, and the order of operands that it has in
// emulation/allreduce/reduce.h. So a sum has the same bits as there, in any order of the hops.
//
//      target = round(target + source)          operand:  w >= 0   worker w's value
//                                                         -1       the previous result
//                                                         -2 - s   the value in slot s
//
// A chain of hops stores no sum. A tree stores the sums of a level.
#pragma once

#include <cstdint>
#include <vector>

#include "core/philox.h"
#include "emulation/allreduce/topology.h"
#include "emulation/arithmetic/kahan.h"
#include "emulation/arithmetic/rounding_steps.h"
#include "emulation/cuda/allreduce/hop_rounding.h"

namespace apscope::detail {

inline constexpr std::int32_t operand_before = -1;
inline constexpr std::int32_t operand_slot(std::int32_t slot) { return -2 - slot; }

struct HopInstruction {
    std::int32_t target, source;  // operands
    std::int32_t keep;            // the slot in which the result is stored, or -1
    std::uint32_t hop;            // the number of the hop's first addition
    std::int32_t starts;          // 1 if the target's compensation starts at 0 (Kahan)
};

struct HopProgram {
    std::vector<HopInstruction> instructions;
    std::int32_t result = 0;  // the operand that is the sum
    int slots = 0;            // the number of slots that a thread needs
};

// Makes the instructions for a topology, in the order of its hops, because the moments of
// stochastic hops are fp64 sums over the hops, whose bits depend on the order. `gather` has the
// program of `sequential`. Host only. All chunks of a ring run the program of the chunk whose sums
// begin with worker 0; in chunk c, worker (w + c + 1) mod W takes the place of worker w.
HopProgram hop_program(const Topology& topology, int workers);

// Computes the chunk of a ring that has an element: at() must be called with ascending elements,
// not below `first`.
struct RingPlace {
    std::uint64_t elements, workers, chunk, end;

    APSCOPE_HD RingPlace(std::uint64_t n, int w, std::uint64_t first)
        : elements(n), workers(static_cast<std::uint64_t>(w)), chunk(first / (n / workers + 1)),
          end(begin_of(chunk + 1)) {}
    APSCOPE_HD std::uint64_t begin_of(std::uint64_t c) const {
        return elements / workers * c + elements % workers * c / workers;
    }
    APSCOPE_HD std::uint64_t at(std::uint64_t element) {
        while (element >= end) end = begin_of(++chunk + 1);
        return chunk;
    }
};

// A stored value: a partial sum and Kahan's compensation of it.
template <class Number>
struct HopValue {
    Number value, compensation;
};
using HopSlot = HopValue<double>;

// The bias and the variance that the stochastic roundings of the hops add to a sum.
struct HopSumMoments {
    double bias = 0.0, variance = 0.0;
    bool defined = true;
};

// Adds fp64 numbers and rounds the exact sum once by the rounding rule, for any accumulator.
struct RuleAdder {
    using Number = double;
    Cast<double> cast;
    PhiloxKey key;

    APSCOPE_HD double add(double a, double b, std::uint32_t number, std::uint64_t element,
                          HopSumMoments* moments) const {
        if (cast.rounding == RoundingMode::ties_to_even)
            return add_rounded<RoundingMode::ties_to_even>(a, b, cast, 0);
        if (moments != nullptr && is_stochastic(cast.rounding)) {
            const RoundingMoments m = moments_by_mode(add_to_odd(a, b), cast);
            moments->bias += m.bias;
            moments->variance += m.variance;
            moments->defined = moments->defined && m.defined;
        }
        const RandomStream stream{key, 0, stage_and_hop(Stage::reduce, number), cast.random_bits};
        return add_by_mode(a, b, cast, is_stochastic(cast.rounding) ? stream.at(element) : 0);
    }
};

// Adds fp32 numbers and rounds by a step (rounding_steps.h), in the cases of
// emulation/allreduce/fp32_sums.h. canonicalize_nan_and_zero() is not called, because no statistic
// depends on the sign of a zero or the bits of a NaN.
struct StepAdder {
    using Number = float;
    StepCast<float> step;  // Step::none: the addition is the only rounding

    APSCOPE_HD float add(float a, float b, std::uint32_t, std::uint64_t, HopSumMoments*) const {
        const float sum = a + b;
        if (step.step == Step::addition) return round_step<Step::addition>(sum, step);
        return step.step == Step::bits ? round_step<Step::bits>(sum, step) : sum;
    }
};

// Runs the hops for one element and returns the sum.
template <class Adder>
struct HopRunner {
    using Number = typename Adder::Number;
    Adder adder;
    bool kahan;
    const HopInstruction* instructions;
    int count;
    std::int32_t result;

    // leaf(w) returns the value of worker w. `slots` points to this thread's slots, which are
    // `pitch` apart.
    template <class Leaf>
    APSCOPE_HD Number operator()(std::uint64_t element, const Leaf& leaf, HopSlot* slots,
                                 std::uint64_t pitch, HopSumMoments* moments) const {
        using Value = HopValue<Number>;
        Value before{0, 0};
        const auto read = [&](std::int32_t operand) -> Value {
            if (operand >= 0) return {leaf(operand), 0};
            if (operand == operand_before) return before;
            const HopSlot slot = slots[static_cast<std::uint64_t>(-2 - operand) * pitch];
            return {static_cast<Number>(slot.value), static_cast<Number>(slot.compensation)};
        };
        for (int k = 0; k < count; ++k) {
            const HopInstruction instruction = instructions[k];
            const Value target = read(instruction.target);
            const Number source = read(instruction.source).value;
            const std::uint32_t hop = instruction.hop;
            if (!kahan) {
                before = {adder.add(target.value, source, hop, element, moments), 0};
            } else {
                Number lost = instruction.starts ? 0 : target.compensation, y = 0, next = 0;
                kahan_add(source, target.value, lost, y, next,
                          [&](Number& out, Number a, int sign, Number b, std::uint32_t rounding) {
                              out = adder.add(a, static_cast<Number>(sign) * b, hop + rounding,
                                              element, moments);
                          });
                before = {next, lost};
            }
            if (instruction.keep >= 0)
                slots[static_cast<std::uint64_t>(instruction.keep) * pitch] = {before.value,
                                                                               before.compensation};
        }
        return read(result).value;
    }
};

}  // namespace apscope::detail
