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

// One tile of one chunk: the rows are copied to scratch, the hops run there.
template <class Real, class Adder>
void reduce_tile(const Topology& topology, const ReductionProgram& program, std::span<const Real* const> rows, std::size_t offset,
                 std::size_t count, Adder& adder, Real* out, std::vector<Real>& scratch) {
    const std::size_t workers = rows.size(), tile = tile_of<Real>(workers);
    const std::size_t extra = topology.kahan ? workers + 2 : 0;  // compensations, y and t
    scratch.resize((workers + extra) * tile);
    const auto row = [&](std::size_t r) { return scratch.data() + r * tile; };
    for (std::size_t w = 0; w < workers; ++w) std::copy_n(rows[w] + offset, count, row(w));

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
template <class Real, class MakeAdder>
void reduce_walk(const Topology& topology, std::span<const Real* const> rows, std::size_t first, std::size_t count, std::size_t n,
                 Real* out, std::vector<Real>& scratch, MakeAdder&& make_adder) {
    const int workers = static_cast<int>(rows.size());
    const std::size_t tile = tile_of<Real>(rows.size());
    for (int chunk = 0; chunk < chunk_count(topology, workers); ++chunk) {
        const std::size_t begin = std::max(chunk_begin(topology, workers, chunk, n), first);
        const std::size_t end = std::min(chunk_begin(topology, workers, chunk + 1, n), first + count);
        if (begin >= end) continue;
        const ReductionProgram program = reduction_program(topology, workers, chunk);
        for (std::size_t at = begin; at < end; at += tile) {
            const std::size_t size = std::min(tile, end - at);
            auto adder = make_adder(at, size);
            reduce_tile<Real>(topology, program, rows, at - first, size, adder, out + (at - first), scratch);
        }
    }
}

}  // namespace apscope
