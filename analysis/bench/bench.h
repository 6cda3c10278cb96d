// The jobs of `apscope bench`: every kernel and its reference ("floor"), in one interleaved run.
//
// A visit to a job repeats the job until `visit_seconds` have passed, and records the mean time of
// one call. Every round visits all jobs once, so that a slower machine slows all of them. The
// functions return times; the caller computes medians and ratios.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace apscope::detail {

struct BenchJob {
    std::string name;   // the kernel, with its format
    std::string where;  // "L2", "DRAM" or "CPU"
    // The name of the reference job, which has the same `where` and `threads`; empty for a
    // reference.
    std::string floor;
    int threads = 1;
    double elements = 0;    // number of elements per call
    double bytes = 0;       // bytes read and written per element; 0 if the job counts operations
    double operations = 0;  // multiply-adds or additions per element
    std::function<void()> run;
};

struct BenchTimes {
    BenchJob job;
    std::vector<double> seconds;  // time of one call, one per round
};

struct BenchSizes {
    std::size_t l2_elements = std::size_t{1} << 16;    // fp32 numbers: 256 KiB in, 256 KiB out
    std::size_t dram_elements = std::size_t{1} << 25;  // 128 MiB in, 128 MiB out
    std::size_t matrix = 192;                          // rows, columns and terms
    int threads = 1;  // DRAM jobs run with 1 thread and with this many
};

// Makes the jobs whose name contains `only`, their reference jobs, and the arrays of both.
std::vector<BenchJob> bench_jobs(const BenchSizes& sizes, const std::string& only);

// Runs the jobs. progress(done, total) receives numbers of visits; an exception of `progress` ends
// the run.
std::vector<BenchTimes> run_bench(std::vector<BenchJob> jobs, int rounds, double visit_seconds,
                                  const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace apscope::detail
