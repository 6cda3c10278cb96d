#include "emulation/schemes/rank_exchange.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/error.h"
#include "core/float_environment.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/exchange_run.h"

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

// Refuses a scheme that needs the rows of other workers to encode a row. phased: the scheme runs in
// two phases; otherwise its messages are gathered.
void check_alone(const Scheme& scheme, const Topology& topology, bool phased) {
    const std::string name = "scheme '" + scheme.spec + "' ";
    const std::string rank = ", which a rank alone does not have; use TrainingExchange";
    const auto unsupported = [](const std::string& sentence) {
        throw error(sentence, ErrorKind::unsupported);
    };
    if (scheme.is_policy()) unsupported(name + "is a policy" + rank);
    const SchemeParts& parts = scheme.parts;
    if (phased ? !has_two_phases(parts)
               : parts.topology != reductions::gather || parts.encoding.reduces() ||
                     parts.encoding.crosses_topologies() || parts.choice.needs_all_rows())
        unsupported(name + "with topology '" + topology.name() +
                    "' encodes a worker's row with the others" + rank +
                    (topology.kind == Topology::Kind::two_phase
                         ? ""
                         : ", or topology two_phase if the scheme allows it"));
    if (parts.bucket != 0) unsupported(name + "has blocks that cross tensors" + rank);
    if (parts.basis.transforms() || parts.basis.inverse)
        unsupported(name + "sums in another basis" + rank);
    if (parts.memory.needs_all_rows) unsupported(name + "computes its memory from all rows" + rank);
}

}  // namespace

RankExchange::RankExchange(Scheme scheme, std::vector<StepTensor> tensors, int rank, int workers,
                           const Topology& topology, std::uint64_t seed, bool divide)
    : scheme_(std::move(scheme)), tensors_(std::move(tensors)), rank_(rank), workers_(workers),
      divide_(divide), seed_(seed), states_(tensors_.size()) {
    // StepExchange throws for arguments that it refuses.
    StepExchange(scheme_, tensors_, workers, topology, seed, divide);
    if (rank < 0 || rank >= workers)
        refuse("rank=" + std::to_string(rank) + " must be from 0 to " +
               std::to_string(workers - 1));
    phased_ = topology.kind == Topology::Kind::two_phase && !scheme_.is_policy() &&
              has_two_phases(scheme_.parts);
    check_alone(scheme_, topology, phased_);
    if (!phased_) return;
    const TwoPhase& phases = topology.phases;
    if (phases.sum != "fp32")
        refuse("topology '" + topology.name() + "' adds in " + phases.sum +
               ", but ranks send values of fp32; leave sum out");
    const auto leaf = std::make_shared<const Scheme>(scheme_);
    const auto other = phases.phase2.empty()
                           ? nullptr
                           : std::make_shared<const Scheme>(parse_scheme(phases.phase2));
    in_two_phases(scheme_, topology, other);  // throws for schemes that two phases do not support
    own_exact_ = phases.own_exact;
    if (phases.has_phase2) phase2_ = other ? other : leaf;
}

TrainingStep RankExchange::step_of(std::size_t tensor, const RankGradients& given) const {
    const StepTensor& about = tensors_[tensor];
    TrainingStep step;
    step.tensor = about.name;
    step.role = about.role;
    step.shape = about.shape;
    step.number = given.number;
    step.index = static_cast<std::size_t>(given.number);
    step.workers = phased_ ? 1 : workers_;  // in two phases each row is encoded alone
    step.message_count = phased_ ? 2 * workers_ : 0;
    step.key = replay_key(seed_, about.name, given.number);
    step.loss = given.loss;
    step.learning_rate = given.learning_rate;
    return step;
}

// The scheme's parts for the row of this rank. encode() also copies the decoded values to `sent`,
// before ExchangeRun replaces elements that are not finite.
SchemeParts RankExchange::row_parts(Row& sent) const {
    SchemeParts parts = scheme_.parts;
    const std::size_t rank = static_cast<std::size_t>(rank_),
                      workers = static_cast<std::size_t>(workers_);
    parts.encoding.encode = [this, rank, workers, &sent](const RowPiece& p, Message& m) {
        const RowPiece own{p.step, p.theta, p.measured, p.place, p.x, rank};
        scheme_.parts.encoding.make(own, m);
        if (own_exact_) keep_own_shard(own, workers, m);
        sent = m.values;
    };
    return parts;
}

