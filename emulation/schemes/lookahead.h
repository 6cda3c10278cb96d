// A look ahead at the sums over the workers, for choices that depend on them: a dynamic loss scale
// skips the step in which the reduced gradient overflows (shared/loss_scale.h), the best constant
// is the one whose sums err least (shared/best_constant.h). The sums are those that the exchange
// will make: the same messages, order of additions and random words. Threads take pieces of the
// tensors, whose sizes are fixed, so the number of threads changes nothing.
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

// The workers' gradients of a tensor at a step, and the key of its draws.
struct GradientRows {
    std::vector<std::span<const float>> rows;
    PhiloxKey key{};
    std::shared_ptr<const void> holder = nullptr;  // keeps rows of mapped files alive
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
