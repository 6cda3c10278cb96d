#include "emulation/allreduce/topology.h"

#include <algorithm>
#include <stdexcept>

#include "core/limits.h"
#include "core/parse.h"

namespace apscope::detail {

namespace {

constexpr const char* choices =
    "exact, sequential, ring, tree, hierarchical:G, sequential+kahan or hierarchical:G+kahan";

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

void sequential(std::vector<Hop>& hops, const std::vector<int>& rows) {
    for (std::size_t i = 1; i < rows.size(); ++i) hops.push_back({rows[0], rows[i], i == 1});
}

}  // namespace

std::string Topology::name() const {
    const std::string suffix = kahan ? "+kahan" : "";
    switch (kind) {
        case Kind::exact: return "exact";
        case Kind::sequential: return "sequential" + suffix;
        case Kind::ring: return "ring";
        case Kind::tree: return "tree";
        case Kind::hierarchical: return "hierarchical:" + std::to_string(group) + suffix;
        case Kind::gather: return "gather";
    }
    return "exact";
}

Topology parse_topology(std::string_view name) {
    const std::string whole(name);
    Topology t;
    if (name.ends_with("+kahan")) {
        t.kahan = true;
        name.remove_suffix(6);
    }
    if (name == "exact") t.kind = Topology::Kind::exact;
    else if (name == "sequential") t.kind = Topology::Kind::sequential;
    else if (name == "ring") t.kind = Topology::Kind::ring;
    else if (name == "tree") t.kind = Topology::Kind::tree;
    else if (name.starts_with("hierarchical")) {
        t.kind = Topology::Kind::hierarchical;
        t.group =
            name.starts_with("hierarchical:") ? parse_number<int>(name.substr(13)).value_or(0) : 0;
        if (t.group < 1)
            refuse("topology '" + limits::clipped(whole) +
                   "' needs a group size of 1 to 2147483647, as in hierarchical:4");
    } else {
        refuse("unknown topology '" + limits::clipped(whole) + "'; use " + choices);
    }
    if (t.kahan && t.kind != Topology::Kind::sequential && t.kind != Topology::Kind::hierarchical) {
        refuse("topology '" + limits::clipped(whole) +
               "' has no place for a compensation: +kahan stays with an accumulator, which only "
               "sequential and hierarchical keep");
    }
    return t;
}

ReductionProgram reduction_program(const Topology& t, int workers, int chunk) {
    ReductionProgram program;
    program.additions_per_hop = t.kahan ? 4 : 1;
    program.hops.reserve(static_cast<std::size_t>(workers));
    switch (t.kind) {
        case Topology::Kind::exact:
        case Topology::Kind::gather:
        case Topology::Kind::sequential: {
            std::vector<int> ranks;
            ranks.reserve(static_cast<std::size_t>(workers));
            for (int w = 0; w < workers; ++w) ranks.push_back(w);
            sequential(program.hops, ranks);
            break;
        }
        case Topology::Kind::ring: {
            std::vector<int> ranks;
            ranks.reserve(static_cast<std::size_t>(workers));
            for (int w = 1; w <= workers; ++w) ranks.push_back((chunk + w) % workers);
            sequential(program.hops, ranks);
            program.result = ranks[0];
            break;
        }
        case Topology::Kind::tree: {
            std::vector<int> level;
            for (int w = 0; w < workers; ++w) level.push_back(w);
            while (level.size() > 1) {
                std::vector<int> next;
                for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
                    program.hops.push_back({level[i], level[i + 1], true});
                    next.push_back(level[i]);
                }
                if (level.size() % 2 == 1) next.push_back(level.back());
                level = std::move(next);
            }
            break;
        }
        case Topology::Kind::hierarchical: {
            std::vector<int> leaders;
            for (int first = 0; first < workers; first += t.group) {
                std::vector<int> ranks;
                for (int w = first; w < std::min(first + t.group, workers); ++w) ranks.push_back(w);
                sequential(program.hops, ranks);
                leaders.push_back(first);
            }
            sequential(program.hops, leaders);
            break;
        }
    }
    return program;
}

int chunk_count(const Topology& t, int workers) {
    return t.kind == Topology::Kind::ring ? workers : 1;
}

std::size_t chunk_begin(const Topology& t, int workers, int chunk, std::size_t n) {
    if (t.kind != Topology::Kind::ring) return chunk == 0 ? 0 : n;
    // floor(chunk n / workers) without overflow of chunk * n.
    const std::size_t c = static_cast<std::size_t>(chunk), w = static_cast<std::size_t>(workers);
    return n / w * c + n % w * c / w;
}

}  // namespace apscope::detail
