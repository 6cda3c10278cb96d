// The jobs that are timed on a GPU (timings.cpp) and whose instructions are counted without one
// (interpreter/counts.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace apscope::detail::gpu {

struct Job {
    std::string name;
    double numbers;  // read numbers, or a product's terms
    double bytes;    // that the job must read and write; 0 for a product of matrices
    std::function<void()> call;
};

// Jobs on n numbers, a multiple of 128, and on products of side x side matrices.
std::vector<Job> kernel_jobs(std::size_t n, std::size_t side);
// One scheme of a replay on n numbers of 8 workers together; the bytes are those of reading the
// numbers and writing the messages.
std::vector<Job> replay_jobs(std::size_t n);

}  // namespace apscope::detail::gpu
