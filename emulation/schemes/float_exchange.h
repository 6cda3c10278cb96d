// FloatExchange: the fast path of a float encoder, for one tensor at one step with the chosen
// scale, block by block: the workers' messages, and their sums by any topology. Where fp32
// represents what is sent in the gradients' own units, all of it is fp32 arithmetic. For schemes
// that consist of nothing else (SchemeParts::streams).
//
//      encode(w, ...)      of every worker, in blocks that begin at multiples of sum_block
//      reduce(...)         once a topology
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "emulation/allreduce/reduce.h"
#include "emulation/cast/scaled_format.h"
#include "emulation/machine/buffers.h"
#include "emulation/schemes/choice.h"
#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

// The buffers of a block. All exchanges of a thread share them, one after another: nothing in them
// outlives a block.
struct FloatBuffers {
    explicit FloatBuffers(int workers)
        : narrow(static_cast<std::size_t>(workers)), codes(narrow.size()), decoded(narrow.size()),
          undivided(narrow.size()) {}

    std::vector<Buffer<float>> narrow;  // one row per worker
    std::vector<Buffer<double>> codes, decoded;  // one row per worker
    std::vector<Buffer<double>> undivided;  // codes before a division; one row per worker
    Buffer<float> narrow_sum;
    std::vector<const float*> narrow_rows;
    ReduceScratch<float> narrow_scratch;
    ReduceScratch<double> scratch;
};

class FloatExchange {
public:
    // adds_hops: a topology of reduce() will round partial sums to a format. The arguments must
    // outlive it.
    FloatExchange(const FloatEncoder& encoder, const Decision& decision, int workers,
                  bool adds_hops, FloatBuffers& buffers);

    // The message of worker w for elements first .. first + in.size() - 1: narrow[w] if
    // is_narrow(), codes[w] and decoded[w] if is_wide(). Elements that are not finite are rounded
    // as any other.
    void encode(std::size_t w, std::span<const float> in, std::size_t first, PhiloxKey key);
    // The sum of the encoded values of these elements, divided. exact: decoded values are added in
    // fp64, whatever the topology. `elements` are the tensor's.
    void reduce(const Topology& topology, bool exact, std::size_t first, std::size_t elements,
                PhiloxKey key, double divisor, std::span<double> y, HopMoments* moments = nullptr);

    bool is_narrow() const { return job_.has_value(); }
    bool is_wide() const { return wide_; }
    const Divisors& divisors() const { return divisors_; }
    // Worker w's numbers as they were rounded, before a division; if is_wide().
    const Buffer<double>& rounded(std::size_t w) const {
        return divisors_.before != 1.0 ? buffers_.undivided[w] : buffers_.codes[w];
    }
    // The format of decoded values, if is_narrow().
    const std::optional<FloatFormat>& grid() const { return grid_; }
    // Of the topologies that round every sum to the accumulator.
    const std::optional<Fp32Sums>& sums() const { return sums_; }
    const Cast<double>& wire() const { return wire_.cast(); }
    const Cast<double>& accumulator() const { return accumulator_.cast(); }
    double decode(double code) const {
        return decision_.exponent ? code * inverse_ : code / decision_.scale;
    }
    void decode(std::span<double> codes) const;  // in place

private:
    // Of any topology; null if it has none.
    Fp32Sums* sums_of(const Topology& topology);

    const FloatEncoder& encoder_;
    Decision decision_;
    int workers_;
    Divisors divisors_;
    double inverse_ = 1.0;
    RowCast wire_, accumulator_;
    std::optional<FloatFormat> grid_;
    std::optional<QuantizeJob<float>> job_;  // the cast that scales by itself
    std::optional<Fp32Sums> sums_;
    std::vector<std::pair<Topology, std::optional<Fp32Sums>>> others_;
    bool wide_ = true;
    FloatBuffers& buffers_;
};

}  // namespace apscope::detail
