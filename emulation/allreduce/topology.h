// Reduction orders. A topology is a program: a list of hops `row[target] += row[source]`, run
// element by element over the workers' rows, each addition rounded once. The program depends on
// the number of workers and, for a ring, on the chunk of an element.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace apscope::detail {

struct Topology {
    enum class Kind { exact, sequential, ring, tree, hierarchical, gather };
    Kind kind = Kind::exact;
    int group = 0;       // hierarchical: ranks in a group
    bool kahan = false;  // sequential and hierarchical: compensated

    friend bool operator==(const Topology&, const Topology&) = default;
    std::string name() const;
};

// exact, sequential, ring, tree, hierarchical:G, and +kahan after sequential and hierarchical.
// Throws std::invalid_argument otherwise.
Topology parse_topology(std::string_view name);

struct Hop {
    int target, source;
    bool starts_accumulator;  // Kahan: target is a fresh accumulator, its compensation is 0
};

struct ReductionProgram {
    std::vector<Hop> hops;
    int result = 0;  // the row that holds the sum
    int additions_per_hop = 1;  // roundings per hop: 4 with Kahan
};

// `chunk` is used only by a ring: 0..workers-1.
ReductionProgram reduction_program(const Topology& topology, int workers, int chunk);

// Chunks of equal program: a ring has `workers` of them, every other topology one.
// Elements chunk_begin(c) .. chunk_begin(c + 1) - 1 of n lie in chunk c.
int chunk_count(const Topology& topology, int workers);
std::size_t chunk_begin(const Topology& topology, int workers, int chunk, std::size_t n);

}  // namespace apscope::detail
