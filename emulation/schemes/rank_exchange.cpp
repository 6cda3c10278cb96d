#include "emulation/schemes/rank_exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/error.h"
#include "core/float_environment.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/exchange_run.h"
#include "emulation/schemes/shared/buckets.h"
#include "emulation/schemes/two_phase.h"

namespace apscope::detail {

namespace {

using Bytes = std::vector<std::byte>;

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

// Appends a number to a message, in this machine's byte order.
template <class Number>
void put(Number number, Bytes& bytes) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof number);
    std::memcpy(bytes.data() + at, &number, sizeof number);
}

// The start of every message: the step, the sending rank, and the rank that owns the shards.
struct Head {
    std::int64_t step;
    std::uint64_t rank, owner;

    bool operator==(const Head&) const = default;
    std::string text() const {
        return "step " + std::to_string(step) + " from rank " + std::to_string(rank) +
               " with the shards of rank " + std::to_string(owner);
    }
};

class Reader {
public:
    // Throws unless the message begins with this head.
    Reader(const Bytes& bytes, const Head& head) : rest_(bytes), head_(head) {
        const Head found = take<Head>();
        if (found != head)
            refuse("a message is that of " + found.text() + ", where that of " + head.text() +
                   " belongs");
    }
    template <class Number>
    Number take() {
        if (rest_.size() < sizeof(Number)) fail();
        Number number;
        std::memcpy(&number, rest_.data(), sizeof number);
        rest_ = rest_.subspan(sizeof number);
        return number;
    }
    // Throws unless this number of bytes is left.
    void check_rest(std::size_t bytes) const {
        if (rest_.size() != bytes) fail();
    }
    [[noreturn]] void fail() const {
        refuse("the message of " + head_.text() +
               " is not one of this exchange; give each rank's complete message, in their order");
    }

private:
    std::span<const std::byte> rest_;
    Head head_;
};

// The part of a rank's message for one shard of a tensor.
struct ShardMessage {
    bool skipped = false;
    // Elements that bypass the scheme: their index in the shard and their value.
    std::vector<std::pair<std::uint64_t, float>> special = {};
    Row values = {};  // the decoded values; write() rounds them to fp32

    void write(Bytes& bytes) const {
        put(static_cast<std::uint8_t>(skipped), bytes);
        put(std::uint64_t{special.size()}, bytes);
        for (const auto& [index, value] : special) put(index, bytes), put(value, bytes);
        for (const double value : values) put(static_cast<float>(value), bytes);
    }
    static ShardMessage read(Reader& reader, std::size_t elements) {
        ShardMessage m;
        m.skipped = reader.take<std::uint8_t>() != 0;
        const auto count = reader.take<std::uint64_t>();
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto index = reader.take<std::uint64_t>();
            if (index >= elements) reader.fail();
            m.special.emplace_back(index, reader.take<float>());
        }
        m.values.resize(elements);
        for (double& value : m.values) value = reader.take<float>();
        return m;
    }
};

void check_count(std::size_t found, std::size_t wanted, const std::string& what) {
    if (found != wanted)
        refuse("the number of " + what + " is " + std::to_string(found) + ", not " +
               std::to_string(wanted));
}

// True if a rank can encode a row for two phases with this topology.
bool is_phased(const Topology& topology, const SchemeParts& parts) {
    return topology.kind == Topology::Kind::two_phase && has_two_phases(parts);
}

// Refuses a scheme that needs the rows of other workers to encode a row. around: the policy that
// has the scheme as a branch, or the scheme itself.
void check_alone(const Scheme& scheme, const Scheme& around, const Topology& topology) {
    const auto refuse_as = [&](const std::string& what, const std::string& otherwise = "") {
        throw error("scheme '" + scheme.spec + "' " +
                        (&scheme == &around ? "" : "of '" + around.spec + "' ") + what +
                        ", which a rank alone does not have; use TrainingExchange" + otherwise,
                    ErrorKind::unsupported);
    };
    const SchemeParts& parts = scheme.parts;
    if (parts.choice.joins_tensors && parts.choice.needs_all_rows())
        refuse_as("computes one scale for several tensors from the rows of all workers");
    const std::string with = "with topology '" + topology.name() + "' ";
    if (topology.kind == Topology::Kind::levels && has_two_phases(parts))
        refuse_as(with + "encodes sums of several workers' rows", ", or topology two_phase");
    if (!is_phased(topology, parts) &&
        (parts.topology != reductions::gather || parts.encoding.reduces() ||
         parts.encoding.crosses_topologies() || parts.choice.needs_all_rows()))
        refuse_as(with + "encodes a worker's row with the others",
                  topology.kind == Topology::Kind::two_phase
                      ? ""
                      : ", or topology two_phase if the scheme allows it");
    if (parts.basis.transforms() || parts.basis.inverse) refuse_as("sums in another basis");
    if (parts.memory.needs_all_rows) refuse_as("computes its memory from all rows");
}

}  // namespace

