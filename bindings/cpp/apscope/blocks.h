// BlockQuantizer: formats whose elements share a scale (MX, NVFP4, block floating point), applied
// to arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "export.h"
#include "formats.h"

namespace apscope {

/// @addtogroup blocks Block formats
/// @{

/// An array encoded in a block format.
struct BlockCodes {
    std::vector<std::uint8_t> codes;  ///< one per element, in the array's order
    /// One per block, in the array's shape with the number of blocks in place of the axis's length.
    std::vector<std::uint8_t> scales;
    float tensor_scale = 1.0f;  ///< scale of the complete array; 1 for formats without one
};

/// Rounds to nearest, ties to even; values that are too large become the largest value.
inline constexpr Projection saturating = {RoundingMode::ties_to_even, Overflow::saturate};

/// Rounds arrays to a block format. A block is a run of elements along one axis; the last block of
/// a line may be shorter. Results equal those of `apscope.quantize_blocks` in Python, bit for bit;
/// docs/definitions.md, section 11, has the formulas.
class APSCOPE_API BlockQuantizer {
public:
    /// @param format      The block format to round to.
    /// @param projection  The projection of the elements; by default overflow saturates.
    /// @param seed        The seed of stochastic rounding; element i (C order) uses word i.
    /// @param threads     0 uses all processors of the process. The number of threads changes no
    ///                    bit of a result.
    /// @throws std::invalid_argument  The fields of the format contradict each other, or it does
    ///                                not support the projection.
    explicit BlockQuantizer(const BlockFormat& format, const Projection& projection = saturating,
                            std::uint64_t seed = 0, int threads = 1);

    [[nodiscard]] const BlockFormat& format() const { return format_; }
    [[nodiscard]] const Projection& projection() const { return projection_; }

    /// Rounds an array.
    /// @param in     An array of `shape` in C order.
    /// @param out    An array of the same shape: `in` itself, or one that does not overlap it.
    /// @param shape  Empty: one line of all elements.
    /// @param axis   The axis of the blocks; negative ones count from the last.
    /// @throws std::invalid_argument  Lengths or the axis do not fit the shape; `out` overlaps `in`
    ///                                in part; doubles for a format whose scale is a ratio.
    void operator()(std::span<const float> in, std::span<float> out,
                    std::span<const std::size_t> shape = {}, int axis = -1) const;
    void operator()(std::span<const double> in, std::span<double> out,
                    std::span<const std::size_t> shape = {}, int axis = -1) const;

    /// The codes of the elements and of the scales.
    [[nodiscard]] BlockCodes encode(std::span<const float> in,
                                    std::span<const std::size_t> shape = {}, int axis = -1) const;
    /// The values of the codes: bit for bit the result of operator() for the encoded array.
    void decode(const BlockCodes& codes, std::span<float> out,
                std::span<const std::size_t> shape = {}, int axis = -1) const;

private:
    BlockFormat format_;
    Projection projection_;
    std::uint64_t seed_;
    int threads_;
};

/// @}

}  // namespace apscope
