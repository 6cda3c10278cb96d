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

// The parameters and the results of measure() of each worker's row.
struct Phase1Rows {
    std::vector<Parameters> theta;
    Rows measured;

    void fields(Fields&) {}
};

// The step of an exchange with one worker. bucket: the bucket of this worker, or null.
TrainingStep alone(const TrainingStep& step, const Bucket* bucket = nullptr) {
    TrainingStep one = step;
    one.message_count = std::max(step.message_count, 2 * step.workers);
    one.workers = 1;
    one.bucket = bucket;
    return one;
}
Bucket bucket_of(const TrainingStep& step, std::size_t worker) {
    return step.bucket != nullptr ? step.bucket->of(worker, step.bucket->first) : Bucket{};
}

// The parameters and the result of measure() of a row that is encoded alone.
struct Chosen {
    Parameters theta;
    Row measured;
};
Chosen choose_alone(const SchemeParts& parts, const TrainingStep& step, State& state,
                    const RowReader& row) {
    Chosen chosen{parts.choice.parameters({step, state, {&row, 1}}), {}};
    if (parts.choice.draw) parts.choice.draw(step, chosen.theta, row.size);
    if (parts.choice.measure) chosen.measured = parts.choice.measure({step, chosen.theta, row});
    return chosen;
}

// Adds the messages in the format of phases.sum; phase 2 then encodes the sum.
void add_up(const TwoPhase& phases, const std::optional<RowCast>& accumulator, const SentPieces& s,
            Row& sum) {
    if (phases.sum == "exact") return exact_sum(s.messages, sum);
    if (!accumulator) return gathered_sum(s.messages, sum);
    std::vector<const double*> rows;
    for (const Message& m : s.messages) rows.push_back(m.values.data());
    sum.resize(s.messages.at(0).values.size());
    if (sum.empty()) return;
    thread_local ReduceScratch<double> scratch;
    detail::reduce(parse_topology("sequential"), rows, s.place.first, sum.size(), s.place.size,
                   *accumulator, s.step.key, sum, scratch);
}

// Encodes the sums of the shards in phase 2, and appends the moments of the encoded sums.
struct Phase2Encoder {
    const SchemeParts& parts;
    TrainingStep step;  // for one worker, with the shape of the current shard
    Row finite;
    Message m;
    SumMoments* moments;  // null if not requested
    bool drawn;           // true: the sum contains values that were rounded stochastically

    void encode(State& state, std::size_t owner, std::span<double> sum);

private:
    void add_moments(std::span<const double> sum);
};

// Encodes the sum of one shard in place. Elements that are not finite bypass a scheme that does not
// encode them.
void Phase2Encoder::encode(State& state, std::size_t owner, std::span<double> sum) {
    std::uint64_t special = 0;
    for (const double x : sum) special += x - x == 0.0 ? 0 : 1;
    std::span<const double> seen = sum;
    if (special != 0 && !parts.encoding.sees_special) {
        finite.assign(sum.begin(), sum.end());
        std::ranges::replace_if(finite, [](double x) { return !std::isfinite(x); }, 0.0);
        seen = finite;
    }
    if (!parts.encoding.sees_special) step.nonfinite = special;
    step.describes = step.describes && moments != nullptr;
    const Chosen chosen = choose_alone(parts, step, state, RowReader::of(seen));
    const bool encodes = parts.encoding.sees_special || parts.encodes_special();
    const std::span<const double> x = encodes ? std::span<const double>(sum) : seen;
    parts.encoding.make({step, chosen.theta, chosen.measured, {0, sum.size()}, x, owner}, m);
    if (moments != nullptr) add_moments(sum);
    for (std::size_t i = 0; i < sum.size(); ++i)
        if (special == 0 || encodes || std::isfinite(sum[i])) sum[i] = m.values[i];
}

