#include "emulation/schemes/two_phase.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/named_formats.h"
#include "emulation/allreduce/reduce.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/float_phases.h"
#include "emulation/schemes/levels.h"
#include "emulation/schemes/named_states.h"
#include "emulation/schemes/shared/row_length.h"
#include "emulation/schemes/two_phase_bucket.h"

namespace apscope::detail {

namespace {

struct PhaseNames {
    static constexpr const char *first = "phase1/", *second = "phase2/";
};
// One state per worker, and one per shard.
using PhaseStates = TwoStates<PhaseNames>;

// The parameters and the measurements of each worker's row.
struct Leaves {
    std::vector<Parameters> theta;
    Rows own;

    void fields(Fields&) {}
};

// The step as an exchange of one worker. bucket: the bucket of this worker, or null.
TrainingStep alone(const TrainingStep& step, const Bucket* bucket = nullptr) {
    TrainingStep one = step;
    one.workers = 1;
    one.bucket = bucket;
    return one;
}
Bucket bucket_of(const TrainingStep& step, std::size_t worker) {
    return step.bucket != nullptr ? step.bucket->of(worker, step.bucket->first) : Bucket{};
}

// The parameters and measurements of a row that is encoded alone.
struct Chosen {
    Parameters theta;
    Row own;
};
Chosen choose_alone(const SchemeParts& parts, const TrainingStep& step, State& state,
                    const RowReader& row) {
    Chosen chosen{parts.choice.parameters({step, state, {&row, 1}}), {}};
    if (parts.choice.draw) parts.choice.draw(step, chosen.theta, row.size);
    if (parts.choice.measure) chosen.own = parts.choice.measure({step, chosen.theta, row});
    return chosen;
}

// Adds the messages; phase 2 then encodes the sum.
void add_up(const TwoPhase& phases, const std::optional<RowCast>& accumulator, const SentPieces& s,
            Row& sum) {
    if (phases.sum == "exact") return exact_sum(s.messages, sum);
    if (!accumulator) return gathered_sum(s.messages, sum);
    std::vector<const double*> rows;
    for (const Message& m : s.messages) rows.push_back(m.values.data());
    sum.resize(s.place.size);
    if (sum.empty()) return;
    thread_local ReduceScratch<double> scratch;
    detail::reduce(parse_topology("sequential"), rows, 0, sum.size(), sum.size(), *accumulator,
                   s.step.key, sum, scratch);
}

// Encodes the sums of the shards (phase 2), and appends the moments of these encodings.
struct Finish {
    const SchemeParts& parts;
    TrainingStep step;  // for one worker, with the shape of the current shard
    Row finite;
    Message m;
    SumMoments* moments;  // null: not requested
    bool drawn;           // true: the sum contains values that were rounded stochastically

