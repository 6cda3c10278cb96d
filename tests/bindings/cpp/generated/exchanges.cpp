// Exchanges of one tensor, of training steps, and divided among ranks; schemes of a caller's
// functions.
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "calls.h"

namespace generated {
namespace {

using namespace apscope;

using Rows = std::vector<std::vector<float>>;

Rows rows_of(Draw& draw, std::size_t count, std::size_t length) {
    Rows rows;
    while (rows.size() < count) rows.push_back(draw.numbers<float>(length));
    return rows;
}

std::vector<std::span<const float>> spans_of(const Rows& rows) {
    return {rows.begin(), rows.end()};
}

// A shape of `count` elements, sometimes of others.
std::vector<std::int64_t> shape_of(Draw& draw, std::size_t count) {
    if (draw.one_in(20)) return draw.impossible_shape<std::int64_t>();
    if (draw.one_in(20))
        return {draw.integer<std::int64_t>(-3, 9), draw.integer<std::int64_t>(-3, 9)};
    const auto length = static_cast<std::int64_t>(count);
    std::vector<std::int64_t> shape = {length};
    for (const std::int64_t factor : {2, 3, 4})
        if (draw.one_in(3) && length % factor == 0) shape = {length / factor, factor};
    if (draw.one_in(6)) shape.insert(shape.begin(), 1);
    return shape;
}

// Numbers under the names of a memory, or under others.
void disturb(Draw& draw, Memory& memory) {
    for (auto& [name, values] : memory) {
        if (draw.one_in(2)) values.resize(draw.below(values.size() + 3), draw.number<double>());
        else if (!values.empty()) values[draw.below(values.size())] = draw.number<double>();
    }
    if (draw.one_in(3)) memory[draw.text()] = draw.numbers<double>(draw.below(5));
    if (draw.one_in(3) && !memory.empty()) memory.erase(memory.begin());
}

// The exception of a caller's function, which passes through the library unchanged.
struct Own {};

// Asks a step everything.
void look_at(const SchemeStep& step) {
    const double elements =
        std::accumulate(step.shape().begin(), step.shape().end(), 1.0, std::multiplies<>());
    for (const std::span<const float> recorded : {step.weights(), step.full_batch()})
        require(recorded.empty() || static_cast<double>(recorded.size()) <= elements ||
                    step.workers() == 1,
                "more recorded numbers than a step has elements");
    require(step.tensor().size() + step.role().size() < 20'000, "a step with a name of others");
    (void)step.number();
    (void)(step.loss() + step.learning_rate() + static_cast<double>(step.index()));
}

// A scheme of functions, most of which do what is asked.
std::string define(Draw& draw) {
    SchemeFunctions parts;
    const std::uint64_t seed = draw.word();
    // Several threads call the functions: each call draws by its own seed.
    const auto changed = [seed](std::span<const double> row, std::uint64_t salt) {
        Draw own(seed + salt + row.size());
        std::vector<double> values(row.begin(), row.end());
        if (own.one_in(40)) values.resize(own.below(values.size() + 3));
        if (own.one_in(60)) throw Own{};
        if (own.one_in(20))
            for (double& x : values) x = own.number<double>();
        return values;
    };
    if (draw.one_in(5)) parts.base = draw.spec();
    if (draw.one_in(4))
        parts.compensate = [seed, changed](const SchemeStep&, Memory& memory,
                                           SchemeFunctions::Rows& rows) {
            for (auto& row : rows) row = changed(row, 1);
            if (Draw(seed).one_in(4)) memory.clear();
            memory["kept"] = rows.empty() ? std::vector<double>() : rows[0];
        };
    if (draw.one_in(4))
        parts.select = [seed](const SchemeStep& step, Memory&, const SchemeFunctions::Rows& rows) {
            Draw own(seed + rows.size() + static_cast<std::uint64_t>(step.workers()));
            return Memory{
                {own.of<std::string>({"scale", "scales", "scale_exponent", "skipped", "x"}),
                 own.numbers<double>(
                     own.of<std::size_t>({0, 1, rows.empty() ? 0 : rows[0].size(), 3}))}};
        };
    if (!draw.one_in(4))
        parts.encode = [seed, changed](const SchemeStep& step, const Memory&,
                                       std::span<const double> row, int worker) {
            Draw own(seed + static_cast<std::uint64_t>(worker));
            SchemeMessage message{.values = changed(row, 2)};
            (void)step.random(worker, row.size(), own.integer(1, 64));
            look_at(step);
            if (own.one_in(6)) message.payload.resize(own.below(9));
            if (own.one_in(6)) message.payload_bits = own.integer<std::uint64_t>(0, 70);
            if (own.one_in(6)) message.side_bits = own.integer<std::uint64_t>(0, 64);
            if (own.one_in(6)) message.bias = message.variance = changed(row, 3);
            if (own.one_in(9)) message.values.clear();
            return message;
        };
    if (draw.one_in(6))
        parts.decode = [seed](const SchemeStep&, const Memory&, const SchemeMessage&,
                              std::size_t count, int) {
            Draw own(seed + count);
            return own.numbers<double>(own.one_in(9) ? count + 1 : count);
        };
    if (draw.one_in(4))
        parts.reduce = [changed](const SchemeStep& step, Memory&, const Memory&,
                                 const SchemeFunctions::Rows& rows) {
            look_at(step);
            return changed(rows.empty() ? std::vector<double>() : rows[0], 4);
        };
    if (draw.one_in(6)) {
        parts.forward = [changed](const SchemeStep&, const Memory&,
                                  const SchemeFunctions::Rows& rows) {
            SchemeFunctions::Rows all;
            for (const auto& row : rows) all.push_back(changed(row, 5));
            return all;
        };
        parts.inverse = [changed](const SchemeStep&, const Memory&, std::span<const double> row) {
            return changed(row, 6);
        };
    }
    if (draw.one_in(5))
        parts.update = [](const SchemeStep&, Memory& memory, const SchemeFunctions::Rows& intended,
                          const SchemeFunctions::Rows& sent, std::span<const double> reduced) {
            memory["seen"] = {static_cast<double>(intended.size()),
                              static_cast<double>(sent.size()),
                              static_cast<double>(reduced.size())};
        };
    parts.bits = draw.integer(0, 32);
    parts.draws = draw.one_in(2);
    if (draw.one_in(4)) parts.keeps_state = draw.one_in(2);
    parts.compares_intended = draw.one_in(4);
    if (draw.one_in(4)) parts.grid = draw.text();
    std::string name = "generated_" + std::to_string(draw.below(4));
    const Scheme made = define_scheme(draw.near(name), parts);
    require(scheme(made.spec).spec == made.spec, "a defined scheme is not found");
    return draw.one_in(5) ? "error_feedback(" + made.spec + ")" : made.spec;
}

// A scheme of the library, or a defined one, and a topology that often fits it.
std::string any_spec(Draw& draw) { return draw.one_in(5) ? define(draw) : draw.spec(); }
std::string any_topology(Draw& draw) {
    return draw.one_in(2) ? draw.topology() : draw.of<std::string>({"ring", "two_phase"});
}

void one_tensor(Draw& draw) {
    const std::string spec = any_spec(draw);
    const std::size_t length = draw.one_in(9)    ? 0
                               : draw.one_in(20) ? draw.below(3000)
                                                 : draw.below(90),
                      workers = draw.one_in(20) ? draw.below(2) : 1 + draw.below(6);
    Rows rows = rows_of(draw, workers, length);
    if (draw.one_in(40) && workers > 0) rows[draw.below(workers)].push_back(1);
    const std::vector<float> weights = draw.numbers<float>(draw.one_in(20) ? length + 1 : length);
    ExchangeInputs inputs{.topology = any_topology(draw), .shape = shape_of(draw, length)};
    inputs.step = draw.integer<std::int64_t>(0, 5);
    inputs.index = draw.one_in(9) ? draw.integer<std::size_t>(0, 3) : 0;
    if (draw.one_in(6)) inputs.tensor = draw.text();
    if (draw.one_in(6)) inputs.role = draw.text();
    inputs.seed = draw.word();
    inputs.loss = draw.one_in(9) ? draw.number<double>() : 1.5;
    inputs.learning_rate = draw.one_in(9) ? draw.number<double>() : 0.1;
    if (!draw.one_in(9)) inputs.weights = inputs.full_batch = weights;
    inputs.packs = draw.one_in(2);
    Memory memory;
    for (int step = 0; step < 3; ++step) {
        try {
            const ExchangeResult result = exchange(spec, spans_of(rows), inputs, memory);
            require(result.sent.size() == workers && result.intended.size() == workers &&
                        result.reduced.size() == length,
                    spec + ": messages or sums of other lengths");
            for (std::size_t w = 0; w < workers; ++w)
                require(result.sent[w].size() == length && result.intended[w].size() == length &&
                            (result.payload.empty() || result.payload[w].empty() ||
                             result.payload[w].size() == (result.payload_bits[w] + 7) / 8),
                        spec + ": a message of another length");
        } catch (const Own&) {}
        if (draw.one_in(3)) disturb(draw, memory);
        if (inputs.step < std::numeric_limits<std::int64_t>::max()) ++inputs.step;
        ++inputs.index;
        rows = rows_of(draw, workers, length);
    }
}

std::vector<TrainedTensor> tensors_of(Draw& draw) {
    std::vector<TrainedTensor> tensors(draw.one_in(20) ? 0 : 1 + draw.below(3));
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        tensors[t].name = draw.one_in(20) ? draw.text() : "layer." + std::to_string(t);
        tensors[t].role = draw.one_in(9) ? draw.text() : "linear";
        tensors[t].shape = shape_of(draw, draw.below(40));
    }
    return tensors;
}

std::size_t size_of(const TrainedTensor& tensor) {
    double size = 1;
    for (const std::int64_t length : tensor.shape) size *= static_cast<double>(length);
    return size >= 0 && size < 1e6 ? static_cast<std::size_t>(size) : 0;
}

// The arrays of a step: gradients of every tensor and worker, weights, results.
struct StepArrays {
    std::vector<Rows> gradients;
    Rows weights, out;

