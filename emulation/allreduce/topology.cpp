#include "emulation/allreduce/topology.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <stdexcept>

#include "core/limits.h"
#include "core/named_formats.h"
#include "core/parse.h"
#include "core/spec_text.h"

namespace apscope::detail {

// What a program is made from. chunk: of a ring.
struct Ranks {
    int workers, group, chunk;
};

struct TopologyForm {
    std::string_view name;
    void (*program)(ReductionProgram& program, const Ranks& ranks);
    std::string_view collective;   // of definitions.md section 12
    bool has_groups = false;       // NAME:G
    bool keeps_accumulator = false;  // NAME+kahan, too
    bool has_phases = false;         // NAME[,key=value...]; no program
};

namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

// 0, 1, ..., workers - 1.
std::vector<int> all(int workers) {
    std::vector<int> ranks(static_cast<std::size_t>(workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

void in_order(std::vector<Hop>& hops, const std::vector<int>& rows) {
    for (std::size_t i = 1; i < rows.size(); ++i) hops.push_back({rows[0], rows[i], i == 1});
}

void sequential(ReductionProgram& program, const Ranks& r) {
    in_order(program.hops, all(r.workers));
}

void ring(ReductionProgram& program, const Ranks& r) {
    std::vector<int> ranks = all(r.workers);
    for (int& rank : ranks) rank = (r.chunk + rank + 1) % r.workers;
    in_order(program.hops, ranks);
    program.result = ranks[0];
}

// Neighbours are added at each level, an odd last one passes to the next.
void tree(ReductionProgram& program, const Ranks& r) {
    std::vector<int> level = all(r.workers);
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

void hierarchical(ReductionProgram& program, const Ranks& r) {
    std::vector<int> leaders;
    for (int first = 0; first < r.workers; first += r.group) {
        std::vector<int> ranks = all(std::min(r.group, r.workers - first));
        for (int& rank : ranks) rank += first;
        in_order(program.hops, ranks);
        leaders.push_back(first);
    }
    in_order(program.hops, leaders);
}

// The only list of topologies, beside `exact` and `gather`.
constexpr auto forms = std::to_array<TopologyForm>({
    {"sequential", sequential, "all_gather", false, true},
    {"ring", ring, "ring"},
    {"tree", tree, "tree"},
    {"hierarchical", hierarchical, "hierarchical", true, true},
    {"two_phase", nullptr, "shards", false, false, true},
    {"reduce_scatter", nullptr, "shards", false, false, true},
});
constexpr std::string_view scatters = "reduce_scatter";

const TopologyForm* find_form(std::string_view name) {
    const auto* found = std::find_if(forms.begin(), forms.end(),
                                     [&](const TopologyForm& f) { return f.name == name; });
    return found == forms.end() ? nullptr : found;
}

// sum=, own= and, where sums are encoded again, phase2=.
TwoPhase phases_of(const std::string& whole, std::string_view name,
                   std::span<const std::string_view> settings) {
    TwoPhase phases;
    phases.finishes = name != scatters;
    for (const std::string_view setting : settings) {
        const std::size_t equals = setting.find('=');
        const std::string_view key = setting.substr(0, equals),
                               value =
                                   equals == setting.npos ? "" : setting.substr(equals + 1);
        if (key == "sum" && (value == "fp32" || value == "exact")) phases.sum = value;
        else if (key == "sum") phases.sum = parse_format(value).name();
        else if (key == "own" && (value == "exact" || value == "encoded"))
            phases.own_exact = value == "exact";
        else if (key == "phase2" && phases.finishes && value.starts_with('(') &&
                 value.ends_with(')'))
            phases.phase2 = value.substr(1, value.size() - 2);
        else
            refuse("topology '" + limits::clipped(whole) + "' has '" + limits::clipped(setting) +
                   "'; its keys are sum=fp32, sum=exact or sum=FORMAT, own=encoded or own=exact" +
                   (phases.finishes ? " and phase2=(SCHEME), as in phase2=(aps:e5m2)" : ""));
    }
    return phases;
}

// "a, b or c".
std::string listed(const std::vector<std::string>& names, std::string_view last = " or ") {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i != 0) text += i + 1 == names.size() ? last : ", ";
        text += names[i];
    }
    return text;
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

std::string_view collective_name(std::string_view topology) {
    const TopologyForm* form = find_form(topology.substr(0, topology.find_first_of(":+,")));
    return form == nullptr ? "" : form->collective;
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
    return std::string(form->name) + (form->has_groups ? ":" + std::to_string(group) : "") +
           (kahan ? "+kahan" : "") + phases.text();
}

Topology parse_topology(std::string_view name) {
    const std::string whole(name);
    const std::vector<std::string_view> pieces = split_outside(name, ',');
    const TopologyForm* phased = find_form(pieces[0]);
    if (phased != nullptr && phased->has_phases) {
        return {Topology::Kind::two_phase, 0, false, phased,
                phases_of(whole, pieces[0], std::span(pieces).subspan(1))};
    }
    Topology t;
    if (name.ends_with("+kahan")) {
        t.kahan = true;
        name.remove_suffix(6);
    }
    const std::size_t colon = name.find(':');
    const TopologyForm* form = find_form(name.substr(0, colon));
    if (form == nullptr ? name != "exact" : !form->has_groups && colon != name.npos)
        refuse("unknown topology '" + limits::clipped(whole) + "'; use " +
               listed(topology_names()));
    if (form != nullptr) {
        t.form = form;
        t.kind = form->program == ring ? Topology::Kind::ring : Topology::Kind::ordered;
        if (form->has_groups) {
            t.group =
                colon == name.npos ? 0 : parse_number<int>(name.substr(colon + 1)).value_or(0);
            if (t.group < 1)
                refuse("topology '" + limits::clipped(whole) +
                       "' needs a group size of 1 to 2147483647, as in " + std::string(form->name) +
                       ":4");
        }
    }
    if (t.kahan && (form == nullptr || !form->keeps_accumulator)) {
        std::vector<std::string> keep;
        for (const TopologyForm& f : forms)
            if (f.keeps_accumulator) keep.emplace_back(f.name);
        refuse("topology '" + limits::clipped(whole) +
               "' cannot keep a compensation: +kahan needs an accumulator, which only " +
               listed(keep, " and ") + " keep");
    }
    return t;
}

ReductionProgram reduction_program(const Topology& t, int workers, int chunk) {
    ReductionProgram program;
    program.additions_per_hop = t.kahan ? 4 : 1;
    program.hops.reserve(static_cast<std::size_t>(workers));
    const bool has_program = t.form != nullptr && t.form->program != nullptr;
    (has_program ? t.form->program : sequential)(program, {workers, t.group, chunk});
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