    void encode(State& state, std::size_t owner, std::span<double> sum);

private:
    void add_moments(std::span<const double> sum);
};

// Encodes the sum of one shard in place. Elements that are not finite bypass the scheme.
void Finish::encode(State& state, std::size_t owner, std::span<double> sum) {
    std::uint64_t special = 0;
    for (const double x : sum) special += x - x == 0.0 ? 0 : 1;
    std::span<const double> seen = sum;
    if (special != 0 && !parts.encoding.sees_special) {
        finite.assign(sum.begin(), sum.end());
        std::ranges::replace_if(finite, [](double x) { return !std::isfinite(x); }, 0.0);
        seen = finite;
    }
    if (!parts.encoding.sees_special) step.nonfinite = special;
    const Chosen chosen = choose_alone(parts, step, state, RowReader::of(seen));
    const bool encodes = parts.encoding.sees_special || parts.encodes_special();
    const std::span<const double> x = encodes ? std::span<const double>(sum) : seen;
    parts.encoding.make({step, chosen.theta, chosen.own, {0, sum.size()}, x, owner}, m);
    if (moments != nullptr) add_moments(sum);
    for (std::size_t i = 0; i < sum.size(); ++i)
        if (special == 0 || encodes || std::isfinite(sum[i])) sum[i] = m.values[i];
}

// Appends the moments of a shard. If the sum is itself random, they are known only for an encoding
// without bias, that is without saturation. After a shard with unknown moments none are computed.
void Finish::add_moments(std::span<const double> sum) {
    const bool random = m.variance.size() == sum.size();
    if ((!random && (drawn || !m.certain)) || (drawn && !m.saturated.empty())) {
        *moments = {};
        moments = nullptr;
        return;
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
        moments->expected.push_back(random ? sum[i] + m.bias[i] : m.values[i]);
        moments->variance.push_back(random ? m.variance[i] : 0.0);
    }
}

// True if the variance of every message is known.
bool have_moments(const std::vector<Message>& messages) {
    return std::ranges::all_of(
        messages, [](const Message& m) { return m.variance.size() == m.values.size(); });
}
// True if no random word decided anything in these messages.
bool are_certain(const SchemeParts& leaf, const std::vector<Message>& messages) {
    return !leaf.draws() || std::ranges::all_of(messages, &Message::certain);
}

// Replaces the decoded values of the worker's own shard by the unencoded values, rounded to fp32.
void keep_own(const RowPiece& p, std::size_t workers, Message& m) {
    const Bucket* const bucket = p.step.bucket;
    const std::size_t first = bucket != nullptr ? bucket->first : 0,
                      size = bucket != nullptr ? bucket->size() : p.x.size();
    const Shard shard = shard_of(p.worker, size, workers);
    for (std::size_t at = std::max(shard.first, first);
         at < std::min(shard.first + shard.count, first + p.x.size()); ++at) {
        const std::size_t i = at - first;
        m.values[i] = static_cast<float>(p.x[i]);
        if (!m.variance.empty()) m.bias[i] = m.variance[i] = 0.0;
        if (!m.saturated.empty()) m.saturated[i] = 0;
    }
}

// The transport of two phases, in which each message carries its scale.
Transport phased(const SchemeParts& leaf, const SchemeParts& second) {
    Transport t;
    t.phased = true;
    t.code_bits = leaf.transport.code_bits;
    // False if the side information is one scale per tensor.
    t.side_in_parts = !leaf.encoding.float_encoder || leaf.encoding.encode;
    if (&second == &leaf) return t;
    const int bits = second.transport.code_bits;
    t.second_width = t.code_bits > 0 && bits > 0 ? static_cast<double>(bits) / t.code_bits
                                                 : std::numeric_limits<double>::quiet_NaN();
    return t;
}

std::function<Parameters(const Selection&)> select_alone(
    const std::shared_ptr<const Scheme>& scheme) {
    return [scheme](const Selection& s) {
        const SchemeParts& parts = scheme->parts;
        PhaseStates& states = s.state.of<PhaseStates>();
        states.first.resize(s.rows.size());
        Parameters theta;
        Leaves& leaves = theta.own.of<Leaves>();
        TrainingStep step = alone(s.step);
        std::vector<double> scales;
        for (std::size_t w = 0; w < s.rows.size(); ++w) {
            const Bucket bucket = bucket_of(s.step, w);
            step.bucket = s.step.bucket != nullptr ? &bucket : nullptr;
            if (!s.step.nonfinite_of.empty()) step.nonfinite = s.step.nonfinite_of[w];
            Chosen chosen = choose_alone(parts, step, states.first[w], s.rows[w]);
            theta.skipped = theta.skipped || chosen.theta.skipped;
            if (chosen.theta.scale) scales.push_back(*chosen.theta.scale);
            leaves.theta.push_back(std::move(chosen.theta));
            leaves.own.push_back(std::move(chosen.own));
        }
        if (scales.size() == s.rows.size()) theta.scale_exponent = common_exponent(scales);
        return theta;
    };
}

}  // namespace

Shard shard_of(std::size_t s, std::size_t elements, std::size_t workers) {
    const std::size_t length = (elements + workers - 1) / workers,
                      first = std::min(s * length, elements);
    return {first, std::min(length, elements - first)};
}

void encode_shard(const SchemeParts& second, const TrainingStep& step, State& state,
                  std::size_t worker, std::size_t elements, std::span<double> sum) {
    Finish finish{second, alone(step), {}, {}, nullptr, true};
    finish.step.row = row_length(step, elements);
    finish.step.shape = {static_cast<std::int64_t>(sum.size())};
    finish.encode(state, worker, sum);
}

bool has_two_phases(const SchemeParts& scheme) {
    const SchemeEncoding& encoding = scheme.encoding;
    const bool crosses = encoding.crosses_topologies();
    const bool gathers = scheme.topology == reductions::gather && !encoding.reduces() && !crosses;
    // Two phases do not divide a shard's sum.
    const bool adds = crosses && encoding.float_encoder->grid.division == Division{};
    // Each row can have its own state of a choice, but not a state that a whole exchange updates.
    const SchemeMemory& memory = scheme.memory;
    const bool remembers =
        memory.chooses_from_updates ||
        (scheme.choice.selects() && memory.updates() && !memory.feeds_errors_back);
    return (gathers || adds) && !scheme.choice.joins_tensors && !scheme.choice.looks_ahead &&
           !remembers;
}

bool adds_codes(const Topology& topology, const SchemeParts& scheme) {
    if (!scheme.encoding.crosses_topologies()) return false;
    if (topology.is_order()) return true;
    const bool plain = topology.kind == Topology::Kind::two_phase && topology.phases.text().empty();
    return plain && !has_two_phases(scheme);
}

SchemeParts in_two_phases(const Scheme& scheme, const Topology& topology,
                          const std::shared_ptr<const Scheme>& finish_with) {
    const auto leaf = std::make_shared<const Scheme>(scheme);
    const std::shared_ptr<const Scheme> second = finish_with ? finish_with : leaf;
    for (const Scheme* one : {leaf.get(), second.get()}) {
        if (!has_two_phases(one->own_parts()))
            throw std::invalid_argument("scheme '" + one->spec +
                                        "' does not encode a tensor by itself, as topology '" +
                                        topology.name() + "' needs");
    }
    const SchemeParts& last = second->parts;
    if (finish_with && !last.only_encodes())
        throw std::invalid_argument("phase2=(" + second->spec +
                                    ") does more to a tensor than scale and round it, which a sum "
                                    "cannot undergo; give a scheme such as aps:e5m2");
    if (finish_with && last.bucket != 0)
        throw std::invalid_argument("phase2=(" + second->spec +
                                    ") counts blocks through a bucket of its own; phase 2 has the "
                                    "shards of phase 1's, so leave bucket out");
    if (leaf->parts.bucket != 0 && last.keeps_state())
        throw std::invalid_argument("phase2=(" + second->spec +
                                    ") remembers the steps of a tensor, but the shards of '" +
                                    leaf->spec + "' are those of a bucket; leave bucket out");
    const TwoPhase phases = topology.phases;
    std::optional<RowCast> accumulator;
    if (phases.sum != "fp32" && phases.sum != "exact")
        accumulator = make_accumulator(parse_format(phases.sum), {});

    SchemeParts parts = leaf->parts;
    parts.topology = topology.name();
    parts.run = whole_row;
    parts.transport = phased(leaf->parts, second->parts);
    parts.whole_shards = parts.bucket != 0 && phases.finishes && last.block == 0;
    for (const std::string& need : last.needs)
        if (phases.finishes && std::ranges::count(parts.needs, need) == 0)
            parts.needs.push_back(need);
    parts.choice = {.select = select_alone(leaf)};
    parts.memory.keeps = leaf->parts.keeps_state() || (phases.finishes && last.keeps_state());
    // The variances of messages that share random words do not add up.
    const bool adds_variances = phases.sum == "exact" && !leaf->parts.choice.draw;
    const SchemeEncoding& one = leaf->parts.encoding;
    parts.encoding = {
        .float_phases = float_phases(phases, leaf, phases.finishes ? second : nullptr),
        .tables = one.tables,
        .draws = leaf->parts.draws(),
        .sum_draws = phases.finishes && last.draws(),
        .is_exact_sum = !phases.finishes && adds_variances,
        .sees_special = one.sees_special,
        .rounds_special = one.rounds_special,
        .mixes_elements = one.mixes_elements || (phases.finishes && last.encoding.mixes_elements)};
    parts.encoding.encode = [leaf, phases](const RowPiece& p, Message& m) {
        const Leaves& leaves = p.theta.of<Leaves>();
        const Bucket bucket = bucket_of(p.step, p.worker);
        const TrainingStep step = alone(p.step, p.step.bucket != nullptr ? &bucket : nullptr);
        leaf->parts.encoding.make(
            {step, leaves.theta[p.worker], leaves.own[p.worker], p.place, p.x, p.worker}, m);
        if (phases.own_exact) keep_own(p, static_cast<std::size_t>(p.step.workers), m);
    };
    const auto in_bucket = [leaf, phases, accumulator, second](const SentPieces& s, Row& sum) {
        PhaseStates& states = s.state.of<PhaseStates>();
        states.second.resize(s.workers());
        const auto encode = [&](const TrainingStep& step, const RowReader& seen,
                                std::span<const double> x, std::size_t worker, Message& m) {
            const TrainingStep one = alone(step, step.bucket);
            State none;
            const Chosen chosen = choose_alone(leaf->parts, one, none, seen);
            const RowPiece piece{one, chosen.theta, chosen.own, {0, x.size()}, x, worker};
            leaf->parts.encoding.make(piece, m);
            if (phases.own_exact) keep_own(piece, s.workers(), m);
        };
        const auto add = [&](const SentPieces& sent, Row& total) {
            add_up(phases, accumulator, sent, total);
        };
        const auto encode_again = [&](const TrainingStep& step, std::size_t owner,
                                      std::span<double> shard) {
            Finish finish{second->parts, step, {}, {}, nullptr, true};
            finish.encode(states.second[owner], s.workers() + owner, shard);
        };
        reduce_bucket(s, {encode, add, encode_again}, second->parts.block, sum);
    };
    parts.encoding.reduce = [phases, accumulator, leaf, second, adds_variances,
                             in_bucket](const SentPieces& s, Row& sum) {
        if (s.moments != nullptr) *s.moments = {};
        if (s.step.bucket != nullptr && phases.finishes) return in_bucket(s, sum);
        add_up(phases, accumulator, s, sum);
        if (!phases.finishes) return;
        const bool certain = are_certain(leaf->parts, s.messages),
                   known = certain || (adds_variances && have_moments(s.messages));
        const bool asks = s.moments != nullptr && second->parts.draws() && known;
        const std::size_t workers = s.workers();
        PhaseStates& states = s.state.of<PhaseStates>();
        states.second.resize(workers);
        Finish finish{second->parts, alone(s.step), {}, {}, asks ? s.moments : nullptr, !certain};
        finish.step.row = row_length(s.step, sum.size());
        for (std::size_t w = 0; w < workers; ++w) {
            const Shard shard = shard_of(w, sum.size(), workers);
            if (shard.count == 0) continue;
            finish.step.shape = {static_cast<std::int64_t>(shard.count)};
            finish.encode(states.second[w], workers + w,
                          std::span(sum).subspan(shard.first, shard.count));
        }
    };
    return parts;
}

std::shared_ptr<const Scheme> reduced_by(const Topology& topology,
                                         std::shared_ptr<const Scheme> scheme) {
    if (topology.is_order() || scheme->is_policy()) return scheme;
    if (topology.kind == Topology::Kind::levels) {
        // A scheme that has only its own reduction keeps it.
        if (!has_two_phases(scheme->parts) && !scheme->parts.encoding.crosses_topologies())
            return scheme;
        Scheme made = *scheme;
        made.parts = in_levels(*scheme, topology);
        return std::make_shared<const Scheme>(std::move(made));
    }
    if (!has_two_phases(scheme->parts)) {
        if (scheme->parts.encoding.crosses_topologies() && !adds_codes(topology, scheme->parts))
            throw std::invalid_argument(
                "scheme '" + scheme->spec +
                "' has one scale for several tensors or divides in the format, so the keys of '" +
                topology.name() + "' do not apply to it; give the topology without keys");
        return scheme;
    }
    std::shared_ptr<const Scheme> second;
    if (!topology.phases.phase2.empty())
        second = std::make_shared<const Scheme>(parse_scheme(topology.phases.phase2));
    Scheme made = *scheme;
    made.parts = in_two_phases(*scheme, topology, second);
    return std::make_shared<const Scheme>(std::move(made));
}

}  // namespace apscope::detail