// Appends the moments of a shard. If the sum is already random, its moments are known only for an
// encoding without bias, that is without saturation. After a shard with unknown moments, no moments
// are computed.
void Phase2Encoder::add_moments(std::span<const double> sum) {
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

// The transport of two phases, in which each message carries its scale.
Transport phased(const SchemeParts& phase1, const SchemeParts& phase2) {
    Transport t;
    t.phased = true;
    t.code_bits = phase1.transport.code_bits;
    t.scale_bits = phase1.transport.scale_bits;
    t.whole_bits = phase1.transport.whole_bits;
    t.unit = phase1.transport.unit;
    // False if the side information is one scale per tensor.
    t.side_in_parts = !phase1.encoding.float_encoder || phase1.encoding.encode;
    if (&phase2 == &phase1) return t;
    const int bits = phase2.transport.code_bits;
    t.phase2_width = t.code_bits > 0 && bits > 0 ? static_cast<double>(bits) / t.code_bits
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
        Phase1Rows& rows = theta.extra.of<Phase1Rows>();
        TrainingStep step = alone(s.step);
        std::vector<double> scales;
        for (std::size_t w = 0; w < s.rows.size(); ++w) {
            const Bucket bucket = bucket_of(s.step, w);
            step.bucket = s.step.bucket != nullptr ? &bucket : nullptr;
            if (!s.step.nonfinite_of.empty()) step.nonfinite = s.step.nonfinite_of[w];
            Chosen chosen = choose_alone(parts, step, states.first[w], s.rows[w]);
            theta.skipped = theta.skipped || chosen.theta.skipped;
            if (chosen.theta.scale) scales.push_back(*chosen.theta.scale);
            rows.theta.push_back(std::move(chosen.theta));
            rows.measured.push_back(std::move(chosen.measured));
        }
        if (scales.size() == s.rows.size()) theta.scale_exponent = common_exponent(scales);
        return theta;
    };
}

}  // namespace

void keep_own_shard(const RowPiece& p, std::size_t workers, Message& m) {
    const Bucket* const bucket = p.step.bucket;
    const std::size_t first = bucket != nullptr ? bucket->first : p.place.first,
                      size = bucket != nullptr ? bucket->size() : p.place.size;
    const Shard shard = shard_of(p.worker, size, workers);
    for (std::size_t at = std::max(shard.first, first);
         at < std::min(shard.first + shard.count, first + p.x.size()); ++at) {
        const std::size_t i = at - first;
        m.values[i] = static_cast<float>(p.x[i]);
        if (!m.variance.empty()) m.bias[i] = m.variance[i] = 0.0;
        if (!m.saturated.empty()) m.saturated[i] = 0;
    }
}

void encode_neighbours(const SchemeParts& parts, bool own_exact, const TrainingStep& step,
                       std::size_t workers, const RowReader& seen, std::span<const double> x,
                       std::size_t worker, Message& m) {
    const TrainingStep one = alone(step, step.bucket);
    State none;
    const Chosen chosen = choose_alone(parts, one, none, seen);
    const RowPiece piece{one, chosen.theta, chosen.measured, {0, x.size()}, x, worker};
    parts.encoding.make(piece, m);
    if (own_exact) keep_own_shard(piece, workers, m);
}

void encode_shard(const SchemeParts& parts, const TrainingStep& step, State& state,
                  std::size_t worker, std::size_t elements, std::span<double> sum) {
    Phase2Encoder phase2{parts, alone(step), {}, {}, nullptr, true};
    phase2.step.row = row_length(step, elements);
    phase2.step.shape = {static_cast<std::int64_t>(sum.size())};
    phase2.encode(state, worker, sum);
}

