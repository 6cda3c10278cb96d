#include "analysis/summary/modelled_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "analysis/summary/losses.h"
#include "core/parse.h"

namespace apscope::detail {

namespace {

using C = NumberColumn;

Cost in_messages(Cost cost, double messages) {
    cost.inter.messages *= messages;
    cost.intra.messages *= messages;
    return cost;
}

// The number of messages (buckets) of each group over all steps.
std::vector<double> buckets_of(const RowTable& table, const ChosenRows& rows, const Groups& groups,
                               std::span<const double> values, std::optional<double> limit) {
    std::vector<double> messages(groups.size(), 0.0);
    if (!limit) {  // one message per step
        const Groups steps = divided(groups, rows, table.step);
        for (const std::uint32_t owner : steps.owners(groups)) ++messages[owner];
        return messages;
    }
    std::vector<double> bytes(groups.size(), 0.0);
    std::vector<std::int32_t> last(groups.size(), -1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t g = groups.of_row[i];
        const std::int32_t step = table.step.of_row[rows.row[i]];
        if (step != last[g] || bytes[g] >= *limit) {
            ++messages[g];
            bytes[g] = 0.0;
            last[g] = step;
        }
        bytes[g] += 4.0 * values[i];
    }
    return messages;
}

void check(const TimeOptions& options) {
    if (!collective_of(options.baseline))
        throw std::invalid_argument("baseline='" + options.baseline +
                                    "' has no model; use a topology such as ring");
    if (options.elements && !(*options.elements > 0 && std::isfinite(*options.elements)))
        throw std::invalid_argument("elements=" + shortest(*options.elements) +
                                    " must be a number of parameters above 0");
    if (options.bucket_bytes && !(*options.bucket_bytes >= 0))
        throw std::invalid_argument("bucket_bytes=" + shortest(*options.bucket_bytes) +
                                    " is not a size; give bytes, 0 for one message per tensor");
}

// Marks the groups that have a row without numbers, whose note starts with `begin`.
std::vector<std::uint8_t> without_numbers(const RowTable& table, const ChosenRows& rows,
                                          const Groups& groups, std::string_view begin) {
    std::vector<std::uint8_t> dark(groups.size(), 0);
    if (table.note.of_row.empty() || begin.empty()) return dark;
    std::vector<std::uint8_t> such;
    for (const std::string& note : table.note.names) such.push_back(note.starts_with(begin));
    for (std::size_t i = 0; i < rows.size(); ++i)
        dark[groups.of_row[i]] |= such[static_cast<std::size_t>(table.note.of_row[rows.row[i]])];
    return dark;
}

}  // namespace

void SideBits::add(double bits) {
    if (bits > 0) narrowest_ = std::min(narrowest_, bits);
    widest_ = std::isnan(bits) || std::isnan(widest_) ? missing : std::max(widest_, bits);
    sum_ += bits;
}

CollectiveAlgorithm parse_side_collective(std::string_view name) {
    if (name != "ring" && name != "tree" && name != "halving")
        throw std::invalid_argument("side_collective='" + std::string(name) +
                                    "' is unknown; use ring, tree or halving");
    return parse_collective(name);
}

SideMessages parse_side_messages(std::string_view name) {
    if (name == "fused") return SideMessages::fused;
    if (name == "bucket") return SideMessages::bucket;
    if (name == "delayed") return SideMessages::delayed;
    throw std::invalid_argument("side='" + std::string(name) +
                                "' is unknown; use fused, bucket or delayed");
}

std::optional<StepTime> time_of(std::span<const TimedPart> parts, const std::string& spec,
                                int workers, const TransportOf& transport, const Links& links,
                                SideMessages side, CollectiveAlgorithm side_collective) {
    StepTime out{};
    double passes = 0, agreed_bytes = 0, agreed_buckets = 0, sent = 0;
    for (const TimedPart& part : parts) {
        const std::optional<Way> way =
            way_of(transport(spec, part.grid, part.reduction), part.reduction, part.values,
                   part.payload, part.travelling, part.agreed, workers);
        if (!way) return std::nullopt;
        const auto cost_of = [&](const Way& of) {
            const auto cost = cost_on_nodes(of, workers, links.nodes);
            return cost ? std::optional(in_messages(*cost, way->rounds * part.buckets)) : cost;
        };
        const std::optional<Cost> cost = cost_of(*way);
        if (!cost) return std::nullopt;
        const Cost bare = *cost_of(way->without_side());
        const double bare_seconds = transfer_seconds(bare, links);
        sent += latency_seconds(*cost, links) + bare_seconds;
        out.side_seconds += transfer_seconds(*cost, links) - bare_seconds;
        out.messages += cost->inter.messages + cost->intra.messages;
        out.payload_bytes += bare.inter.bytes;
        out.side_bytes += cost->inter.bytes - bare.inter.bytes;
        out.intra_bytes += cost->intra.bytes;
        out.node_bytes += cost->node;
        passes += cost->added + (part.grid == "fp32" ? 0.0
                                                     : 4 * part.values + part.payload +
                                                           cost->decoded + 4 * part.values);
        if (part.agreed != 0) {
            agreed_bytes += part.agreed;
            agreed_buckets += part.buckets;
            passes += 4 * part.values;  // the pass that computes the agreed statistics
        }
    }
    if (agreed_bytes != 0) {
        const Cost message =
            *cost_on_nodes(side_collective, {agreed_bytes, agreed_bytes, agreed_bytes, 0.0},
                           workers, 1, links.nodes);
        out.side_bytes += message.inter.bytes;
        out.node_bytes += message.node;
        if (side != SideMessages::delayed) {
            const Cost sides =
                in_messages(message, side == SideMessages::bucket ? agreed_buckets : 1.0);
            out.messages += sides.inter.messages + sides.intra.messages;
            out.side_seconds += latency_seconds(sides, links) + transfer_seconds(sides, links);
        }
    }
    out.pass_seconds = passes * links.pass_cost;
    out.seconds = sent + out.side_seconds + out.pass_seconds;
    out.side_share = out.seconds != 0 ? out.side_seconds / out.seconds : 0.0;
    return out;
}

StepTimes step_times(const RowTable& table, const TimeOptions& options,
                     const TransportOf& transport) {
    check(options);
    const ChosenRows rows = whole_sums(table);
    const Groups groups = by_scheme_and_topology(table, rows);
    const std::size_t count = groups.size();
    // Tensors with the same reduction and grid share messages. The model is linear in the bytes, so
    // the bytes of all steps are added up first.
    const Groups parts = divided(divided(groups, rows, table.topology), rows, table.format);
    const std::vector<std::uint32_t> owner = parts.owners(groups);
    const auto elements = table[C::count], wire_bits = table[C::wire_bits],
               side_bits = table[C::side_bits], workers = table.workers_of_rows();

    std::vector<double> steps = buckets_of(table, rows, groups, {}, std::nullopt);
    std::vector<double> recorded(count, 0.0), factor(count, 1.0);
    for (std::size_t i = 0; i < rows.size(); ++i)
        recorded[groups.of_row[i]] += elements[rows.row[i]];
    for (std::size_t g = 0; g < count; ++g) {
        recorded[g] /= steps[g];
        if (options.elements && recorded[g] > 0) factor[g] = *options.elements / recorded[g];
    }
    struct Sums {
        double count = 0, bits = 0;
        SideBits agreed, travelling;
    };
    std::vector<Sums> sums(parts.size());
    std::vector<double> limit;
    for (const std::uint32_t i : parts.first) {
        const std::uint32_t row = rows.row[i];
        const Transport t = transport(table.scheme[row], table.format[row], table.topology[row]);
        limit.push_back(static_cast<double>(t.agreed_bits));
    }
    std::vector<double> scaled(rows.size());  // the number of elements in the model, per row
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint32_t row = rows.row[i];
        Sums& s = sums[parts.of_row[i]];
        const double side = side_bits[row], most = limit[parts.of_row[i]];
        const double agreed = std::isnan(side) ? side : std::min(side, most);
        s.count += elements[row];
        s.bits += wire_bits[row];
        s.agreed.add(agreed);
        s.travelling.add(side - agreed);
        scaled[i] = factor[groups.of_row[i]] * elements[row];
    }
    const std::vector<double> part_buckets =
                                  buckets_of(table, rows, parts, scaled, options.bucket_bytes),
                              buckets =
                                  buckets_of(table, rows, groups, scaled, options.bucket_bytes);
    std::vector<std::vector<TimedPart>> parts_of(count);
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const std::size_t g = owner[p];
        const std::uint32_t row = rows.row[parts.first[p]];
        parts_of[g].push_back({factor[g] * sums[p].count / steps[g],
                               factor[g] * sums[p].bits / 8 / steps[g],
                               sums[p].agreed.bytes(factor[g]) / steps[g],
                               sums[p].travelling.bytes(factor[g]) / steps[g],
                               part_buckets[p] / steps[g], table.topology[row], table.format[row]});
    }

    StepTimes out;
    for (const std::uint32_t i : groups.first) {
        out.first.push_back(rows.row[i]);
        out.topology.push_back(rows.topology_of(i));
    }
    const std::vector<std::uint8_t> dark =
        without_numbers(table, rows, groups, options.not_measurable);
    const auto [baseline, node] = *collective_of(options.baseline);
    constexpr StepTime none{missing, missing, missing, missing, missing,
                            missing, missing, missing, missing};
    std::vector<StepTime> times(count, none);
    std::vector<double> fp32(count, missing);
    for (std::size_t g = 0; g < count; ++g) {
        if (dark[g]) continue;
        const std::uint32_t row = out.first[g];
        const int ranks = static_cast<int>(workers[row]);
        const std::optional<StepTime> time =
            time_of(parts_of[g], table.scheme[row], ranks, transport, options.links, options.side,
                    options.side_collective);
        if (!time) continue;
        times[g] = *time;
        const double bytes = 4 * factor[g] * recorded[g];
        const auto fp32_way =
            cost_on_nodes(baseline, {bytes, bytes, bytes, 0.0}, ranks, node, options.links.nodes);
        if (!fp32_way) continue;
        fp32[g] = seconds_of(in_messages(*fp32_way, buckets[g] / steps[g]), options.links);
    }
    const auto add = [&](const char* name, double StepTime::* field) {
        out.figures.add(name, count, [&](std::size_t g) { return times[g].*field; });
    };
    add("messages", &StepTime::messages);
    add("payload_bytes", &StepTime::payload_bytes);
    add("intra_bytes", &StepTime::intra_bytes);
    add("node_bytes", &StepTime::node_bytes);
    add("side_bytes", &StepTime::side_bytes);
    add("side_seconds", &StepTime::side_seconds);
    add("pass_seconds", &StepTime::pass_seconds);
    add("seconds", &StepTime::seconds);
    add("side_share", &StepTime::side_share);
    out.figures.add("fp32_seconds", count, [&](std::size_t g) { return fp32[g]; });
    out.figures.add("speedup", count, [&](std::size_t g) {
        return times[g].seconds != 0 && fp32[g] != 0 ? fp32[g] / times[g].seconds : missing;
    });
    return out;
}

}  // namespace apscope::detail