    StepArrays(Draw& draw, const std::vector<TrainedTensor>& tensors, std::size_t workers) {
        for (const TrainedTensor& tensor : tensors) {
            gradients.push_back(rows_of(draw, workers, size_of(tensor)));
            weights.push_back(draw.numbers<float>(size_of(tensor)));
            out.emplace_back(size_of(tensor), -1.0f);
        }
    }
    std::vector<std::span<float>> results() { return {out.begin(), out.end()}; }
};

TrainedStep whole_step(StepArrays& arrays, std::int64_t number) {
    TrainedStep step;
    step.step = number;
    step.out = arrays.results();
    step.weights = spans_of(arrays.weights);
    step.loss = 1.5;
    step.learning_rate = 0.1;
    for (const Rows& rows : arrays.gradients) step.gradients.push_back(spans_of(rows));
    return step;
}

// Leaves out, lengthens or repeats parts of a step.
void disturb(Draw& draw, TrainedStep& step) {
    if (draw.one_in(3) && !step.gradients.empty()) step.gradients.pop_back();
    if (draw.one_in(3) && !step.gradients.empty() && !step.gradients[0].empty())
        step.gradients[0].pop_back();
    if (draw.one_in(3) && !step.out.empty() && !step.out[0].empty())
        step.out[0] = step.out[0].first(step.out[0].size() - 1);
    if (draw.one_in(3)) step.weights.clear();
    if (draw.one_in(3)) step.loss = draw.number<double>();
    if (draw.one_in(3)) step.step = draw.integer<std::int64_t>(0, 3);
}

void training(Draw& draw) {
    const std::string spec = any_spec(draw), topology = any_topology(draw);
    const std::vector<TrainedTensor> tensors = tensors_of(draw);
    const int workers = draw.integer(1, 5);
    const std::uint64_t seed = draw.word();
    const bool divide = draw.one_in(2);
    TrainingExchange exchange(spec, tensors, workers, topology, seed, divide),
        alone(spec, tensors, workers, topology, seed, divide);
    if (workers < 0 || workers > 100) return;
    for (std::int64_t number = 0; number < 3; ++number) {
        StepArrays arrays(draw, tensors, static_cast<std::size_t>(workers));
        TrainedStep step = whole_step(arrays, number);
        try {
            const std::vector<bool> dropped = exchange.run(step, draw.integer(0, 8));
            const Rows found = arrays.out;
            require(dropped == alone.run(step, 1), spec + ": other dropped tensors on one thread");
            for (std::size_t t = 0; t < tensors.size(); ++t)
                require(same(found[t], arrays.out[t]), spec + ": other bits on one thread");
        } catch (const Own&) {
            return;
        }
        if (draw.one_in(4)) {
            disturb(draw, step);
            try {
                const bool was_refused = refused([&] { (void)exchange.run(step, 1); });
                require(refused([&] { (void)alone.run(step, 1); }) == was_refused,
                        spec + ": the same step was refused once");
                if (was_refused) return;
            } catch (const Own&) {
                return;
            }
        }
        if (draw.one_in(3)) {
            std::map<std::string, Memory> memory = exchange.memory();
            if (draw.one_in(2))
                for (auto& [name, rows] : memory) disturb(draw, rows);
            if (draw.one_in(9)) memory[draw.text()] = {{"x", {1.0}}};
            exchange.set_memory(memory);
            alone.set_memory(memory);
        }
    }
    TrainingExchange moved = std::move(exchange);
    StepArrays arrays(draw, tensors, static_cast<std::size_t>(workers));
    require(refused([&] { (void)exchange.memory(); }) &&
                refused([&] { exchange.set_memory({}); }) &&
                refused([&] { (void)exchange.run(whole_step(arrays, 9)); }),
            "an exchange that was moved from was used");
    exchange = std::move(moved);
    (void)exchange.memory();
}

using Bytes = std::vector<std::byte>;

// Changes, cuts or lengthens one of the messages, or leaves one out.
void disturb(Draw& draw, std::vector<Bytes>& messages) {
    if (messages.empty()) return;
    Bytes& message = messages[draw.below(messages.size())];
    switch (draw.below(5)) {
        case 0: message.resize(draw.below(message.size() + 1)); break;
        case 1: message.resize(message.size() + 1 + draw.below(20)); break;
        case 2: messages.pop_back(); break;
        case 3: messages.push_back(message); break;
        default:
            for (int changes = 0; changes < 3 && !message.empty(); ++changes)
                message[draw.below(
                    std::min<std::size_t>(message.size(), draw.one_in(2) ? 64 : SIZE_MAX))] =
                    static_cast<std::byte>(draw.word());
    }
}

void ranks(Draw& draw) {
    const std::string topology = any_topology(draw);
    std::string spec = any_spec(draw);
    if (draw.one_in(2))
        spec = draw.of<std::string>({"none:e4m3", "aps:e4m3", "qsgd", "top_k", "sign_vote", "mx",
                                     "error_feedback(aps:e3m0)", "stochastic:e5m2"});
    const std::vector<TrainedTensor> tensors = tensors_of(draw);
    const int workers = draw.integer(1, 4);
    const std::uint64_t seed = draw.word();
    const bool divide = draw.one_in(2);
    TrainingExchange whole(spec, tensors, workers, topology, seed, divide);
    RankExchange first(spec, tensors, draw.integer(0, 0), workers, topology, seed, divide);
    if (workers > 100) return;
    std::vector<RankExchange> all;
    for (int rank = 0; rank < workers; ++rank)
        all.emplace_back(spec, tensors, rank, workers, topology, seed, divide);
    const auto count = static_cast<std::size_t>(workers);
    for (std::int64_t number = 0; number < 2; ++number) {
        StepArrays arrays(draw, tensors, count);
        std::vector<std::vector<Bytes>> to(count, std::vector<Bytes>(count));
        std::vector<Bytes> sums;
        std::vector<bool> dropped;
        try {
            dropped = whole.run(whole_step(arrays, number), 1);
            for (std::size_t r = 0; r < count; ++r) {
                RankStep own{.step = number,
                             .weights = spans_of(arrays.weights),
                             .loss = 1.5,
                             .learning_rate = 0.1};
                for (const Rows& rows : arrays.gradients) own.gradients.emplace_back(rows[r]);
                const std::vector<Bytes> sent = all[r].send(own);
                require(sent.size() == count, "a message to every rank");
                for (std::size_t s = 0; s < count; ++s) to[s][r] = sent[s];
            }
            if (draw.one_in(3)) {
                std::vector<Bytes> wrong = to[0];
                disturb(draw, wrong);
                (void)refused([&] { (void)first.add(wrong); });  // which has not sent
                (void)refused([&] { (void)all[0].add(wrong); });
            }
            for (std::size_t r = 0; r < count; ++r) sums.push_back(all[r].add(to[r]));
        } catch (const Own&) {
            return;
        }
        const Rows expected = arrays.out;
        std::vector<Bytes> wrong = sums;
        disturb(draw, wrong);
        (void)refused([&] { (void)all[0].receive(wrong, arrays.results()); });
        require(refused([&] {
                    std::vector<std::span<float>> fewer = arrays.results();
                    if (fewer.empty()) throw error("no results");
                    fewer.pop_back();
                    (void)all[0].receive(sums, fewer);
                }),
                "fewer results than tensors");
        for (const RankExchange& rank : all) {
            require(rank.receive(sums, arrays.results()) == dropped, spec + ": dropped on a rank");
            for (std::size_t t = 0; t < tensors.size(); ++t)
                require(same(arrays.out[t], expected[t]),
                        spec + " with " + topology + ": other bits on a rank");
        }
    }
    RankExchange moved = std::move(first);
    require(refused([&] { (void)first.send({}); }) && refused([&] { (void)first.add({}); }) &&
                refused([&] { (void)first.receive({}, {}); }),
            "a rank that was moved from was used");
    (void)refused([&] { (void)moved.send({}); });
}

}  // namespace

const std::vector<Entry> exchanges = {
    {"exchange", one_tensor}, {"TrainingExchange", training}, {"RankExchange", ranks}};

}  // namespace generated
