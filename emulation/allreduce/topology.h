// Reduction orders. A topology is a program: a list of hops `row[target] += row[source]`, run
// element by element over rows that the workers fill. Each addition is rounded once. The program
// depends on the number of workers; the worker that fills a row depends on the chunk of an element.
// The table in topology.cpp has one entry per topology; additions.h has the roundings of the
// topologies' additions. A scheme that encodes each row alone is composed with two_phase and
// reduce_scatter (emulation/schemes/two_phase.h); the programs of these two topologies are for
// schemes with a scale that all workers share. A hierarchy of two levels is always composed
// (emulation/schemes/levels.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/allreduce/channels.h"

namespace apscope::detail {

struct TopologyForm;  // an entry of the table in topology.cpp

// The keys of a reduction in two phases.
struct TwoPhase {
    std::string sum = "fp32";  // format of the owner's additions: fp32, exact or a format's name
    bool own_exact = false;    // the owner of a shard adds its values without encoding them
    std::string phase2;        // the spec of the scheme that encodes the sums; empty: the scheme of
                               // phase 1
    bool has_phase2 = true;    // false: the sums stay with their owners (reduce_scatter)

    friend bool operator==(const TwoPhase&, const TwoPhase&) = default;
    std::string text() const;  // the keys whose values are not the defaults above
};

struct Topology {
    // The kind of reduction:
    //   exact       fp64 sums, not rounded to a format
    //   gather      the scheme gathers codes
    //   ring        W chunks; chunk c runs the program with every rank increased by c
    //   ordered     any other program
    //   two_phase   two encodings with a sum between them
    //   levels      a reduction inside groups of consecutive workers, then one of the groups' sums
    enum class Kind { exact, gather, ring, ordered, two_phase, levels };
    Kind kind = Kind::exact;
    int group = 0;                       // ranks in a group, if the form has groups
    bool kahan = false;                  // compensated sums (NAME+kahan)
    const TopologyForm* form = nullptr;  // null for exact and gather
    TwoPhase phases = {};                // keys of two_phase and reduce_scatter
    Channels channels = {};              // keys of nccl:ring and nccl:tree
    // The format in which the scheme encodes at this level of a hierarchy; empty: the scheme's
    // format.
    std::string format = {};
    // For Kind::levels, two topologies: the reduction inside the groups and that of the groups'
    // sums.
    std::vector<Topology> levels = {};

    friend bool operator==(const Topology&, const Topology&);
    std::string name() const;
    // True if the topology adds the codes of any scheme; false for two_phase and levels, which are
    // composed with a scheme.
    bool is_order() const { return kind != Kind::two_phase && kind != Kind::levels; }
    // True if every addition rounds to the accumulator, and the workers fill the rows as in a ring
    // or in rank order. GPUs support only such topologies.
    bool is_plain() const;
};

// Parses a name of topology_names(), with a number in place of G. Throws std::invalid_argument for
// other names.
Topology parse_topology(std::string_view name);
// The name of a topology, from any spelling of the name; the text unchanged if it is not a
// topology.
std::string canonical_topology(std::string_view text);
// The names of all topologies (exact, sequential, hierarchical:G, sequential+kahan and so on), of
// the orders, which add codes, and of the topologies that a level of a hierarchy can have.
std::vector<std::string> topology_names();
std::vector<std::string> order_names();
std::vector<std::string> level_names();
// The collective operation of a topology, as docs/definitions.md, section 12, names it. Empty for
// `exact`, `gather` and `nccl:nvls`, for reductions that only one scheme has, and for the empty
// name, which result rows about the wire have.
std::string_view collective_name(std::string_view topology);
// True for two_phase and reduce_scatter, with any keys.
bool is_two_phase(std::string_view topology);

struct Hop {
    int target, source;       // source < 0: the target is rounded without an addition
    bool starts_accumulator;  // Kahan: the target's compensation starts at 0
    bool wide = false;        // the sum is rounded to the wide format of additions.h
};

struct ReductionProgram {
    std::vector<Hop> hops;
    int result = 0;             // the row with the sum; in a ring, the row of the first addend
    int additions_per_hop = 1;  // roundings per hop: 4 with Kahan
};

// The program of one chunk, whose hops name ranks.
ReductionProgram reduction_program(const Topology& topology, int workers, int chunk);
// The program of every chunk, whose hops name rows; rank_of_row() returns the rank that fills a
// row.
ReductionProgram reduction_program(const Topology& topology, int workers);
int rank_of_row(const Topology& topology, int workers, int row, int chunk);

// Chunk c has elements chunk_begin(c) .. chunk_begin(c + 1) - 1 of n. chunk_count() supports only
// topologies without channels; with channels, the number of chunks depends on n.
int chunk_count(const Topology& topology, int workers);
std::size_t chunk_begin(const Topology& topology, int workers, int chunk, std::size_t n);

}  // namespace apscope::detail
