// FloatWire encodes rows of fp32 numbers on a float grid under one scale, block by block, in fp32
// arithmetic if fp32 represents the decoded values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emulation/allreduce/reduce.h"
#include "emulation/cast/scaled_format.h"
#include "emulation/machine/buffers.h"
#include "emulation/schemes/choice.h"
#include "emulation/schemes/float_encoder.h"

namespace apscope::detail {

// The buffers of a block. All exchanges of a thread use the same buffers, one after another,
// because the contents are needed only while a block is processed.
struct FloatBuffers {
    explicit FloatBuffers(int workers)
        : narrow(static_cast<std::size_t>(workers)), codes(narrow.size()), decoded(narrow.size()),
          undivided(narrow.size()) {}

    std::vector<Buffer<float>> narrow;  // decoded values in fp32; one row per worker
    // Codes and decoded values in fp64; one row per worker.
    std::vector<Buffer<double>> codes, decoded;
    std::vector<Buffer<double>> undivided;  // codes before they are divided; one row per worker
    Buffer<float> narrow_sum;
    std::vector<const float*> narrow_rows;
    ReduceScratch<float> narrow_scratch;
    ReduceScratch<double> scratch;
};

// The worker whose random words are used, and the index of its row in the buffers.
struct FloatSource {
    std::uint32_t worker;
    std::size_t row;
};

class FloatWire {
public:
    FloatWire(const FloatGrid& grid, const Decision& decision, int workers);

    // Encodes elements first .. first + in.size() - 1: into narrow[row] if is_narrow(); into
    // codes[row] and decoded[row] if not, or if `wide`. Numbers that are not finite are rounded
    // like all others.
    void encode(const FloatSource& source, std::span<const float> in, std::size_t first,
                PhiloxKey key, bool wide, FloatBuffers& buffers);

    bool is_narrow() const { return job_.has_value(); }
    // The format of decoded values, if is_narrow().
    const std::optional<FloatFormat>& grid() const { return grid_; }
    const Divisors& divisors() const { return divisors_; }
    const Cast<double>& cast() const { return cast_.cast(); }
    double scale() const { return decision_.scale; }
    // 1 / scale() if it is a power of two, else 0.
    double inverse() const { return decision_.exponent ? inverse_ : 0.0; }
    // The codes of a row before they are divided, if encode() wrote codes.
    const Buffer<double>& rounded(const FloatBuffers& buffers, std::size_t row) const {
        return divisors_.before != 1.0 ? buffers.undivided[row] : buffers.codes[row];
    }
    double decode(double code) const {
        return decision_.exponent ? code * inverse_ : code / decision_.scale;
    }
    void decode(std::span<double> codes) const;  // in place

private:
    Decision decision_;
    Divisors divisors_;
    double inverse_ = 1.0;
    RowCast cast_;
    std::optional<FloatFormat> grid_;
    std::optional<QuantizeJob<float>> job_;  // an fp32 cast that includes the scale
};

}  // namespace apscope::detail