bool has_two_phases(const SchemeParts& scheme) {
    const SchemeEncoding& encoding = scheme.encoding;
    const bool crosses = encoding.crosses_topologies();
    const bool gathers = scheme.topology == reductions::gather && !encoding.reduces() && !crosses;
    // Schemes that divide codes are excluded, because two phases do not divide the sum of a shard.
    const bool adds = crosses && encoding.float_encoder->grid.division == Division{};
    // A choice may have a state per row, but not a state that an exchange of all workers updates.
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
                          std::shared_ptr<const Scheme> phase2) {
    const auto phase1 = std::make_shared<const Scheme>(scheme);
    const bool names_phase2 = phase2 != nullptr;
    if (!names_phase2) phase2 = phase1;
    for (const Scheme* one : {phase1.get(), phase2.get()}) {
        if (!has_two_phases(one->own_parts()))
            throw std::invalid_argument("scheme '" + one->spec +
                                        "' does not encode a tensor by itself, as topology '" +
                                        topology.name() + "' needs");
    }
    if (names_phase2 && !phase2->parts.only_encodes())
        throw std::invalid_argument("phase2=(" + phase2->spec +
                                    ") does more to a tensor than scale and round it, which a sum "
                                    "cannot undergo; give a scheme such as aps:e5m2");
    if (names_phase2 && phase2->parts.bucket != 0)
        throw std::invalid_argument("phase2=(" + phase2->spec +
                                    ") counts blocks through a bucket of its own; phase 2 has the "
                                    "shards of phase 1's, so leave bucket out");
    if (phase1->parts.bucket != 0 && phase2->parts.keeps_state())
        throw std::invalid_argument("phase2=(" + phase2->spec +
                                    ") remembers the steps of a tensor, but the shards of '" +
                                    phase1->spec + "' are those of a bucket; leave bucket out");
    const TwoPhase phases = topology.phases;
    std::optional<RowCast> accumulator;
    if (phases.sum != "fp32" && phases.sum != "exact")
        accumulator = make_accumulator(parse_format(phases.sum), {});

    SchemeParts parts = phase1->parts;
    parts.topology = topology.name();
    parts.run = whole_row;
    parts.transport = phased(phase1->parts, phase2->parts);
    parts.whole_shards = parts.bucket != 0 && phases.has_phase2 && phase2->parts.block == 0;
    for (const std::string& need : phase2->parts.needs)
        if (phases.has_phase2 && std::ranges::count(parts.needs, need) == 0)
            parts.needs.push_back(need);
    parts.choice = {.select = select_alone(phase1)};
    if (phase1->parts.choice.draw) parts.choice.draw = common_words;
    parts.memory.keeps =
        phase1->parts.keeps_state() || (phases.has_phase2 && phase2->parts.keeps_state());
    // The variance of a sum of messages with common random words is not the sum of their variances.
    const bool adds_variances = phases.sum == "exact" && !phase1->parts.choice.draw;
    const SchemeEncoding& one = phase1->parts.encoding;
    std::shared_ptr<const PlainPhases> plain;
    if (phases.sum == "fp32" && !phases.own_exact)
        plain = std::make_shared<const PlainPhases>(
            PlainPhases{phase1, phases.has_phase2 ? phase2 : nullptr});
    parts.encoding = {.float_phases = plain && are_float_phases(*plain) ? plain : nullptr,
                      .plain_phases = plain,
                      .tables = one.tables,
                      .draws = phase1->parts.draws(),
                      .sum_draws = phases.has_phase2 && phase2->parts.draws(),
                      .is_exact_sum = !phases.has_phase2 && adds_variances,
                      .sees_special = one.sees_special,
                      .rounds_special = one.rounds_special,
                      .mixes_elements =
                          one.mixes_elements ||
                          (phases.has_phase2 && phase2->parts.encoding.mixes_elements)};
    parts.encoding.encode = [phase1, phases](const RowPiece& p, Message& m) {
        const Phase1Rows& rows = p.theta.of<Phase1Rows>();
        const Bucket bucket = bucket_of(p.step, p.worker);
        const TrainingStep step = alone(p.step, p.step.bucket != nullptr ? &bucket : nullptr);
        phase1->parts.encoding.make(
            {step, rows.theta[p.worker], rows.measured[p.worker], p.place, p.x, p.worker}, m);
        if (phases.own_exact) keep_own_shard(p, static_cast<std::size_t>(p.step.workers), m);
    };
    const auto in_bucket = [phase1, phases, accumulator, phase2](const SentPieces& s, Row& sum) {
        PhaseStates& states = s.state.of<PhaseStates>();
        states.second.resize(s.workers());
        const auto encode = [&](const TrainingStep& step, const RowReader& seen,
                                std::span<const double> x, std::size_t worker, Message& m) {
            encode_neighbours(phase1->parts, phases.own_exact, step, s.workers(), seen, x, worker,
                              m);
        };
        const auto add = [&](const SentPieces& sent, Row& total) {
            add_up(phases, accumulator, sent, total);
        };
        const auto encode_sum = [&](const TrainingStep& step, std::size_t owner,
                                    std::span<double> shard) {
            Phase2Encoder encoder{phase2->parts, step, {}, {}, nullptr, true};
            encoder.encode(states.second[owner], s.workers() + owner, shard);
        };
        reduce_bucket(s, {encode, add, encode_sum}, phase2->parts.block, sum);
    };
    const auto add = [phases, accumulator](const SentPieces& s, Row& sum) {
        add_up(phases, accumulator, s, sum);
    };
    const auto encode_sum = [phases, phase1, phase2, adds_variances](const AddedRows& added,
                                                                     Row& sum) {
        if (added.moments != nullptr) *added.moments = {};
        if (!phases.has_phase2) return;
        const bool certain = !phase1->parts.draws() || added.are_certain,
                   known = certain || (adds_variances && added.have_variances);
        const bool has_moments = added.moments != nullptr && phase2->parts.draws() && known;
        const std::size_t workers = added.workers;
        PhaseStates& states = added.state.of<PhaseStates>();
        states.second.resize(workers);
        Phase2Encoder encoder{
            phase2->parts, alone(added.step), {}, {}, has_moments ? added.moments : nullptr,
            !certain};
        encoder.step.row = row_length(added.step, sum.size());
        for (std::size_t w = 0; w < workers; ++w) {
            const Shard shard = shard_of(w, sum.size(), workers);
            if (shard.count == 0) continue;
            encoder.step.shape = {static_cast<std::int64_t>(shard.count)};
            encoder.encode(states.second[w], workers + w,
                           std::span(sum).subspan(shard.first, shard.count));
        }
    };
    parts.encoding.reduce = [phases, in_bucket, add, encode_sum](const SentPieces& s, Row& sum) {
        if (s.step.bucket != nullptr && phases.has_phase2) {
            if (s.moments != nullptr) *s.moments = {};
            return in_bucket(s, sum);
        }
        add(s, sum);
        AddedRows added{s.step, s.state, s.workers()};
        added.add(s.messages);
        added.moments = s.moments;
        encode_sum(added, sum);
    };
    const bool in_pieces = parts.bucket == 0 && phase1->parts.run != whole_row &&
                           phase1->parts.only_encodes() && phase2->parts.only_encodes();
    if (in_pieces)
        parts.encoding.whole_sum =
            WholeSum{phase1->parts.run, adds_variances && phase2->parts.draws(), add, encode_sum};
    return parts;
}

std::shared_ptr<const Scheme> reduced_by(const Topology& topology,
                                         std::shared_ptr<const Scheme> scheme) {
    if (topology.is_order() || scheme->is_policy()) return scheme;
    if (topology.kind == Topology::Kind::levels) {
        // A scheme that supports only its own reduction is not composed with the levels.
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
    std::shared_ptr<const Scheme> phase2;
    if (!topology.phases.phase2.empty())
        phase2 = std::make_shared<const Scheme>(parse_scheme(topology.phases.phase2));
    Scheme made = *scheme;
    made.parts = in_two_phases(*scheme, topology, phase2);
    return std::make_shared<const Scheme>(std::move(made));
}

}  // namespace apscope::detail
