#include "emulation/schemes/levels.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "emulation/schemes/definition.h"
#include "emulation/schemes/exchange_run.h"
#include "emulation/schemes/named_states.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

namespace {

struct LevelNames {
    static constexpr const char *first = "inside/", *second = "over/";
};
// One state per group, and one for the exchange of the groups' sums.
using LevelStates = TwoStates<LevelNames>;

// The parameters of every group, and the results of measure() for every worker.
struct Inside {
    std::vector<Parameters> groups;
    Rows measured;

    void fields(Fields&) {}
};

struct Group {
    std::size_t number, first, size;
};
std::vector<Group> groups_of(std::size_t workers, int size) {
    std::vector<Group> groups;
    for (std::size_t first = 0; first < workers;) {
        const std::size_t count = std::min(static_cast<std::size_t>(size), workers - first);
        groups.push_back({groups.size(), first, count});
        first += count;
    }
    return groups;
}

// The step of an exchange with the given number among only these workers.
TrainingStep exchange_of(const TrainingStep& step, std::size_t number, std::size_t workers) {
    TrainingStep one = step;
    one.workers = static_cast<int>(workers);
    one.key = level_key(step.key, static_cast<std::uint32_t>(number));
    one.nonfinite = 0;
    one.nonfinite_of.clear();
    return one;
}
TrainingStep inside(const TrainingStep& step, const Group& group) {
    TrainingStep one = exchange_of(step, group.number, group.size);
    if (step.nonfinite_of.empty()) return one;
    const auto begin = step.nonfinite_of.begin() + static_cast<std::ptrdiff_t>(group.first);
    one.nonfinite_of.assign(begin, begin + static_cast<std::ptrdiff_t>(group.size));
    for (const std::uint64_t special : one.nonfinite_of) one.nonfinite += special;
    return one;
}

// The scheme with `format` in place of its format or block format.
Scheme with_format(const Scheme& scheme, const std::string& format) {
    const bool of_blocks = scheme.format.empty() && scheme.keys.contains("block_format");
    std::string spec = scheme.name + ":" + (of_blocks ? "block_format=" : "") + format;
    for (const auto& [key, value] : scheme.keys)
        if (!of_blocks || key != "block_format") spec += "," + key + "=" + value;
    return parse_scheme(spec);
}

std::string refusal_of_level(const Topology& level, const Scheme& scheme) {
    const SchemeParts& parts = scheme.parts;
    const std::string begins = "scheme '" + scheme.spec + "' ";
    if (parts.bucket != 0)
        return begins + "has blocks that cross tensors, but a level is an exchange of one; leave "
                        "bucket out";
    if (level.kind == Topology::Kind::two_phase)
        return has_two_phases(parts) ? ""
                                     : begins + "does not encode a tensor by itself, as level '" +
                                           level.name() + "' needs";
    if (!parts.encoding.crosses_topologies())
        return begins + "gives each worker's values scales of their own, so level '" +
               level.name() + "' cannot add its codes; use two_phase there";
    if (parts.choice.joins_tensors || parts.choice.looks_ahead)
        return begins + "has one scale for several tensors, but a level is an exchange of one";
    return "";
}

std::shared_ptr<const Scheme> at_level(const Scheme& scheme, const Topology& level) {
    return std::make_shared<const Scheme>(level.format.empty() ? scheme
                                                               : with_format(scheme, level.format));
}

Parameters choose_inside(const SchemeParts& parts, int size, const Selection& s) {
    const std::vector<Group> groups = groups_of(s.rows.size(), size);
    LevelStates& states = s.state.of<LevelStates>();
    states.first.resize(groups.size());
    Parameters theta;
    Inside& chosen = theta.extra.of<Inside>();
    std::vector<double> scales;
    for (const Group& group : groups) {
        const TrainingStep step = inside(s.step, group);
        const std::span<const RowReader> rows = s.rows.subspan(group.first, group.size);
        State& state = states.first[group.number];
        Parameters& group_theta =
            chosen.groups.emplace_back(parts.choice.parameters({step, state, rows}));
        theta.skipped = theta.skipped || group_theta.skipped;
        if (group_theta.scale) scales.push_back(*group_theta.scale);
        for (const RowReader& row : rows)
            chosen.measured.push_back(
                parts.choice.measure ? parts.choice.measure({step, group_theta, row}) : Row());
    }
    if (scales.size() == groups.size()) theta.scale_exponent = common_exponent(scales);
    return theta;
}

// The sum of one group, narrowed to fp32.
std::vector<float> sum_inside(const SchemeParts& parts, const Topology& level, const SentPieces& s,
                              const Group& group, State& state) {
    const auto begin = s.messages.begin() + static_cast<std::ptrdiff_t>(group.first);
    const std::vector<Message> sent(begin, begin + static_cast<std::ptrdiff_t>(group.size));
    const TrainingStep step = inside(s.step, group);
    Row sum;
    parts.encoding.add(
        {step, state, s.theta.of<Inside>().groups[group.number], s.place, sent, level}, sum);
    std::vector<float> narrow(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) narrow[i] = static_cast<float>(sum[i]);
    return narrow;
}

}  // namespace