RankExchange::RankExchange(Scheme scheme, std::vector<StepTensor> tensors, int rank, int workers,
                           const Topology& topology, std::uint64_t seed, bool divide)
    : scheme_(std::move(scheme)), tensors_(std::move(tensors)), rank_(rank), workers_(workers),
      divide_(divide), seed_(seed), states_(tensors_.size()) {
    // StepExchange throws for arguments that it refuses.
    needs_ = StepExchange(scheme_, tensors_, workers, topology, seed, divide).needs();
    if (rank < 0 || rank >= workers)
        refuse("rank=" + std::to_string(rank) + " must be from 0 to " +
               std::to_string(workers - 1));
    std::vector<std::string> names, roles;
    for (const StepTensor& tensor : tensors_) {
        names.push_back(tensor.name);
        roles.push_back(tensor.role);
    }
    known_ = policy_tensors(names, roles);
    for (const PolicyBranch& branch : scheme_.policy.branches) branches_.push_back({branch.scheme});
    if (!scheme_.is_policy()) branches_.push_back({std::make_shared<const Scheme>(scheme_)});
    const TwoPhase& phases = topology.phases;
    const auto phase2 = phases.phase2.empty()
                            ? nullptr
                            : std::make_shared<const Scheme>(parse_scheme(phases.phase2));
    for (Branch& branch : branches_) {
        const Scheme& one = *branch.scheme;
        check_alone(one, scheme_.is_policy() ? scheme_ : one, topology);
        branch.phased = is_phased(topology, one.parts);
        if (!branch.phased) continue;
        if (phases.sum != "fp32")
            refuse("topology '" + topology.name() + "' adds in " + phases.sum +
                   ", but ranks send values of fp32; leave sum out");
        in_two_phases(one, topology, phase2);  // throws for schemes that two phases do not support
        own_exact_ = phases.own_exact;
        if (phases.has_phase2) branch.phase2 = phase2 ? phase2 : branch.scheme;
    }
}

std::vector<RankExchange::Item> RankExchange::items(const RankGradients& step) const {
    const std::size_t count = tensors_.size(), workers = static_cast<std::size_t>(workers_);
    std::vector<std::size_t> branches(count);
    for (std::size_t k = 0; k < count && scheme_.is_policy(); ++k)
        branches[k] = scheme_.policy.branches_for(known_[k], std::span(&step.number, 1))[0];
    std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<ArrayTotals>> totals;
    std::vector<Item> items;
    for (std::size_t k = 0; k < count; ++k) {
        const std::size_t size = tensors_[k].elements();
        Item& item = items.emplace_back(Item{k, &branches_[branches[k]], {}, {}, {}});
        if (item.scheme().bucket != 0) {
            // An exchange of several rows has a bucket with as many; this rank reads its own only.
            const std::size_t rows = item.branch->phased ? 1 : workers;
            item.bucket = bucket_around(
                item.scheme(), k, count,
                [&](std::size_t j) {
                    return branches[j] == branches[k] ? std::optional(tensors_[j].elements())
                                                      : std::nullopt;
                },
                rows, [&step](std::size_t j, std::size_t) { return step.gradients[j]; },
                [&](std::size_t first) {
                    auto& shared = totals[{branches[k], first}];
                    if (!shared) shared = std::make_shared<ArrayTotals>();
                    return shared;
                });
        }
        const bool crosses = item.crosses();
        const std::size_t begin = crosses ? item.bucket->first : 0, end = begin + size;
        item.in_array = shard_parts(crosses ? item.bucket->size() : size, workers,
                                    crosses ? item.branch->phase2->parts.block : 0, begin, end);
        item.parts.resize(workers);
        for (const ShardPart& part : item.in_array) {
            const std::size_t first = std::max(part.first, begin), last = std::min(part.end, end);
            item.parts[part.owner] = {first - begin, last - begin, first - part.first,
                                      part.end - last};
        }
    }
    return items;
}

