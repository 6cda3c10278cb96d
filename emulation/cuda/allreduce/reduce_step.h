// All-reduce on a GPU: one thread takes a group of neighbouring elements through the whole
// reduction. It rounds the values of every worker, runs all hops of the topology (stack_program.h)
// and, if there is a scale, divides the sums by it. No intermediate result leaves the thread, and
// an instruction is read once for all elements of the group.
//
// In a ring, chunk c runs the program with every worker increased by c. A group that spans several
// chunks is reduced once for each of them:
//
//      elements   | chunk 0       | chunk 1         |
//      groups     |....|....|....|..:..|....|....|...
//                                 0  1                 stores of the reductions for chunks 0 and 1
#pragma once

#include <cstdint>

#include "emulation/arithmetic/kahan.h"
#include "emulation/cuda/allreduce/group_sum.h"
#include "emulation/cuda/allreduce/stack_program.h"
#include "emulation/cuda/cast/element_group.h"

namespace apscope::detail {

inline constexpr int register_depth = 4;  // sums of a stack in registers, enough for 16 workers
inline constexpr int kahan_depth = 2;     // in registers with compensations: hierarchies
inline constexpr int reduce_depth = 16;   // sums of a stack in local memory: 2^16 workers

// A stack in registers, whose entries move at every push and pop. The oldest entry is lost if there
// are more than Depth.
template <class Entry, int Depth, bool InRegisters = (Depth <= register_depth)>
struct SumStack {
    Entry at[Depth] = {};

    APSCOPE_HD void push(const Entry& entry) {
        for (int d = Depth - 1; d > 0; --d) at[d] = at[d - 1];
        at[0] = entry;
    }
    APSCOPE_HD Entry pop() {
        const Entry top = at[0];
        for (int d = 1; d < Depth; ++d) at[d - 1] = at[d];
        return top;
    }
};
// A stack in a thread's local memory, with space for the value below the first sum.
template <class Entry, int Depth>
struct SumStack<Entry, Depth, false> {
    Entry at[Depth + 1];
    int size = 0;

    APSCOPE_HD void push(const Entry& entry) { at[size++] = entry; }
    APSCOPE_HD Entry pop() { return at[--size]; }
};

struct ReduceTask {
    const float* in;  // `workers` rows of `elements` values
    std::uint64_t elements;
    std::uint64_t row_bytes;
    int workers;
    bool aligned;  // every row begins at a multiple of 16 bytes and has complete groups
    bool ring;
    std::uint64_t per_chunk;  // elements / workers
    std::uint32_t in_excess;  // elements % workers
    double* out;              // `elements` values
    double scale;             // divisor of the sum, the factor of the values; 1: none
    double inverse;           // factor of the sum; if 0, the sum is divided by `scale` instead
    double divisor;           // last divisor of the sum
    const StackInstruction* instructions;
    int count;

    // The first element of a ring's chunk, and the last chunk that begins at or before an element.
    APSCOPE_HD std::uint64_t chunk_begin(std::uint64_t chunk) const {
        return per_chunk * chunk + in_excess * chunk / static_cast<std::uint32_t>(workers);
    }
    APSCOPE_HD std::uint64_t chunk_of(std::uint64_t element) const {
        return ((element + 1) * static_cast<std::uint64_t>(workers) - 1) / elements;
    }
    // The worker whose value an instruction reads in a chunk.
    APSCOPE_HD std::uint32_t worker_in(const StackInstruction& i, std::uint32_t chunk) const {
        const auto w = static_cast<std::uint32_t>(workers);
        const std::uint32_t worker = static_cast<std::uint32_t>(i.worker) + chunk;
        return worker < w ? worker : worker - w;
    }
    // Multiplying and dividing could change a NaN's bits.
    APSCOPE_HD double decoded(double sum) const {
        if (sum != sum) return sum;
        if (scale != 1.0) sum = inverse != 0.0 ? sum * inverse : sum / scale;
        return divisor != 1.0 ? sum / divisor : sum;
    }
};

// Leaf reads values, Sum adds (group_sum.h); Depth is the number of sums on the stack.
template <class Leaf, class Sum, int Size, int Depth, bool Kahan>
struct ReduceStep {
    using Number = typename Sum::Number;
    using Sums = GroupSums<Number, Size, Kahan>;
    ReduceTask task;
    Leaf leaf;
    Sum sum;