std::string refusal_of_levels(const Topology& topology, const Scheme& scheme) {
    const SchemeParts& parts = scheme.own_parts();
    const std::string begins = "scheme '" + scheme.spec + "' ";
    if (!parts.only_encodes())
        return begins + "does more to a tensor than scale and round it, which the sums of '" +
               topology.name() + "' cannot undergo; give a scheme such as aps:e5m2";
    for (const Topology& level : topology.levels) {
        const bool has_format = parts.defined_as.empty() &&
                                (!scheme.format.empty() || scheme.keys.contains("block_format"));
        if (!level.format.empty() && !has_format)
            return begins + "has no format that level '" + level.name() + "' could replace";
        try {
            const std::string reason = refusal_of_level(level, *at_level(scheme, level));
            if (!reason.empty()) return reason;
        } catch (const std::invalid_argument& error) {
            // at_level() throws if the scheme cannot use the level's format.
            return error.what();
        }
    }
    return "";
}

SchemeParts in_levels(const Scheme& scheme, const Topology& topology) {
    const std::string reason = refusal_of_levels(topology, scheme);
    if (!reason.empty()) throw std::invalid_argument(reason);
    const Topology &within = topology.levels[0], &above = topology.levels[1];
    const auto lower = reduced_by(within, at_level(scheme, within)),
               upper = reduced_by(above, at_level(scheme, above));
    const int size = topology.group;

    const SchemeParts& leaf = lower->parts;
    SchemeParts parts;
    parts.grid = leaf.grid;
    parts.topology = topology.name();
    parts.needs = leaf.needs;
    for (const std::string& need : upper->parts.needs)
        if (std::ranges::count(parts.needs, need) == 0) parts.needs.push_back(need);
    parts.defined_as = leaf.defined_as;
    parts.run = whole_row;
    parts.transport = leaf.transport;
    parts.transport.over = std::make_shared<const Transport>(upper->parts.transport);
    parts.memory.keeps = leaf.keeps_state() || upper->parts.keeps_state();
    parts.basis.turns_in_encode = leaf.basis.turns_in_encode;
    parts.choice.select = [lower, size](const Selection& s) {
        return choose_inside(lower->parts, size, s);
    };
    if (leaf.choice.draw)
        parts.choice.draw = [lower, size](const TrainingStep& step, Parameters& theta,
                                          std::size_t n) {
            for (const Group& group : groups_of(static_cast<std::size_t>(step.workers), size))
                lower->parts.choice.draw(inside(step, group),
                                         theta.extra.of<Inside>().groups[group.number], n);
        };
    parts.encoding = {
        .tables = leaf.encoding.tables,
        .draws = leaf.draws(),
        .sum_draws = leaf.sums_draw() || upper->parts.draws() || upper->parts.sums_draw(),
        .sees_special = leaf.encoding.sees_special,
        .rounds_special = leaf.encoding.rounds_special,
        .mixes_elements = leaf.encoding.mixes_elements || upper->parts.encoding.mixes_elements};
    parts.encoding.encode = [lower, size](const RowPiece& p, Message& m) {
        const std::size_t number = p.worker / static_cast<std::size_t>(size);
        const Group group = groups_of(static_cast<std::size_t>(p.step.workers), size)[number];
        const Inside& chosen = p.theta.of<Inside>();
        const TrainingStep step = inside(p.step, group);
        lower->parts.encoding.make({step, chosen.groups[number], chosen.measured[p.worker], p.place,
                                    p.x, p.worker - group.first},
                                   m);
    };
    parts.encoding.reduce = [lower, upper, size, within, above](const SentPieces& s, Row& sum) {
        LevelStates& states = s.state.of<LevelStates>();
        const std::vector<Group> groups = groups_of(s.workers(), size);
        std::vector<std::vector<float>> sums;
        for (const Group& group : groups)
            sums.push_back(sum_inside(lower->parts, within, s, group, states.first[group.number]));
        if (sums.size() == 1) {
            sum.assign(sums[0].begin(), sums[0].end());
            return;
        }
        TrainingStep step = exchange_of(s.step, groups.size(), groups.size());
        step.packs = false;
        states.second.resize(1);
        const std::vector<std::span<const float>> rows(sums.begin(), sums.end());
        sum = std::move(
            exchange(upper->parts, step, states.second[0], rows, std::span(&above, 1)).reduced[0]);
    };
    return parts;
}

}  // namespace apscope::detail