TrainingStep RankExchange::step_of(const Item& item, const RankGradients& given) const {
    const StepTensor& about = tensors_[item.tensor];
    TrainingStep step;
    step.tensor = about.name;
    step.role = about.role;
    step.shape = about.shape;
    step.number = given.number;
    step.index = static_cast<std::size_t>(given.number);
    step.workers = item.branch->phased ? 1 : workers_;  // in two phases each row is encoded alone
    step.message_count = item.branch->phased ? 2 * workers_ : 0;
    step.key = replay_key(seed_, about.name, given.number);
    step.loss = given.loss;
    step.learning_rate = given.learning_rate;
    return step;
}

// The scheme's parts for the row of this rank. encode() also copies the decoded values to `sent`,
// before ExchangeRun replaces elements that are not finite.
SchemeParts RankExchange::row_parts(const Branch& branch, Row& sent) const {
    SchemeParts parts = branch.scheme->parts;
    const std::size_t rank = static_cast<std::size_t>(rank_),
                      workers = static_cast<std::size_t>(workers_);
    parts.encoding.encode = [this, &branch, rank, workers, &sent](const RowPiece& p, Message& m) {
        const RowPiece own{p.step, p.theta, p.measured, p.place, p.x, rank};
        branch.scheme->parts.encoding.make(own, m);
        if (branch.phased && own_exact_) keep_own_shard(own, workers, m);
        sent = m.values;
    };
    return parts;
}

void RankExchange::check(const RankGradients& step) const {
    const std::size_t count = tensors_.size();
    check_count(step.gradients.size(), count, "tensors with gradients");
    if (!step.weights.empty()) check_count(step.weights.size(), count, "tensors with weights");
    for (const std::string& what : needs_) {
        if (what == "weights" ? step.weights.empty()
                              : std::isnan(what == "loss" ? step.loss : step.learning_rate))
            refuse("scheme '" + scheme_.spec + "' needs " + what + "; give it with every step");
    }
    for (std::size_t k = 0; k < count; ++k) {
        const std::string of = " of '" + tensors_[k].name + "'";
        check_count(step.gradients[k].size(), tensors_[k].elements(), "values" + of);
        if (!step.weights.empty())
            check_count(step.weights[k].size(), tensors_[k].elements(), "weights" + of);
    }
}

// The decoded values of a tensor, and in a bucket those of its neighbours, before elements that are
// not finite are replaced. Sets `skipped`, and updates the state.
Row RankExchange::encode(const Item& item, const TrainingStep& step,
                         const std::span<const float> gradient, State& state, bool& skipped) const {
    Row sent;
    const SchemeParts parts = row_parts(*item.branch, sent);
    ExchangeRun run(parts, step, state, std::span(&gradient, 1), {}, true);
    run.read(0);
    run.send(step.key, true);
    run.end();
    skipped = run.skipped();
    if (skipped && parts.memory.updates())
        refuse("scheme '" + item.branch->scheme->spec + "' drops step " +
               std::to_string(step.number) + " of '" + step.tensor + "' on rank " +
               std::to_string(rank_) +
               ", and its memory depends on whether any worker does, which a rank alone does "
               "not know; use TrainingExchange");
    if (!item.crosses() || sent.empty()) return sent;
    Message m;
    encode_parts(
        step, item.in_array,
        [&](const TrainingStep& one, const RowReader& seen, std::span<const double> x,
            std::size_t worker, Message& made) {
            encode_neighbours(item.scheme(), own_exact_, one, static_cast<std::size_t>(workers_),
                              seen, x, worker, made);
        },
        static_cast<std::size_t>(rank_), sent, m);
    return std::move(m.values);
}

