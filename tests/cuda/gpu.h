// Shared by the GPU's tests: arrays on the device, work shared by all threads of the host, times
// measured by events.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "analysis/replay/row_device.h"
#include "emulation/cuda/machine/check.h"

namespace apscope::detail::gpu {

template <class T>
class Array {
public:
    explicit Array(std::size_t n) : size_(n) {
        void* p = nullptr;
        APSCOPE_CUDA(cudaMalloc(&p, (n + 1) * sizeof(T)));
        data_.reset(static_cast<T*>(p));
        APSCOPE_CUDA(cudaMemset(
            p, 0xA5, (n + 1) * sizeof(T)));  // elements that are not written become visible
    }
    explicit Array(const std::vector<T>& values) : Array(values.size()) {
        if (size_ != 0)
            APSCOPE_CUDA(
                cudaMemcpy(data_.get(), values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
    }
    T* get() const { return data_.get(); }
    std::vector<T> read() const {
        std::vector<T> values(size_);
        if (size_ != 0)
            APSCOPE_CUDA(
                cudaMemcpy(values.data(), data_.get(), size_ * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

private:
    struct Free {
        void operator()(T* p) const { cudaFree(p); }
    };
    std::unique_ptr<T, Free> data_;
    std::size_t size_;
};

// f(begin, end) over parts of 0 .. count - 1, on all of the machine's threads.
void in_parts(std::size_t count, const std::function<void(std::size_t, std::size_t)>& f);

// The median time of a call that puts work on the default stream, in seconds, after a warm-up.
double median_seconds(const std::function<void()>& call, int repeats = 21);

// --small: fewer numbers in every proof, for tools that slow a kernel down.
inline bool small = false;

// --seconds: after this many seconds, no further rounding mode of quantize is begun.
inline double quantize_seconds = 1e9;

// The results of the program, for --json.
struct Timing {
    std::string job;
    double milliseconds, of_floor;  // this time divided by the floor's
    std::string floor;              // "device copy", "fp32 multiply-adds", "" if there is none
    double rate;
    std::string unit;  // of the rate
};
struct CountedJob {
    std::string job;
    double bytes;  // a number, that the job must read and write
    double slots;  // issue slots a number
    std::vector<std::pair<std::string, double>> instructions;  // a number, by class
    double loaded, stored;                                     // bytes a number
};
struct Found {
    std::string device;
    std::uint64_t proofs = 0, values = 0, wrong_proofs = 0;
    std::string first_wrong;
    std::vector<Timing> timings;
    std::vector<CountedJob> counts;
};
inline Found found;
void count_proof(const std::string& what, std::uint64_t values, bool right);
void write_json(const std::string& path);

// Prints one line per proof; returns false and prints the first difference if the arrays' bits
// differ.
template <class T>
bool report(const std::string& what, const std::vector<T>& expected, const std::vector<T>& got) {
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (__builtin_memcmp(&expected[i], &got[i], sizeof(T)) == 0) continue;
        if (wrong++ == 0) first = i;
    }
    std::printf("%s: %zu values, %zu mismatches", what.c_str(), expected.size(), wrong);
    if (wrong != 0)
        std::printf(", the first at %zu: %.17g expected, %.17g found", first,
                    static_cast<double>(expected[first]), static_cast<double>(got[first]));
    std::puts("");
    std::fflush(stdout);
    count_proof(what, expected.size(), wrong == 0);
    return wrong == 0;
}

// The edges of every binade and random bits: 2^17 numbers, of which `small` takes every 61st.
// Random finite numbers of 2^-spread .. 2^spread.
std::vector<float> edge_numbers();
std::vector<float> random_numbers(std::size_t n, int spread, std::uint32_t seed);

// Schemes of many kinds, with their topologies, as replay hands them to a device.
std::vector<RowTask> replay_tasks();

// The parts of the program; each returns whether all was right.
bool prove_quantize(const std::vector<std::string>& formats);  // all 2^32 inputs
bool prove_codes();
bool prove_statistics();
bool prove_all_reduce();
bool prove_phases();
bool prove_blocks();
bool prove_matmul();
bool prove_replay();
void print_timings();
[[gnu::weak]] void print_counts();  // absent without the interpreter of PTX

// The fp32 multiply-adds per second of the device, measured with a plain kernel.
double multiply_adds_a_second();

}  // namespace apscope::detail::gpu