    APSCOPE_HD std::uint64_t count() const {
        return ElementRange{task.elements, 0}.template groups<Size>();
    }

    APSCOPE_HD void operator()(std::uint64_t group) const {
        const std::uint64_t first = group * Size, left = task.elements - first,
                            last = first + (left < Size ? left : Size);
        std::uint64_t begin = first, chunk = task.ring ? task.chunk_of(first) : 0;
        while (begin < last) {
            std::uint64_t end = last;
            if (task.ring) {
                const std::uint64_t chunk_end = task.chunk_begin(chunk + 1);
                end = chunk_end < last ? chunk_end : last;
            }
            if (begin < end)
                store(first, begin, end, reduced(first, static_cast<std::uint32_t>(chunk)));
            begin = end;
            ++chunk;
        }
    }

private:
    APSCOPE_HD void load(std::uint32_t worker, std::uint64_t first, float (&values)[Size]) const {
        // A multiplication and addition gives the address.
        const auto* row = reinterpret_cast<const float*>(
            reinterpret_cast<const char*>(task.in + first) + worker * task.row_bytes);
        if (task.aligned) {
            const auto packed = load_packed<float, Size>(row);
            for (int j = 0; j < Size; ++j) values[j] = packed.at[j];
        } else {
            for (int j = 0; j < Size; ++j) values[j] = first + j < task.elements ? row[j] : 0.0f;
        }
    }

    APSCOPE_HD Sums reduced(std::uint64_t first, std::uint32_t chunk) const {
        Sums current{};
        SumStack<Sums, Depth> stack;
        StackInstruction next = task.instructions[0];
        float values[Size];
        load(task.worker_in(next, chunk), first, values);
        for (int k = 0; k < task.count; ++k) {
            const StackInstruction now = next;
            next = task.instructions[k + 1];
            float read[Size];
            for (int j = 0; j < Size; ++j) read[j] = values[j];
            // The next values arrive while the values before them are rounded and added.
            if (next.worker >= 0) load(task.worker_in(next, chunk), first, values);
            if (now.worker >= 0) {
                stack.push(current);
                current = Sums{};
                leaf(read, current.value, task.worker_in(now, chunk), first);
            }
            if (now.adds == 0) continue;
            Sums target = stack.pop(), source = current;
            // Without compensations, fp32 sums do not depend on the order of the operands.
            if ((Kahan || sizeof(Number) == sizeof(double)) && now.below == Below::source) {
                source = target;
                target = current;
            }
            if constexpr (!Kahan) {
                sum.add(current.value, target.value, 1, source.value, now.hop, first);
            } else {
                Number y[Size];
                if (now.starts != 0) {
                    for (Number& lost : target.lost) lost = 0;
                }
                kahan_add(source.value, target.value, target.lost, y, current.value,
                          [&](Number(&to)[Size], const Number(&a)[Size], int sign,
                              const Number(&b)[Size], std::uint32_t rounding) {
                              sum.add(to, a, sign, b, now.hop + rounding, first);
                          });
                for (int j = 0; j < Size; ++j) current.lost[j] = target.lost[j];
            }
        }
        return current;
    }

    // Stores the results of elements begin .. end - 1.
    APSCOPE_HD void store(std::uint64_t first, std::uint64_t begin, std::uint64_t end,
                          const Sums& sums) const {
        double results[Size];
        for (int j = 0; j < Size; ++j) results[j] = task.decoded(sum.result(sums.value[j]));
        if (end - begin == Size) {
            store_group(task.out, {task.elements, 0}, first, results);
        } else {
            for (int j = 0; j < Size; ++j) {
                if (first + j >= begin && first + j < end) task.out[first + j] = results[j];
            }
        }
    }
};

}  // namespace apscope::detail
