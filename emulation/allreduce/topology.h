// Reduction orders. A topology is a program: a list of hops `row[target] += row[source]`, run
// Reduction orders. A topology is a program: a list of hops `row[target] += row[source]`, run
// element by element over rows that the workers fill, each addition rounded once. The program
// depends on the number of workers; which worker fills a row depends on the chunk of an element.
// The table in topology.cpp has one row for each; what additions round to is additions.h's.
// two_phase and reduce_scatter are composed with a scheme where it encodes each row alone
// (emulation/schemes/two_phase.h); a scale that all workers share has their program. A hierarchy
// of two levels is always composed (emulation/schemes/levels.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/allreduce/channels.h"

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
    // codes; ring: W chunks, each on ranks one further on; ordered: any other program; two_phase:
    // two encodings with a sum between them; levels: a reduction inside groups of consecutive
    // workers, then one of the groups' sums.
    enum class Kind { exact, gather, ring, ordered, two_phase, levels };
    Kind kind = Kind::exact;
    int group = 0;                       // ranks in a group, where the form has groups
    bool kahan = false;                  // compensated, where the form keeps an accumulator
    const TopologyForm* form = nullptr;  // of all but exact and gather
    TwoPhase phases = {};                // of two_phase
    Channels channels = {};              // of nccl:ring and nccl:tree
    std::string format = {};  // of a level: of what the scheme encodes there; empty: its own
    std::vector<Topology> levels = {};  // of levels: inside the groups, over them

    friend bool operator==(const Topology&, const Topology&);
    std::string name() const;
    // Whether it adds any scheme's codes: neither two_phase nor levels, which are composed with
    // one.
    bool is_order() const { return kind != Kind::two_phase && kind != Kind::levels; }
    // Whether every addition rounds to the accumulator, and the workers fill the rows as in a ring
    // or in rank order: what a device does.
    bool is_plain() const;
};

// A name of topology_names(), with a number for G. Throws std::invalid_argument otherwise.
Topology parse_topology(std::string_view name);
// The name of a topology in any spelling; the text itself if it names none.
std::string canonical_topology(std::string_view text);
// exact, sequential, hierarchical:G, sequential+kahan and all others. orders: those that add codes.
// levels: those that a level of a hierarchy can have.
std::vector<std::string> topology_names();
std::vector<std::string> order_names();
std::vector<std::string> level_names();
// The collective operation that a topology is, as definitions.md section 12 names it; empty for
// `exact`, for reductions of a scheme's own and for the wire, whose topology is empty.
std::string_view collective_name(std::string_view topology);

struct Hop {
    int target, source;       // source < 0: the target is rounded by itself
    bool starts_accumulator;  // Kahan: target is a fresh accumulator, its compensation is 0
    bool wide = false;        // rounded to the wide format of additions.h instead
};

struct ReductionProgram {
    std::vector<Hop> hops;
    int result = 0;             // the row that holds the sum
    int additions_per_hop = 1;  // roundings per hop: 4 with Kahan
};

// On the ranks themselves, of a chunk.
ReductionProgram reduction_program(const Topology& topology, int workers, int chunk);
// On rows, of any chunk: row r is filled by rank_of_row(r).
ReductionProgram reduction_program(const Topology& topology, int workers);
int rank_of_row(const Topology& topology, int workers, int row, int chunk);

// Elements chunk_begin(c) .. chunk_begin(c + 1) - 1 of n lie in chunk c. The count is that of
// topologies without channels; with them there are as many as cover the elements.
int chunk_count(const Topology& topology, int workers);
std::size_t chunk_begin(const Topology& topology, int workers, int chunk, std::size_t n);

}  // namespace apscope::detail
