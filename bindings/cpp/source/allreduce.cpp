#include "bindings/cpp/apscope/allreduce.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bindings/cpp/source/edge.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/float_format.h"
#include "core/projection.h"
#include "core/sizes.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/allreduce/topology.h"

namespace apscope {
namespace {

void check_workers(std::size_t workers) {
    if (workers == 0) throw error("there is no worker; give at least one array");
}

detail::AllReduceOptions checked(const FloatFormat& format, const AllreduceOptions& options) {
    validate(format);
    validate(options.projection, format);
    require_fp32(format, "allreduce");
    if (options.accumulate) {
        validate(*options.accumulate);
        require_fp32(*options.accumulate, "allreduce");
    }
    return {detail::parse_topology(options.topology),
            options.projection,
            options.accumulate,
            options.hop_rounding,
            options.input_cast,
            options.seed,
            options.threads};
}

}  // namespace

void allreduce(std::span<const float> in, std::size_t workers, std::span<double> out,
               const FloatFormat& format, const AllreduceOptions& options) try {
    const detail::FloatEnvironment environment;
    check_workers(workers);
    const std::size_t all = detail::checked_size({workers, out.size()}, "the array of all workers");
    if (in.size() != all) {
        throw error(std::to_string(workers) + " workers' arrays of " + std::to_string(out.size()) +
                    " numbers have " + std::to_string(all) + " in all, not " +
                    std::to_string(in.size()));
    }
    detail::all_reduce(in, workers, out, format, checked(format, options));
} catch (...) {
    detail::throw_error();
}

std::vector<double> detail::allreduce_rows(std::span<const std::span<const float>> rows,
                                           const FloatFormat& format,
                                           const AllreduceOptions& options) try {
    const FloatEnvironment environment;
    check_workers(rows.size());
    const std::size_t length = rows.front().size();
    for (std::size_t w = 0; w < rows.size(); ++w) {
        if (rows[w].size() != length) {
            throw error("worker " + std::to_string(w) + " has " + std::to_string(rows[w].size()) +
                        " numbers, worker 0 has " + std::to_string(length) + "; they must agree");
        }
    }
    std::vector<double> result(length);
    all_reduce(rows, result, format, checked(format, options));
    return result;
} catch (...) {
    throw_error();
}

}  // namespace apscope
