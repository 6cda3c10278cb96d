// Reduction orders. A topology is a program: a list of hops `row[target] += row[source]`, run
// element by element over the workers' rows, each addition rounded once. The program depends on
// the number of workers and, for a ring, on the chunk of an element. The table in topology.cpp has
// one row for each. two_phase and reduce_scatter are not programs over codes: they are composed
// with a scheme (emulation/schemes/two_phase.h), and stand here for their name and keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace apscope::detail {

struct TopologyForm;  // a row of the table

// The keys of a reduction in two phases.
struct TwoPhase {
    std::string sum = "fp32";  // what the owner of a shard adds in: fp32, exact or a format's name
    bool own_exact = false;    // the owner's values of its shard are not encoded
    std::string phase2;        // the scheme that encodes the sums; empty: that of phase 1
    bool finishes = true;      // false: the sums stay where they are, as reduce_scatter leaves them

    friend bool operator==(const TwoPhase&, const TwoPhase&) = default;
    std::string text() const;  // the keys that differ from these defaults
};

struct Topology {
    // What callers ask for. exact: fp64 sums, not rounded to a format; gather: schemes that gather
    // codes; ring: chunks with programs of their own; ordered: any other program; two_phase: two
    // encodings with a sum between them.
    enum class Kind { exact, gather, ring, ordered, two_phase };
    Kind kind = Kind::exact;
    int group = 0;       // ranks in a group, where the form has groups
    bool kahan = false;  // compensated, where the form keeps an accumulator
    const TopologyForm* form = nullptr;  // of ring, ordered and two_phase
    TwoPhase phases = {};  // of two_phase

    friend bool operator==(const Topology&, const Topology&) = default;
    std::string name() const;
};

// A name of topology_names(), with a number for G. Throws std::invalid_argument otherwise.
Topology parse_topology(std::string_view name);
// exact, sequential, hierarchical:G, sequential+kahan and all others. orders: those that add codes.
std::vector<std::string> topology_names();
std::vector<std::string> order_names();
// The collective operation that a topology is, as definitions.md section 12 names it; empty for
// `exact`, for reductions of a scheme's own and for the wire, whose topology is empty.
std::string_view collective_name(std::string_view topology);

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
