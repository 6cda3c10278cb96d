// What the kernels need, counted by the interpreter of PTX: instructions a number, weighted by the
// time in which a scheduler of an H100 issues them, and bytes of memory a number.
#include "tests/cuda/interpreter/counts.h"

#include <cstdio>

#include "tests/cuda/gpu.h"
#include "tests/cuda/jobs.h"

namespace apscope::detail::gpu {

namespace {

using interpreter::Class;
using interpreter::Counts;

constexpr int classes = static_cast<int>(Class::size);

// Issue slots of a warp's instruction, one for an fp32 addition, of which a processor does 128 a
// clock: half as many multiplications of integers and fp64 operations, 16 conversions, 32 shuffles
// and accesses; a 64-bit addition is two of 32 bits, a division a function of some twenty
// instructions. These are assumptions, which the measured times in docs/performance.md check.
constexpr double slots[classes] = {1, 2, 2, 1, 2, 8, 40, 4, 4, 4, 4, 1, 0};

}  // namespace

void print_counts() {
    constexpr std::size_t n = std::size_t{1} << 17, side = 128;
    std::printf("%-46s %7s %6s %6s %6s %6s %6s %7s %7s\n", "a number's", "slots", "int", "fp32",
                "fp64", "conv", "local", "loaded", "stored");
    std::vector<Job> jobs = kernel_jobs(n, side);
    for (Job& job : replay_jobs(n)) jobs.push_back(std::move(job));
    for (const Job& job : jobs) {
        interpreter::take_counts();
        job.call();
        Counts all;
        for (const auto& [kernel, counts] : interpreter::take_counts()) all.add(counts);
        const double lanes = 32.0 / job.numbers;
        const auto of = [&](Class c) {
            return static_cast<double>(all.instructions[static_cast<int>(c)]) * lanes;
        };
        CountedJob counted{job.name, job.bytes / job.numbers, 0, {}, 0, 0};
        for (int c = 0; c < classes; ++c) {
            counted.instructions.emplace_back(name_of(static_cast<Class>(c)),
                                              of(static_cast<Class>(c)));
            counted.slots += slots[c] * of(static_cast<Class>(c));
        }
        counted.loaded = static_cast<double>(all.loaded_sectors) * 32 / job.numbers;
        counted.stored = static_cast<double>(all.stored_sectors) * 32 / job.numbers;
        std::printf("%-46s %7.1f %6.1f %6.1f %6.1f %6.1f %6.1f %7.2f %7.2f\n", job.name.c_str(),
                    counted.slots,
                    of(Class::integer32) + of(Class::integer64) + of(Class::multiply),
                    of(Class::fp32), of(Class::fp64), of(Class::conversion), of(Class::local),
                    counted.loaded, counted.stored);
        std::fflush(stdout);
        found.counts.push_back(counted);
    }
}

}  // namespace apscope::detail::gpu
