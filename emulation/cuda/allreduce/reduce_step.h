// All-reduce on a GPU: one thread takes one element through the encoding of every worker's value, all
// hops of the topology and, if asked for, the decoding; nothing in between touches memory.
//
// A program of hops (emulation/allreduce/topology.h) is a list of `row[target] += row[source]`. Here it is the same
// tree of additions as a program for a stack machine, so that a thread keeps a few values and not all
// workers':
//
//      push w         the top goes onto the stack; the top is worker w's value
//      add w          top = top + worker w's value          (or that value + top: see `top_is_target`)
//      join           top = stacked value + top, or the other way round
//
// Of the two operands of an addition the one that needs more stack is computed first, so that W workers
// take at most floor(log2 W) stacked values. Every addition keeps its hop's number, which is its place
// among the random streams, and its operands their order: the bits are those of emulation/reduce.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/philox.h"
#include "emulation/cuda/allreduce/hop_rounding.h"
#include "emulation/cuda/cast/nan_bits.h"

namespace apscope::detail {

struct StackInstruction {
    enum class Kind : std::int32_t { push, add, join };
    Kind kind;
    std::int32_t worker;         // of push and add
    std::uint32_t hop;           // the number of its first addition
    std::int32_t top_is_target;  // add, join: the sum goes on where the top was
    std::int32_t starts;         // Kahan: the target's compensation is 0 from here
};

inline constexpr int reduce_stack = 16;  // 2^16 workers

// A partial sum and Kahan's compensation.
struct PartialSum {
    double value, compensation;
};

struct ReduceStep {
    const float* in;            // `workers` rows of `elements` values
    std::uint64_t elements;
    int workers;
    std::uint64_t first, last;  // the elements of one chunk: first .. last - 1
    double* out;                // of `elements` values
    bool input_cast;
    double scale;               // values are multiplied by it before they are rounded
    double inverse;             // the sum is multiplied by it; 0: divided by the scale
    double divisor;             // and then divided by this
    Cast<double> wire, hop;
    RoundingMode wire_mode, hop_mode;
    PhiloxKey key;
    const StackInstruction* program;
    int instructions;           // 0: the fp64 sum in the workers' order
    bool kahan;

    APSCOPE_HD std::uint64_t count() const { return last - first; }

    APSCOPE_HD double leaf(int worker, std::uint64_t i) const {
        const double x = widened(in[static_cast<std::uint64_t>(worker) * elements + i]);
        if (!input_cast) return x;
        const RandomStream stream{key, static_cast<std::uint32_t>(worker), stage_and_hop(Stage::wire, 0), wire.random_bits};
        if (wire_mode == RoundingMode::ties_to_even) return round_to_format<RoundingMode::ties_to_even, double>(x * scale, wire, std::uint64_t{0});
        const std::uint64_t random = is_stochastic(wire_mode) ? stream.at(i) : 0;
        return round_by_mode<double>(x * scale, wire, wire_mode, random, stream, i);
    }

    // round(a + b)
    APSCOPE_HD double add(double a, double b, std::uint32_t number, std::uint64_t i) const {
        const RandomStream stream{key, 0, stage_and_hop(Stage::reduce, number), hop.random_bits};
        if (hop_mode == RoundingMode::ties_to_even) return add_rounded<RoundingMode::ties_to_even>(a, b, hop, 0);
        const std::uint64_t random = is_stochastic(hop_mode) ? stream.at(i) : 0;
        return add_by_mode(a, b, hop, hop_mode, random);
    }

    APSCOPE_HD PartialSum combine(PartialSum target, double source, const StackInstruction& instruction, std::uint64_t i) const {
        if (!kahan) return {add(target.value, source, instruction.hop, i), 0.0};
        const double compensation = instruction.starts ? 0.0 : target.compensation;
        const double y = add(source, -1.0 * compensation, instruction.hop, i);
        const double t = add(target.value, 1.0 * y, instruction.hop + 1, i);
        const double low = add(t, -1.0 * target.value, instruction.hop + 2, i);
        return {t, add(low, -1.0 * y, instruction.hop + 3, i)};
    }

    APSCOPE_HD void operator()(std::uint64_t item) const {
        const std::uint64_t i = first + item;
        double sum;
        if (instructions == 0) {
            sum = leaf(0, i);
            for (int w = 1; w < workers; ++w) sum += leaf(w, i);
        } else {
            PartialSum top{0.0, 0.0}, stack[reduce_stack];
            int depth = -1;  // the first push stacks nothing
            for (int k = 0; k < instructions; ++k) {
                const StackInstruction instruction = program[k];
                if (instruction.kind == StackInstruction::Kind::push) {
                    if (depth >= 0) stack[depth] = top;
                    ++depth;
                    top = {leaf(instruction.worker, i), 0.0};
                    continue;
                }
                const PartialSum other = instruction.kind == StackInstruction::Kind::add ? PartialSum{leaf(instruction.worker, i), 0.0}
                                                                                         : stack[--depth];
                top = instruction.top_is_target ? combine(top, other.value, instruction, i) : combine(other, top.value, instruction, i);
            }
            sum = top.value;
        }
        if (scale != 1.0) sum = inverse != 0.0 ? sum * inverse : sum / scale;
        out[i] = divisor != 1.0 ? sum / divisor : sum;
    }
};

}  // namespace apscope::detail
