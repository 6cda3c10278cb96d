// The walk of an all-reduce: chunks, tiles that stay in cache, hops. What an addition is, is the caller's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulation/topology.h"

namespace apscope {

// Elements reduced at a time: the workers' rows stay in the first-level cache, and a tile is never so small
// that the calls show.
template <class Real>
std::size_t tile_of(std::size_t workers) {
    constexpr std::size_t cache = 24576, least = 256, most = 2048;
    return std::clamp(cache / (sizeof(Real) * std::max<std::size_t>(workers, 1)) / 64 * 64, least, most);
}

// Kahan's sum, every operation rounded: y = c - e; t = s + y; e = (t - s) - y; s = t.
template <class Real, class Adder>
void kahan_hop(Adder& adder, Real* sum, Real* compensation, const Real* addend, Real* y, Real* t, std::size_t count, std::uint32_t hop) {
    std::copy_n(addend, count, y);
    adder.add(y, compensation, Real{-1}, hop);
    std::copy_n(sum, count, t);
    adder.add(t, y, Real{1}, hop + 1);
    std::copy_n(t, count, compensation);
    adder.add(compensation, sum, Real{-1}, hop + 2);
    adder.add(compensation, y, Real{-1}, hop + 3);
    std::copy_n(t, count, sum);
}

// One tile: the rows are copied to scratch by copy_rows, the hops run there.
template <class Real, class CopyRows, class Adder>
void reduce_tile(const Topology& topology, const ReductionProgram& program, std::size_t workers, std::size_t count, CopyRows&& copy_rows,
                 Adder& adder, Real* out, std::vector<Real>& scratch) {
    const std::size_t stride = (count + 15) / 16 * 16;
    const std::size_t extra = topology.kahan ? workers + 2 : 0;  // compensations, y and t
    if (scratch.size() < (workers + extra) * stride) scratch.resize((workers + extra) * stride);
    const auto row = [&](std::size_t r) { return scratch.data() + r * stride; };
    copy_rows(row);

    std::uint32_t hop_number = 0;
    for (const Hop& hop : program.hops) {
        const std::size_t target = static_cast<std::size_t>(hop.target), source = static_cast<std::size_t>(hop.source);
        if (topology.kahan) {
            if (hop.starts_accumulator) std::fill_n(row(workers + target), count, Real{0});
            kahan_hop<Real>(adder, row(target), row(workers + target), row(source), row(2 * workers), row(2 * workers + 1), count, hop_number);
        } else {
            adder.add(row(target), row(source), Real{1}, hop_number);
        }
        hop_number += static_cast<std::uint32_t>(program.additions_per_hop);
    }
    std::copy_n(row(static_cast<std::size_t>(program.result)), count, out);
}

// Elements first .. first + count - 1 of rows of length n, into out; make_adder(at, count) gives what adds
// elements at .. at + count - 1.
//
// Chunk c of a ring runs the program of chunk 0 on ranks that are c further on, so that all chunks run it at once on
// rows put together from theirs:
//
//      row r of the scratch      | rank r, chunk 0 | rank r + 1, chunk 1 | rank r + 2, chunk 2 | ...
template <class Real, class MakeAdder>
void reduce_walk(const Topology& topology, std::span<const Real* const> rows, std::size_t first, std::size_t count, std::size_t n,
                 Real* out, std::vector<Real>& scratch, MakeAdder&& make_adder) {
    const int workers = static_cast<int>(rows.size());
    const std::size_t tile = tile_of<Real>(rows.size());
    const ReductionProgram program = reduction_program(topology, workers, 0);
    int chunk = 0;  // the one that the tile begins in
    for (std::size_t at = first; at < first + count; at += tile) {
        const std::size_t end = std::min(at + tile, first + count);
        const auto chunk_end = [&](int c) { return chunk_begin(topology, workers, c + 1, n); };
        while (chunk_end(chunk) <= at) ++chunk;
        const auto copy_rows = [&](auto&& row) {
            int c = chunk;
            for (std::size_t begin = at; begin < end; ++c) {
                const std::size_t size = std::min(end, chunk_end(c)) - begin;
                for (std::size_t r = 0; r < rows.size(); ++r) {
                    const std::size_t rank = (r + static_cast<std::size_t>(c)) % rows.size();
                    std::copy_n(rows[rank] + (begin - first), size, row(r) + (begin - at));
                }
                begin += size;
            }
        };
        auto adder = make_adder(at, end - at);
        reduce_tile<Real>(topology, program, rows.size(), end - at, copy_rows, adder, out + (at - first), scratch);
    }
}

}  // namespace apscope
