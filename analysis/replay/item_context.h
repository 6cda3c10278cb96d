// One item of a replay, a (step, tensor) pair: the data from which the result rows of every scheme
// are computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/philox.h"
#include "emulation/allreduce/batch_noise.h"
#include "emulation/allreduce/topology.h"
#include "emulation/machine/buffers.h"
#include "emulation/machine/row_kernels.h"

namespace apscope::detail {

class ReductionWindows;

struct ItemContext {
    std::string_view tensor;
    std::int64_t step_number = 0;
    bool divide = false;  // results and the reference are divided by the number of workers
    bool reduces = true;  // false if the trace has reduced gradients, which have only wire rows
    std::uint64_t seed = 0;
    // K >= 3: moments without a closed form are estimated from K draws.
    int draws = 1;
    std::span<const Topology> topologies;               // the requested topologies, without exact
    std::span<const std::span<const float>> gradients;  // one row per worker, as recorded
    // True if only the last topology's row and the wire row are computed; the wire row then has the
    // topology's name, too.
    bool last_alone = false;
    double stands_for = 1.0;  // elements of the complete tensor per element of a sample
    // The noise of these gradients; null if the rows have no columns about noise.
    const BatchNoise* noise = nullptr;
    ReductionWindows* windows = nullptr;  // receives the errors for windows of steps, or null

    int workers() const { return static_cast<int>(gradients.size()); }
    std::size_t elements() const { return gradients[0].size(); }
    double divisor() const { return divide ? workers() : 1.0; }
    PhiloxKey key(std::size_t draw) const {
        return replay_key(seed, tensor, step_number, static_cast<std::uint32_t>(draw));
    }
    std::span<const float> block(std::size_t worker, std::size_t first, std::size_t count) const {
        return gradients[worker].subspan(first, count);
    }
    // The noise of elements first .. first + count - 1, where `first` begins a block; empty if
    // `noise` is null.
    std::span<const double> noise_of(std::size_t first, std::size_t count) const {
        return detail::noise_of(noise, first, count);
    }
    // reference = R of these elements: the fp64 sum of the workers' gradients in rank order,
    // divided.
    void add_up(std::size_t first, std::size_t count, Buffer<double>& reference) const {
        reference.assign(count, -0.0);  // -0 + x is x
        for (const std::span<const float> row : gradients)
            simd::run<AddWidened>(reference.data(), row.data() + first, count);
        if (divide) simd::run<DivideRow>(reference.data(), divisor(), count);
    }
};

}  // namespace apscope::detail
