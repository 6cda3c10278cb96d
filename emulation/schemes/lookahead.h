// Computes sums over the workers in advance, for choices of scales that depend on such sums: a
// dynamic loss scale skips a step if the reduced gradient overflows (shared/loss_scale.h); the best
// constant is the scale whose sums have the least error (shared/best_constant.h). The sums have the
// same bits as those of the later exchange, because messages, order of additions and random words
// are the same. Threads process pieces of a fixed size, so the results do not depend on the number
// of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/philox.h"
#include "emulation/allreduce/topology.h"
#include "emulation/schemes/choice.h"

namespace apscope::detail {

// The workers' gradients of a tensor at a step, and the key of the random words.
struct GradientRows {
    std::vector<std::span<const float>> rows;
    PhiloxKey key{};
    std::shared_ptr<const void> holder = nullptr;  // keeps the memory of `rows` alive
};

class SumsAhead final : public Lookahead {
public:
    using Read = std::function<GradientRows(std::size_t step, std::size_t tensor)>;

    SumsAhead(const Topology& topology, int threads, Read read)
        : topology_(topology), threads_(threads), read_(std::move(read)) {}

    const Topology& topology() const override { return topology_; }
    bool sums_are_finite(std::size_t step, std::span<const std::size_t> tensors,
                         const FloatEncoder& encoder, const Decision& decision) const override;
    std::vector<ErrorsAhead> errors(std::size_t step, std::span<const std::size_t> tensors,
                                    const FloatEncoder& encoder,
                                    std::span<const Decision> decisions) const override;

private:
    Topology topology_;
    int threads_;
    Read read_;
};

}  // namespace apscope::detail
