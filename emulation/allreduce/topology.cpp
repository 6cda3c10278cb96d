#include "emulation/allreduce/topology.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>

#include "core/limits.h"
#include "core/nearest_names.h"
#include "core/parse.h"
#include "core/spec_text.h"
#include "emulation/allreduce/additions.h"
#include "emulation/allreduce/topology_keys.h"

namespace apscope::detail {

struct TopologyForm {
    std::string_view name;
    void (*program)(ReductionProgram& program, int workers, int group);  // appends the hops
    // The name of the topology's collective in docs/definitions.md, section 12; empty if it has no
    // cost model.
    std::string_view collective;
    bool has_groups = false;         // the name is NAME:G, with the group size G
    bool keeps_accumulator = false;  // the name NAME+kahan exists too
    // The additions of the topology; null: every addition rounds to the accumulator.
    Additions (*additions)(const SumRounding& accumulator) = nullptr;
    int (*chunks)(int workers) = nullptr;                    // the number of chunks; null: one
    int (*rank)(int row, int chunk, int workers) = nullptr;  // the rank that fills a row; null: the
                                                             // rank of the same number
    // The name is NAME[,key=value...]; the program is for schemes with a scale that all workers
    // share.
    bool has_phases = false;
    bool has_channels = false;  // NAME[,channels=N[,protocol=P]]
};

namespace {

// The rows 0, 1, ..., workers - 1.
std::vector<int> all(int workers) {
    std::vector<int> ranks(static_cast<std::size_t>(workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

void in_order(std::vector<Hop>& hops, const std::vector<int>& rows, bool wide = false) {
    for (std::size_t i = 1; i < rows.size(); ++i) hops.push_back({rows[0], rows[i], i == 1, wide});
}

void round_alone(std::vector<Hop>& hops, int row) { hops.push_back({row, -1, false}); }

void sequential(ReductionProgram& program, int workers, int) {
    in_order(program.hops, all(workers));
}

// Adds in rank order in the wide format, then rounds the sum.
void accumulated(ReductionProgram& program, int workers, int) {
    in_order(program.hops, all(workers), true);
    if (workers > 1) round_alone(program.hops, 0);
}

// The program of chunk 0 of a ring; chunk c runs it with every rank increased by c, modulo the
// number of workers.
void ring(ReductionProgram& program, int workers, int) {
    std::vector<int> rows = all(workers);
    std::rotate(rows.begin(), rows.begin() + (workers > 1), rows.end());
    in_order(program.hops, rows);
    program.result = rows[0];
}

int further_on(int row, int chunk, int workers) {
    return static_cast<int>((static_cast<std::int64_t>(row) + chunk) % workers);
}

int as_many_as_workers(int workers) { return workers; }

// Adds neighbours at each level; without a neighbour, the last row passes to the next level.
void tree(ReductionProgram& program, int workers, int) {
    std::vector<int> level = all(workers);
    while (level.size() > 1) {
        std::vector<int> next;
        for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
            program.hops.push_back({level[i], level[i + 1], true});
            next.push_back(level[i]);
        }
        if (level.size() % 2 == 1) next.push_back(level.back());
        level = std::move(next);
    }
}

void hierarchical(ReductionProgram& program, int workers, int group) {
    std::vector<int> leaders;
    for (int first = 0; first < workers; first += std::min(group, workers - first)) {
        std::vector<int> ranks = all(std::min(group, workers - first));
        for (int& rank : ranks) rank += first;
        in_order(program.hops, ranks);
        leaders.push_back(first);
    }
    in_order(program.hops, leaders);
}

// Ranks in excess of a power of two send their vectors to their neighbours: 0 to 1, 2 to 3, ...
// Returns the ranks that remain.
std::vector<int> power_of_two(std::vector<Hop>& hops, int workers) {
    const auto left = static_cast<int>(std::bit_floor(static_cast<unsigned>(workers)));
    std::vector<int> ranks;
    for (int rank = 0; rank < workers; ++rank) {
        const bool gives = rank / 2 < workers - left && rank % 2 == 0;
        if (gives) hops.push_back({rank + 1, rank, true});
        else ranks.push_back(rank);
    }
    return ranks;
}

// Recursive halving, the farthest ranks first: each step halves the part of the vector that a rank
// sums. The pairs of ranks are the same for all elements.
void butterfly(ReductionProgram& program, int workers, int) {
    const std::vector<int> ranks = power_of_two(program.hops, workers);
    for (auto distance = ranks.size() / 2; distance > 0; distance /= 2) {
        for (std::size_t i = 0; i < distance; ++i)
            program.hops.push_back({ranks[i], ranks[i + distance], true});
    }
    program.result = ranks[0];
}

// NCCL's reduce-scatter "PAT" of messages longer than a buffer's step (PatRSAlgorithm in NCCL's
// src/include/collectives.h, with 8 steps). Row s is the rank s places before the rank that
// receives the chunk. Row s sends to row s without its lowest set bit, so it receives from rows s +
// 1, s + 2, s + 4, ... below that bit. Every message is rounded; messages to row 0 are added in the
// wide format.
class Pat {
public:
    Pat(std::vector<Hop>& hops, int workers) : hops_(hops), workers_(workers) {
        const std::int64_t power = std::bit_ceil(static_cast<std::uint64_t>(workers));
        int together = 1;  // the number of steps that NCCL combines
        for (int steps = 8; steps > 1 && together < workers / 2; steps /= 2) together *= 2;
        apart_ = power / together;
        power_ = power;
    }

    void gather(std::int64_t row) {
        bool first = true;
        for (const std::int64_t distance : distances(row)) {
            const std::int64_t from = row + distance;
            if (from < workers_) {
                gather(from);
                hops_.push_back({static_cast<int>(row), static_cast<int>(from), first, row == 0});
            } else if (first && row != 0) {
                round_alone(hops_, static_cast<int>(row));
            }
            first = false;
        }
        if (first && row != 0) round_alone(hops_, static_cast<int>(row));
    }

private:
    // The distances to the rows that send to `row`, in the order of arrival. Some of these rows may
    // be beyond the last rank.
    std::vector<std::int64_t> distances(std::int64_t row) const {
        const std::int64_t lowest = row == 0 ? power_ : row & -row;
        std::vector<std::int64_t> result;
        if (row % apart_ != 0) {
            for (std::int64_t d = lowest / 2; d > 0; d /= 2) result.push_back(d);
        } else {
            for (std::int64_t d = apart_ / 2; d > 1; d /= 2) result.push_back(d);
            for (std::int64_t d = apart_; d < lowest; d *= 2) result.push_back(d);
            if (lowest > 1) result.push_back(1);
        }
        return result;
    }

    std::vector<Hop>& hops_;
    std::int64_t workers_, power_ = 1, apart_ = 1;
};

void pat(ReductionProgram& program, int workers, int) { Pat(program.hops, workers).gather(0); }

int ranks_before(int row, int chunk, int workers) { return (chunk - row + workers) % workers; }

// NCCL's double binary tree (src/graph/trees.cc) with one rank in each node. A rank adds the values
// of its lower child to its values, then the values of its upper child.
void add_children(std::vector<Hop>& hops, std::int64_t row, std::int64_t bit,
                  std::int64_t workers) {
    const std::int64_t half = bit / 2;
    std::int64_t upper = half;
    while (upper > 0 && row + upper >= workers) upper /= 2;
    bool first = true;
    for (const std::int64_t child : {row == 0 ? 0 : row - half, row + upper}) {
        if (child == row) continue;
        add_children(hops, child, child & -child, workers);
        hops.push_back({static_cast<int>(row), static_cast<int>(child), first});
        first = false;
    }
}

void double_tree(ReductionProgram& program, int workers, int) {
    const auto above =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(workers)));
    add_children(program.hops, 0, above, workers);
}

// The rank that fills a row. Even chunks use the first tree, odd chunks the second. Without
// channels there are two chunks, each with half of the elements. The ranks of the second tree are
// reversed if `workers` is even, and shifted by one if it is odd.
int other_tree(int row, int chunk, int workers) {
    if (chunk % 2 == 0) return row;
    return workers % 2 == 0 ? workers - 1 - row : (row + 1) % workers;
}

int two_trees(int) { return 2; }

// The only list of topologies. It does not contain `exact`, `gather` and hierarchies of two levels,
// which have no program.
constexpr auto forms = std::to_array<TopologyForm>({
    {"sequential", sequential, "all_gather", false, true},
    {.name = "ring",
     .program = ring,
     .collective = "ring",
     .chunks = as_many_as_workers,
     .rank = further_on},
    {"tree", tree, "tree"},
    {"hierarchical", hierarchical, "hierarchical", true, true},
    {"butterfly", butterfly, "halving"},
    {.name = "fp32_accumulate",
     .program = accumulated,
     .collective = "shards",
     .additions = adding::in_fp32},
    {.name = "pat",
     .program = pat,
     .collective = "pat",
     .additions = adding::at_the_end_in_fp32,
     .chunks = as_many_as_workers,
     .rank = ranks_before},
    {.name = "nccl:ring",
     .program = ring,
     .collective = "ring",
     .additions = adding::as_nccl,
     .chunks = as_many_as_workers,
     .rank = further_on,
     .has_channels = true},
    {.name = "nccl:tree",
     .program = double_tree,
     .collective = "double_tree",
     .additions = adding::as_nccl,
     .chunks = two_trees,
     .rank = other_tree,
     .has_channels = true},
    {.name = "nccl:symmetric",
     .program = accumulated,
     .collective = "shards",
     .additions = adding::as_nccl_symmetric},
    {.name = "nccl:nvls", .program = accumulated, .collective = "", .additions = adding::as_nvls},
    {.name = "torch:one_shot",
     .program = sequential,
     .collective = "all_gather",
     .additions = adding::to_nearest},
    {.name = "torch:two_shot",
     .program = sequential,
     .collective = "shards",
     .additions = adding::to_nearest},
    {.name = "two_phase",
     .program = accumulated,
     .collective = "shards",
     .additions = adding::in_fp32,
     .has_phases = true},
    {.name = "reduce_scatter",
     .program = accumulated,
     .collective = "shards",
     .additions = adding::at_the_end_in_fp32,
     .has_phases = true},
});
constexpr std::string_view hierarchy = "hierarchical";

// The form of NAME, or of NAME:G; null if there is none.
const TopologyForm* find_form(std::string_view name) {
    const auto* match = std::find_if(forms.begin(), forms.end(), [&](const TopologyForm& f) {
        return f.name == name || (f.has_groups && name.starts_with(f.name) &&
                                  name.substr(f.name.size()).starts_with(':'));
    });
    return match == forms.end() ? nullptr : match;
}

// The form of a name from which keys, +kahan, levels and a format are removed.
const TopologyForm* form_without_keys(std::string_view name) {
    return find_form(name.substr(0, name.find_first_of("+,(@")));
}

// Parses the text between the parentheses of a hierarchy:
// NAME[@FORMAT][,key=value...],NAME[@FORMAT][,key=value...].
std::vector<Topology> levels_of(const std::string& full_name, std::string_view text) {
    std::vector<Topology> levels;
    std::vector<std::string> specs;  // the levels without their formats
    std::vector<std::string> formats;
    for (const std::string_view piece : split_outside(text, ',')) {
        const std::size_t at = piece.find('@');
        if (piece.substr(0, at).find('=') != piece.npos && !specs.empty()) {
            specs.back() += "," + std::string(piece);
            continue;
        }
        specs.emplace_back(piece.substr(0, at));
        formats.emplace_back(at == piece.npos ? "" : piece.substr(at + 1));
        if (at != piece.npos && formats.back().empty())
            refuse("topology '" + limits::clipped(full_name) + "' has no format after '" +
                   limits::clipped(piece) + "', as in " + specs.back() + "@e4m3");
    }
    if (specs.size() != 2)
        refuse("topology '" + limits::clipped(full_name) + "' has " + std::to_string(specs.size()) +
               (specs.size() == 1 ? " level" : " levels") +
               " in its parentheses; give two, inside the groups and over them, as in "
               "hierarchical:8(ring,two_phase@e4m3)");
    const std::vector<std::string> known = level_names();
    for (std::size_t i = 0; i < specs.size(); ++i) {
        if (std::ranges::count(known, specs[i].substr(0, specs[i].find(','))) == 0)
            refuse("topology '" + limits::clipped(full_name) + "' has the level '" +
                   limits::clipped(specs[i]) + "'; a level is " + listed(known) +
                   ", with its keys");
        levels.push_back(parse_topology(specs[i]));
        levels[i].format = formats[i].empty() ? "" : format_name(formats[i]);
    }
    return levels;
}

}  // namespace

std::vector<std::string> order_names() {
    std::vector<std::string> names{"exact"}, compensated;
    for (const TopologyForm& form : forms) {
        if (form.has_phases) continue;
        names.push_back(std::string(form.name) + (form.has_groups ? ":G" : ""));
        if (form.keeps_accumulator) compensated.push_back(names.back() + "+kahan");
    }
    names.insert(names.end(), compensated.begin(), compensated.end());
    return names;
}

std::vector<std::string> topology_names() {
    std::vector<std::string> names = order_names();
    for (const TopologyForm& form : forms)
        if (form.has_phases) names.emplace_back(form.name);
    return names;
}

std::vector<std::string> level_names() {
    std::vector<std::string> names;
    for (const TopologyForm& form : forms)
        if (!form.has_groups) names.emplace_back(form.name);
    return names;
}

bool operator==(const Topology& a, const Topology& b) {
    return a.kind == b.kind && a.group == b.group && a.kahan == b.kahan && a.form == b.form &&
           a.phases == b.phases && a.channels == b.channels && a.format == b.format &&
           a.levels == b.levels;
}

std::string_view collective_name(std::string_view topology) {
    const TopologyForm* form = form_without_keys(topology);
    return form == nullptr ? "" : form->collective;
}

bool is_two_phase(std::string_view topology) {
    const TopologyForm* form = form_without_keys(topology);
    return form != nullptr && form->has_phases;
}

std::string TwoPhase::text() const {
    std::string keys;
    if (sum != TwoPhase().sum) keys += ",sum=" + sum;
    if (own_exact) keys += ",own=exact";
    if (!phase2.empty()) keys += ",phase2=(" + phase2 + ")";
    return keys;
}

std::string Topology::name() const {
    if (form == nullptr) return kind == Kind::gather ? "gather" : "exact";
    const std::string inside =
        levels.empty() ? "" : "(" + levels[0].name() + "," + levels[1].name() + ")";
    return std::string(form->name) + (form->has_groups ? ":" + std::to_string(group) : "") +
           inside + (kahan ? "+kahan" : "") + (format.empty() ? "" : "@" + format) +
           channels.text() + phases.text();
}

namespace {

[[noreturn]] void refuse_unknown(const std::string& name) {
    const std::vector<std::string> names = topology_names();
    const std::string near =
        did_you_mean(std::string_view(name).substr(0, name.find_first_of(",(@")),
                     std::vector<std::string_view>(names.begin(), names.end()));
    refuse("unknown topology '" + limits::clipped(name) + "'" +
           (near.empty() ? "; use " + listed(names) : near));
}

}  // namespace

Topology parse_topology(std::string_view name) {
    const std::string full_name(name);
    const std::size_t open = name.find('(');
    if (name.starts_with(hierarchy) && open != name.npos) {
        if (!name.substr(hierarchy.size()).starts_with(':') && open != hierarchy.size())
            refuse_unknown(full_name);
        if (!name.ends_with(')'))
            refuse("topology '" + limits::clipped(full_name) +
                   "' does not end with a parenthesis, as "
                   "in hierarchical:8(ring,two_phase@e4m3)");
        Topology t{Topology::Kind::levels, 0, false, find_form(hierarchy)};
        t.group = group_of(full_name, hierarchy,
                           name.substr(0, open).substr(std::min(open, hierarchy.size() + 1)));
        t.levels = levels_of(full_name, name.substr(open + 1, name.size() - open - 2));
        return t;
    }
    const std::vector<std::string_view> pieces = split_outside(name, ',');
    const TopologyForm* keyed = find_form(pieces[0]);
    const std::span<const std::string_view> settings = std::span(pieces).subspan(1);
    if (keyed != nullptr && keyed->has_phases) {
        return {Topology::Kind::two_phase, 0, false, keyed,
                phases_of(full_name, pieces[0], settings)};
    }
    Topology t;
    if (keyed != nullptr && keyed->has_channels) {
        t.channels = channels_of(full_name, pieces[0], settings);
        name = pieces[0];
    }
    if (name.ends_with("+kahan")) {
        t.kahan = true;
        name.remove_suffix(6);
    }
    const TopologyForm* form = find_form(name);
    if (form == nullptr && name != "exact") refuse_unknown(full_name);
    if (form != nullptr) {
        t.form = form;
        t.kind = form->program == ring ? Topology::Kind::ring : Topology::Kind::ordered;
        if (form->has_groups)
            t.group = group_of(full_name, form->name,
                               name.substr(std::min(name.size(), form->name.size() + 1)));
    }
    if (t.kahan && (form == nullptr || !form->keeps_accumulator)) {
        std::vector<std::string> keep;
        for (const TopologyForm& f : forms)
            if (f.keeps_accumulator) keep.emplace_back(f.name);
        refuse("topology '" + limits::clipped(full_name) +
               "' cannot keep a compensation: +kahan needs an accumulator, which only " +
               listed(keep, " and ") + " keep");
    }
    return t;
}

std::string canonical_topology(std::string_view text) {
    try {
        return parse_topology(text).name();
    } catch (const std::invalid_argument&) {
        return std::string(text);
    }
}

bool Topology::is_plain() const {
    return form == nullptr || (is_order() && form->additions == nullptr &&
                               (form->rank == nullptr || form->rank == further_on));
}

Additions additions_of(const Topology& t, const FloatFormat& accumulate,
                       const Projection& projection) {
    const SumRounding accumulator{accumulate, projection};
    if (t.form == nullptr || t.form->additions == nullptr) return {accumulator, {}};
    return t.form->additions(accumulator);
}

ReductionProgram reduction_program(const Topology& t, int workers) {
    ReductionProgram program;
    program.additions_per_hop = t.kahan ? 4 : 1;
    program.hops.reserve(static_cast<std::size_t>(workers));
    (t.form == nullptr ? sequential : t.form->program)(program, workers, t.group);
    return program;
}

ReductionProgram reduction_program(const Topology& t, int workers, int chunk) {
    ReductionProgram program = reduction_program(t, workers);
    const auto rank = [&](int& row) {
        if (row >= 0) row = rank_of_row(t, workers, row, chunk);
    };
    for (Hop& hop : program.hops) {
        rank(hop.target);
        rank(hop.source);
    }
    rank(program.result);
    return program;
}

int rank_of_row(const Topology& t, int workers, int row, int chunk) {
    return t.form == nullptr || t.form->rank == nullptr ? row : t.form->rank(row, chunk, workers);
}

int chunk_count(const Topology& t, int workers) {
    return t.form == nullptr || t.form->chunks == nullptr ? 1 : t.form->chunks(workers);
}

std::size_t chunk_begin(const Topology& t, int workers, int chunk, std::size_t n) {
    if (t.channels.count > 0)
        return channel_begin(t.channels, t.form->program == double_tree, workers, chunk, n);
    // floor(chunk n / chunks), computed without the product chunk * n, which may overflow.
    const auto c = static_cast<std::size_t>(chunk),
               chunks = static_cast<std::size_t>(chunk_count(t, workers));
    return n / chunks * c + n % chunks * c / chunks;
}

}  // namespace apscope::detail
