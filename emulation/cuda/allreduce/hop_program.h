// The hops of a reduction (emulation/allreduce/topology.h) as instructions that a GPU thread of a
// replay runs for a group of neighbouring elements. (An all-reduce runs those of stack_program.h.)
// Every addition has the hop number, which selects the random stream, and the order of operands
// that it has in emulation/allreduce/reduce.h. So a sum has the same bits as there, in any order of
// the hops.
//
//      target = round(target + source)          operand:  w >= 0   worker w's value
//                                                         -1       the previous result
//                                                         -2 - s   the value in slot s
//
// A chain of hops stores no sum. A tree stores the sums of a level.
#pragma once

#include <cstdint>
#include <vector>

#include "emulation/allreduce/topology.h"
#include "emulation/arithmetic/kahan.h"
#include "emulation/cuda/allreduce/group_sum.h"

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

// Makes the instructions for a topology. `in_order`: in the order of its hops, because the moments
// of stochastic hops are fp64 sums over the hops, whose bits depend on the order; else depth first,
// which stores at most log2 W sums of a tree. `gather` has the program of `sequential`. Host only.
// All chunks of a ring run the program of the chunk whose sums begin with worker 0; in chunk c,
// worker (w + c + 1) mod W takes the place of worker w.
HopProgram hop_program(const Topology& topology, int workers, bool in_order);

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

// Runs the hops for Size neighbouring elements, the first of which has the index `element`. Sum:
// one of group_sum.h.
template <class Sum, int Size, bool Kahan>
struct HopRunner {
    using Number = typename Sum::Number;
    using Sums = GroupSums<Number, Size, Kahan>;
    // The numbers of a slot: the group's sums, and with Kahan's sums their compensations.
    static constexpr int numbers = Kahan ? 2 * Size : Size;

    Sum sum;
    const HopInstruction* instructions;
    int count;
    std::int32_t result;

    // leaf(w, values) reads the values of worker w. `slots` points to this thread's numbers, which
    // are `pitch` apart. `moments` receives those of stochastic hops.
    template <class Leaf>
    APSCOPE_HD Sums operator()(std::uint64_t element, const Leaf& leaf, double* slots,
                               std::uint64_t pitch, GroupMoments<Size>& moments) const {
        Sums before{};
        const auto read = [&](std::int32_t operand) -> Sums {
            if (operand == operand_before) return before;
            Sums sums{};
            if (operand >= 0) {
                leaf(operand, sums.value);
                return sums;
            }
            const double* const slot =
                slots + static_cast<std::uint64_t>(-2 - operand) * numbers * pitch;
            for (int j = 0; j < Size; ++j) sums.value[j] = static_cast<Number>(slot[j * pitch]);
            if constexpr (Kahan) {
                for (int j = 0; j < Size; ++j)
                    sums.lost[j] = static_cast<Number>(slot[(Size + j) * pitch]);
            }
            return sums;
        };
        for (int k = 0; k < count; ++k) {
            const HopInstruction instruction = instructions[k];
            Sums target = read(instruction.target);
            const Sums source = read(instruction.source);
            if constexpr (!Kahan) {
                sum.add(before.value, target.value, 1, source.value, instruction.hop, element,
                        moments);
            } else {
                Number y[Size];
                if (instruction.starts != 0) {
                    for (Number& lost : target.lost) lost = 0;
                }
                kahan_add(source.value, target.value, target.lost, y, before.value,
                          [&](Number(&to)[Size], const Number(&a)[Size], int sign,
                              const Number(&b)[Size], std::uint32_t rounding) {
                              sum.add(to, a, sign, b, instruction.hop + rounding, element, moments);
                          });
                for (int j = 0; j < Size; ++j) before.lost[j] = target.lost[j];
            }
            if (instruction.keep < 0) continue;
            double* const slot =
                slots + static_cast<std::uint64_t>(instruction.keep) * numbers * pitch;
            for (int j = 0; j < Size; ++j) slot[j * pitch] = before.value[j];
            if constexpr (Kahan) {
                for (int j = 0; j < Size; ++j) slot[(Size + j) * pitch] = before.lost[j];
            }
        }
        return read(result);
    }
};

}  // namespace apscope::detail
