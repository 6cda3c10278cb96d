// The loops of an all-reduce over chunks, tiles that stay in cache, and hops. The caller defines
// the addition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulation/allreduce/reduce_scratch.h"
#include "emulation/arithmetic/kahan.h"

namespace apscope::detail {

// The number of elements that are reduced at a time: small enough that the workers' rows stay in
// the first-level cache, and large enough that the cost of calls does not dominate.
template <class Real>
std::size_t tile_of(std::size_t workers) {
    constexpr std::size_t cache = 24576, min = 256, max = 2048;
    return std::clamp(cache / (sizeof(Real) * std::max<std::size_t>(workers, 1)) / 64 * 64, min,
                      max);
}

// Runs the hops of one tile. at[r] points to row r, and later to the partial sum that replaces it.
// Partial sums are stored in `partial`, in rows that are `stride` apart; the last sum, the result,
// is stored in `out`.
template <class Real, class Adder>
void reduce_tile(const Topology& topology, const ReductionProgram& program,
                 std::span<const Real*> at, std::size_t count, Adder& adder, Real* out,
                 Real* partial, std::size_t stride) {
    const std::size_t workers = at.size();
    const auto row = [&](std::size_t r) { return partial + r * stride; };
    const auto result = static_cast<std::size_t>(program.result);
    std::uint32_t hop_number = 0;
    for (const Hop& hop : program.hops) {
        // `source` is not used if hop.source < 0.
        const std::size_t target = static_cast<std::size_t>(hop.target),
                          source = static_cast<std::size_t>(hop.source);
        const bool last = &hop == &program.hops.back() && target == result;
        Real* sum = last ? out : row(target);
        if (hop.source < 0) {
            adder.round(sum, at[target], hop_number);
        } else if (topology.kahan) {
            Real *lost = row(workers + target), *y = row(2 * workers), *next = row(2 * workers + 1);
            if (hop.starts_accumulator) std::fill_n(lost, count, Real{0});
            kahan_add(at[source], at[target], lost, y, next,
                      [&](Real* to, const Real* a, int sign, const Real* b, std::uint32_t k) {
                          adder.add(to, a, b, static_cast<Real>(sign), hop_number + k, false);
                      });
            std::copy_n(next, count, sum);
        } else {
            adder.add(sum, at[target], at[source], Real{1}, hop_number, hop.wide);
        }
        at[target] = sum;
        hop_number += static_cast<std::uint32_t>(program.additions_per_hop);
    }
    if (at[result] != out) std::copy_n(at[result], count, out);
}

// Reduces elements first .. first + count - 1 of rows of length n into `out`; make_adder(at, count)
// returns the adder of elements at .. at + count - 1.
//
// All chunks run the same program, but the rank that fills a row depends on the chunk
// (rank_of_row()). A tile that spans several chunks copies their parts to composed rows and runs
// the program once. In a ring:
//
//      row r of the scratch   | rank r, chunk 0 | rank r + 1, chunk 1 | rank r + 2, chunk 2 | ...
//
// A tile within one chunk reads the workers' rows in place.
template <class Real, class MakeAdder>
void reduce_walk(const Topology& topology, std::span<const Real* const> rows, std::size_t first,
                 std::size_t count, std::size_t n, Real* out, ReduceScratch<Real>& scratch,
                 MakeAdder&& make_adder) {
    const int workers = static_cast<int>(rows.size());
    const std::size_t tile = tile_of<Real>(rows.size()),
                      stride = (std::min(tile, count) + 15) / 16 * 16;
    const ReductionProgram& program = scratch.program(topology, workers);
    // First the composed rows, which partial sums overwrite. For Kahan sums, then one row of
    // compensations per row and two rows for the algorithm's temporaries y and t.
    Real* partial = scratch.rows((rows.size() + (topology.kahan ? rows.size() + 2 : 0)) * stride);
    std::vector<const Real*>& read = scratch.read;
    read.resize(rows.size());
    int chunk = 0;  // the chunk in which the tile begins
    for (std::size_t at = first; at < first + count; at += tile) {
        const std::size_t end = std::min(at + tile, first + count);
        const auto chunk_end = [&](int c) { return chunk_begin(topology, workers, c + 1, n); };
        const auto rank = [&](std::size_t r, int c) {
            return rows[static_cast<std::size_t>(
                rank_of_row(topology, workers, static_cast<int>(r), c))];
        };
        while (chunk_end(chunk) <= at) ++chunk;
        if (chunk_end(chunk) >= end) {
            for (std::size_t r = 0; r < rows.size(); ++r) read[r] = rank(r, chunk) + (at - first);
        } else {
            int c = chunk;
            for (std::size_t begin = at; begin < end; ++c) {
                const std::size_t size = std::min(end, chunk_end(c)) - begin;
                for (std::size_t r = 0; r < rows.size(); ++r)
                    std::copy_n(rank(r, c) + (begin - first), size,
                                partial + r * stride + (begin - at));
                begin += size;
            }
            for (std::size_t r = 0; r < rows.size(); ++r) read[r] = partial + r * stride;
        }
        auto adder = make_adder(at, end - at);
        reduce_tile<Real>(topology, program, read, end - at, adder, out + (at - first), partial,
                          stride);
    }
}

}  // namespace apscope::detail
