// FloatEncoder rounds scaled values to a float grid. The codes are then summed by any topology,
// with partial sums rounded to a format, or gathered. A scheme may have a FloatEncoder in place of
// encode() and reduce() (scheme.h). A scheme that consists of a choice of scales and this encoder
// has a faster path (float_exchange.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/float_format.h"
#include "core/projection.h"
#include "emulation/allreduce/additions.h"
#include "emulation/schemes/division.h"
#include "emulation/schemes/exchange.h"

namespace apscope::detail {

// A float format, the rounding to it, and the division of the codes.
struct FloatGrid {
    FloatFormat format;
    Projection projection;
    Division division = {};  // division of the rounded numbers by the number of workers

    friend bool operator==(const FloatGrid&, const FloatGrid&) = default;
};
std::uint64_t payload_bits(const FloatGrid& grid, std::size_t elements);
bool is_stochastic(const FloatGrid& grid);

enum class Collective {
    all_reduce,  // one scale for all workers; partial sums are rounded to the accumulator
    all_gather,  // codes are gathered, decoded and added in fp32, in rank order
};

struct Reduction {
    Collective collective = Collective::all_reduce;
    bool exact = false;      // accumulate=exact: every topology gives the fp64 sum
    FloatFormat accumulate;  // the format of partial sums
    Projection projection;   // the rounding of partial sums

    // The reduction of gathered codes, whose decoded values are added in fp32.
    static Reduction gathered();
    bool gathers() const { return collective == Collective::all_gather; }
    bool draws() const { return !gathers() && is_stochastic(projection.rounding); }
    // True if partial sums are rounded to the accumulator; the last partial sum is the result.
    bool rounds(const Topology& topology, int workers) const {
        return workers > 1 && !exact && !gathers() && topology.kind != Topology::Kind::exact;
    }
    Additions additions(const Topology& topology) const {
        return additions_of(topology, accumulate, projection);
    }
    friend bool operator==(const Reduction&, const Reduction&) = default;
};

struct FloatEncoder {
    FloatGrid grid;
    Reduction reduction;
    std::uint64_t side_bits = 0;  // bits per tensor besides the codes, such as an agreed scale

    // Encodes a piece with the common scale of the parameters.
    void encode(const RowPiece& piece, Message& m) const;
    // Sums the codes, with partial sums rounded to reduction.accumulate, and divides each sum by
    // its scale.
    void reduce(const SentPieces& sent, Row& sum) const;
    // The limits of the grid for statistics, after the division for this number of workers.
    GridLimits limits(int workers) const;
};

}  // namespace apscope::detail