std::vector<Bytes> RankExchange::send(const RankGradients& step) try {
    const FloatEnvironment environment;
    check(step);
    const std::size_t workers = static_cast<std::size_t>(workers_);
    std::vector<Bytes> messages(workers);
    for (std::size_t s = 0; s < workers; ++s)
        put(Head{step.number, static_cast<std::uint64_t>(rank_), s}, messages[s]);
    const std::vector<Item> all = items(step);
    std::vector<State> rows;  // the states after this step
    for (const Item& item : all) {
        const std::size_t k = item.tensor;
        const std::span<const float> gradient = step.gradients[k];
        TrainingStep one = step_of(item, step);
        if (!step.weights.empty()) one.weights = step.weights[k];
        if (item.bucket) one.bucket = &*item.bucket;
        bool skipped = false;
        const Row sent =
            encode(item, one, gradient, rows.emplace_back(states_of(item).row), skipped);
        const SchemeParts& parts = item.scheme();
        const bool bypass = !parts.encoding.sees_special && !parts.encodes_special();
        std::span<const double> rest = sent;
        for (std::size_t s = 0; s < workers; ++s) {
            const Part& part = item.parts[s];
            ShardMessage m{skipped};
            for (std::size_t i = part.first; i < part.end; ++i)
                if (bypass && !std::isfinite(gradient[i]))
                    m.special.emplace_back(part.before + i - part.first, gradient[i]);
            const std::span<const double> values = rest.first(part.all());
            rest = rest.subspan(part.all());
            m.values = Row(values.begin(), values.end());
            m.write(messages[s]);
        }
    }
    for (const Item& item : all) states_of(item).row = std::move(rows[item.tensor]);
    step_ = {.number = step.number, .loss = step.loss, .learning_rate = step.learning_rate};
    return messages;
} catch (const std::out_of_range&) {
    refuse_lengths();
}

Bytes RankExchange::add(std::span<const Bytes> received) try {
    const FloatEnvironment environment;
    check_count(received.size(), static_cast<std::size_t>(workers_), "messages");
    const std::size_t rank = static_cast<std::size_t>(rank_);
    std::vector<Reader> readers;
    for (std::size_t w = 0; w < received.size(); ++w)
        readers.emplace_back(received[w], Head{step_.number, w, rank});
    Bytes result;
    put(Head{step_.number, rank, rank}, result);
    const std::vector<Item> all = items(step_);
    std::vector<State> shards;  // the states after this step
    for (const Item& item : all) {
        const Part& own = item.parts[rank];
        std::vector<ShardMessage> messages;
        std::vector<Message> rows;
        bool skipped = false;
        for (Reader& reader : readers) {
            ShardMessage& m = messages.emplace_back(ShardMessage::read(reader, own.all()));
            skipped = skipped || m.skipped;
            rows.emplace_back().values = std::move(m.values);
        }
        Row sum;
        gathered_sum(rows, sum);
        State& state = shards.emplace_back(states_of(item).shard);
        if (item.branch->phase2 && own.count() > 0) {
            TrainingStep step = step_of(item, step_);
            if (item.crosses()) step.row = item.bucket->size();
            encode_shard(item.branch->phase2->parts, step, state, rank + received.size(),
                         tensors_[item.tensor].elements(), sum);
        }
        for (const ShardMessage& m : messages)
            for (const auto& [index, value] : m.special) sum[index] += value;
        put(static_cast<std::uint8_t>(skipped), result);
        const double divisor = divide_ ? workers_ : 1.0;
        for (const double value : std::span(sum).subspan(own.before, own.count()))
            put(skipped ? 0.0f : static_cast<float>(value / divisor), result);
    }
    for (const Reader& reader : readers) reader.check_rest(0);
    for (const Item& item : all) states_of(item).shard = std::move(shards[item.tensor]);
    return result;
} catch (const std::out_of_range&) {
    refuse_lengths();
}

std::vector<bool> RankExchange::receive(std::span<const Bytes> received,
                                        std::span<const std::span<float>> out) const {
    check_count(received.size(), static_cast<std::size_t>(workers_), "messages");
    check_count(out.size(), tensors_.size(), "tensors with results");
    for (std::size_t k = 0; k < out.size(); ++k)
        check_count(out[k].size(), tensors_[k].elements(), "results of '" + tensors_[k].name + "'");
    const std::vector<Item> all = items(step_);
    std::vector<Reader> readers;
    for (std::size_t s = 0; s < received.size(); ++s) {
        std::size_t bytes = 0;
        for (const Item& item : all)
            bytes += sizeof(std::uint8_t) + item.parts[s].count() * sizeof(float);
        readers.emplace_back(received[s], Head{step_.number, s, s}).check_rest(bytes);
    }
    std::vector<bool> skipped(tensors_.size());
    for (std::size_t s = 0; s < received.size(); ++s) {
        for (const Item& item : all) {
            const Part& part = item.parts[s];
            if (readers[s].take<std::uint8_t>() != 0) skipped[item.tensor] = true;
            for (float& value : out[item.tensor].subspan(part.first, part.count()))
                value = readers[s].take<float>();
        }
    }
    return skipped;
}

}  // namespace apscope::detail