std::vector<Bytes> RankExchange::send(const RankGradients& step) {
    const FloatEnvironment environment;
    const std::size_t count = tensors_.size(), workers = static_cast<std::size_t>(workers_);
    check_count(step.gradients.size(), count, "tensors with gradients");
    if (!step.weights.empty()) check_count(step.weights.size(), count, "tensors with weights");
    for (const std::string& what : scheme_.parts.needs) {
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
    std::vector<Bytes> messages(workers);
    for (std::size_t s = 0; s < workers; ++s)
        put(Head{step.number, static_cast<std::uint64_t>(rank_), s}, messages[s]);
    std::vector<State> rows;  // the states after this step
    for (std::size_t k = 0; k < count; ++k) {
        const std::span<const float> gradient = step.gradients[k];
        TrainingStep one = step_of(k, step);
        if (!step.weights.empty()) one.weights = step.weights[k];
        Row sent;
        const SchemeParts parts = row_parts(sent);
        State& state = rows.emplace_back(states_[k].row);
        ExchangeRun run(parts, one, state, std::span(&gradient, 1), {}, true);
        run.read(0);
        run.send(one.key, true);
        run.end();
        if (run.skipped() && parts.memory.updates())
            refuse("scheme '" + scheme_.spec + "' drops step " + std::to_string(step.number) +
                   " of '" + one.tensor + "' on rank " + std::to_string(rank_) +
                   ", and its memory depends on whether any worker does, which a rank alone does "
                   "not know; use TrainingExchange");
        const bool bypass = !parts.encoding.sees_special && !parts.encodes_special();
        for (std::size_t s = 0; s < workers; ++s) {
            const Shard part = shard(k, s);
            ShardMessage m{run.skipped()};
            for (std::size_t i = 0; i < part.count; ++i) {
                const float g = gradient[part.first + i];
                if (bypass && !std::isfinite(g)) m.special.emplace_back(i, g);
            }
            const std::span<const double> values = std::span(sent).subspan(part.first, part.count);
            m.values = Row(values.begin(), values.end());
            m.write(messages[s]);
        }
    }
    for (std::size_t k = 0; k < count; ++k) states_[k].row = std::move(rows[k]);
    step_ = {.number = step.number, .loss = step.loss, .learning_rate = step.learning_rate};
    return messages;
}

Bytes RankExchange::add(std::span<const Bytes> received) {
    const FloatEnvironment environment;
    check_count(received.size(), static_cast<std::size_t>(workers_), "messages");
    const std::size_t rank = static_cast<std::size_t>(rank_);
    std::vector<Reader> readers;
    for (std::size_t w = 0; w < received.size(); ++w)
        readers.emplace_back(received[w], Head{step_.number, w, rank});
    Bytes result;
    put(Head{step_.number, rank, rank}, result);
    std::vector<State> shards;  // the states after this step
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
        const Shard own = shard(k, rank);
        std::vector<ShardMessage> messages;
        std::vector<Message> rows;
        bool skipped = false;
        for (Reader& reader : readers) {
            ShardMessage& m = messages.emplace_back(ShardMessage::read(reader, own.count));
            skipped = skipped || m.skipped;
            rows.emplace_back().values = std::move(m.values);
        }
        Row sum;
        gathered_sum(rows, sum);
        State& state = shards.emplace_back(states_[k].shard);
        if (phase2_ && own.count > 0) {
            encode_shard(phase2_->parts, step_of(k, step_), state, rank + received.size(),
                         tensors_[k].elements(), sum);
        }
        for (const ShardMessage& m : messages)
            for (const auto& [index, value] : m.special) sum[index] += value;
        put(static_cast<std::uint8_t>(skipped), result);
        const double divisor = divide_ ? workers_ : 1.0;
        for (const double value : sum)
            put(skipped ? 0.0f : static_cast<float>(value / divisor), result);
    }
    for (const Reader& reader : readers) reader.check_rest(0);
    for (std::size_t k = 0; k < shards.size(); ++k) states_[k].shard = std::move(shards[k]);
    return result;
}

std::vector<bool> RankExchange::receive(std::span<const Bytes> received,
                                        std::span<const std::span<float>> out) const {
    check_count(received.size(), static_cast<std::size_t>(workers_), "messages");
    check_count(out.size(), tensors_.size(), "tensors with results");
    for (std::size_t k = 0; k < out.size(); ++k)
        check_count(out[k].size(), tensors_[k].elements(), "results of '" + tensors_[k].name + "'");
    std::vector<Reader> readers;
    for (std::size_t s = 0; s < received.size(); ++s) {
        std::size_t bytes = 0;
        for (std::size_t k = 0; k < out.size(); ++k)
            bytes += sizeof(std::uint8_t) + shard(k, s).count * sizeof(float);
        readers.emplace_back(received[s], Head{step_.number, s, s}).check_rest(bytes);
    }
    std::vector<bool> skipped(tensors_.size());
    for (std::size_t s = 0; s < received.size(); ++s) {
        for (std::size_t k = 0; k < tensors_.size(); ++k) {
            const Shard part = shard(k, s);
            if (readers[s].take<std::uint8_t>() != 0) skipped[k] = true;
            for (float& value : out[k].subspan(part.first, part.count))
                value = readers[s].take<float>();
        }
    }
    return skipped;
}

}  // namespace apscope::detail
