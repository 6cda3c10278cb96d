// FloatExchange is the fast path of a float encoder for one tensor at one step, whose scale is
// already chosen. It computes the workers' messages block by block, and their sums by any topology,
// in fp32 arithmetic if fp32 represents the decoded messages. Only schemes that consist of a choice
// of scales and a float encoder use it (SchemeParts::streams).
//
//      encode(w, ...)      for every worker, in blocks that begin at multiples of sum_block
//      reduce(...)         once per topology
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "emulation/schemes/float_wire.h"

namespace apscope::detail {

class FloatExchange {
public:
    // adds_hops: a topology of reduce() will round partial sums to a format. The arguments must
    // outlive the object.
    FloatExchange(const FloatEncoder& encoder, const Decision& decision, int workers,
                  bool adds_hops, FloatBuffers& buffers);

    // The message of worker w for elements first .. first + in.size() - 1.
    void encode(std::size_t w, std::span<const float> in, std::size_t first, PhiloxKey key);
    // Writes to y the sums over the workers of elements first .. first + y.size() - 1, divided by
    // `divisor`. exact: decoded values are added in fp64, whatever the topology. `elements` is the
    // number of the tensor's elements.
    void reduce(const Topology& topology, bool exact, std::size_t first, std::size_t elements,
                PhiloxKey key, double divisor, std::span<double> y, HopMoments* moments = nullptr);

    const FloatWire& wire() const { return wire_; }
    FloatWire& wire() { return wire_; }
    // True if encode() writes codes and decoded values in fp64.
    bool is_wide() const { return wide_; }
    // The fp32 arithmetic for topologies that round every partial sum to the accumulator; not set
    // if fp32 cannot represent their partial sums.
    const std::optional<Fp32Sums>& sums() const { return sums_; }
    const Cast<double>& accumulator() const { return accumulator_.cast(); }

private:
    // The fp32 arithmetic for this topology; null if fp32 cannot represent its partial sums.
    Fp32Sums* sums_of(const Topology& topology);

    const FloatEncoder& encoder_;
    Decision decision_;
    int workers_;
    FloatWire wire_;
    RowCast accumulator_;
    std::optional<Fp32Sums> sums_;
    // The fp32 arithmetic of other topologies, for sums_of().
    std::vector<std::pair<Topology, std::optional<Fp32Sums>>> others_;
    bool wide_ = true;
    FloatBuffers& buffers_;
};

}  // namespace apscope::detail
