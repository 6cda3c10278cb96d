#include "bindings/cpp/apscope/define_scheme.h"

#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/made_schemes.h"
#include "bindings/cpp/source/memory_rows.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "emulation/schemes/defined_scheme.h"

namespace apscope {
namespace {

using Rows = SchemeFunctions::Rows;

Rows values_of(const std::vector<detail::Message>& sent) {
    Rows values;
    for (const detail::Message& m : sent) values.push_back(plain(m.values));
    return values;
}

detail::Row row_of(const std::vector<double>& row) { return {row.begin(), row.end()}; }

// A function of the caller, and the names that messages about it need.
template <class Function>
struct Part {
    std::string scheme;
    const char* name;
    std::function<Function> function;

    explicit operator bool() const { return static_cast<bool>(function); }
    // Calls the function with a step and the other arguments.
    template <class... Rest>
    auto operator()(const detail::TrainingStep& step, Rest&&... rest) const {
        return detail::call(function, SchemeStep(step, scheme, name), std::forward<Rest>(rest)...);
    }
    // Calls the function with a copy of the state as a Memory, and stores the changed copy.
    template <class... Rest>
    auto with_memory(const detail::TrainingStep& step, detail::State& state, Rest&&... rest) const {
        Memory memory = memory_of(state.rows());
        const auto run = [&] { return (*this)(step, memory, std::forward<Rest>(rest)...); };
        if constexpr (std::is_void_v<decltype(run())>) {
            run();
            state = state_of(memory);
        } else {
            auto made = run();
            state = state_of(memory);
            return made;
        }
    }
    // Throws unless the function gave the expected number of values, rows or bits.
    void check(const detail::TrainingStep& step, std::size_t size, std::size_t expected,
               const char* what) const {
        if (size == expected) return;
        throw error("scheme '" + scheme + "': " + name + " gave " + std::to_string(size) + " " +
                    what + " where " + std::to_string(expected) + " belong, of " + step.tensor +
                    " at step " + std::to_string(step.number));
    }
    // Converts the rows that the function returned: one per worker, all equally long.
    detail::Rows rows(const detail::TrainingStep& step, const Rows& made,
                      std::size_t workers) const {
        check(step, made.size(), workers, "rows");
        detail::Rows rows;
        for (const auto& row : made) {
            check(step, row.size(), made[0].size(), "values in a row");
            rows.push_back(row_of(row));
        }
        return rows;
    }
};

template <class Encode, class Decode>
void set_encode(detail::DefinedParts& parts, Part<Encode> encode, Part<Decode> decode) {
    if (!encode) return;
    parts.encode = [encode, decode](const detail::RowPiece& p, detail::Message& m) {
        const Memory theta = memory_of(detail::spread(p.theta, p.x.size()));
        const int worker = static_cast<int>(p.worker);
        const std::size_t count = p.x.size();
        SchemeMessage made = encode(p.step, theta, p.x, worker);
        if (!made.payload.empty()) m.payload_bits = 8 * made.payload.size();
        m.payload_bits = made.payload_bits.value_or(m.payload_bits);
        m.side_bits = made.side_bits;
        if (made.values.empty() && decode) {
            made.values = decode(p.step, theta, made, count, worker);
            decode.check(p.step, made.values.size(), count, "values");
        }
        encode.check(p.step, made.values.size(), count, "values");
        if (!made.payload.empty() && (m.payload_bits + 7) / 8 != made.payload.size())
            encode.check(p.step, m.payload_bits, 8 * made.payload.size(), "payload bits");
        if (!made.bias.empty() || !made.variance.empty()) {
            encode.check(p.step, made.bias.size(), count, "biases");
            encode.check(p.step, made.variance.size(), count, "variances");
        }
        m.values = row_of(made.values);
        m.bias = row_of(made.bias);
        m.variance = row_of(made.variance);
        if (p.packs()) m.payload = std::move(made.payload);
    };
}

detail::DefinedParts parts_of(const std::string& name, SchemeFunctions functions) {
    const auto part = [&name]<class Function>(const char* of, std::function<Function>& function) {
        return Part<Function>{name, of, std::move(function)};
    };
    detail::DefinedParts parts;
    parts.bits = functions.bits;
    parts.draws = functions.draws;
    parts.keeps_state = functions.keeps_state;
    parts.compares_intended = functions.compares_intended;
    parts.grid = std::move(functions.grid);
    set_encode(parts, part("encode", functions.encode), part("decode", functions.decode));
    if (const auto f = part("compensate", functions.compensate)) {
        parts.compensate = [f](const detail::TrainingStep& step, detail::State& state,
                               detail::Rows& rows) {
            Rows own = plain(rows);
            f.with_memory(step, state, own);
            rows = f.rows(step, own, rows.size());
        };
    }
    if (const auto f = part("forward", functions.forward)) {
        parts.forward = [f](const detail::TrainingStep& step, const detail::State& state,
                            const detail::Rows& rows, detail::Rows& x) {
            x = f.rows(step, f(step, memory_of(state.rows()), plain(rows)), rows.size());
        };
    }
    if (const auto f = part("inverse", functions.inverse)) {
        parts.inverse = [f](const detail::TrainingStep& step, const detail::State& state,
                            std::span<detail::Row* const> rows) {
            const Memory memory = memory_of(state.rows());
            for (detail::Row* row : rows) *row = row_of(f(step, memory, *row));
        };
    }
    if (const auto f = part("select", functions.select)) {
        parts.select = [f](const detail::Selection& s) {
            Rows rows;
            for (const detail::RowReader& reader : s.rows) {
                const std::span<const double> row = reader.read(0, reader.size);
                rows.emplace_back(row.begin(), row.end());
            }
            return detail::Parameters::of_rows(
                named_rows(f.with_memory(s.step, s.state, std::as_const(rows))));
        };
    }
    if (const auto f = part("reduce", functions.reduce)) {
        parts.reduce = [f](const detail::SentPieces& s, detail::Row& sum) {
            sum = row_of(f.with_memory(s.step, s.state,
                                       memory_of(detail::spread(s.theta, s.place.size)),
                                       values_of(s.messages)));
        };
    }
    if (const auto f = part("update", functions.update)) {
        parts.update = [f](const detail::TrainingStep& step, detail::State& state,
                           const detail::Exchange& e) {
            f.with_memory(step, state, plain(e.intended), values_of(e.sent),
                          e.reduced.empty() ? std::span<const double>() : e.reduced[0]);
        };
    }
    return parts;
}

}  // namespace

detail::MadeSchemes& made_schemes() {
    static detail::MadeSchemes made;
    return made;
}

std::string_view SchemeStep::tensor() const { return step_->tensor; }
std::string_view SchemeStep::role() const { return step_->role; }
std::span<const std::int64_t> SchemeStep::shape() const { return step_->shape; }
std::int64_t SchemeStep::number() const { return step_->number; }
std::size_t SchemeStep::index() const { return step_->index; }
int SchemeStep::workers() const { return step_->workers; }
int SchemeStep::senders() const { return step_->senders(); }
double SchemeStep::loss() const { return step_->loss; }
double SchemeStep::learning_rate() const { return step_->learning_rate; }
std::span<const float> SchemeStep::weights() const { return step_->weights; }
std::span<const float> SchemeStep::full_batch() const { return step_->full_batch; }

std::vector<std::uint64_t> SchemeStep::random(int worker, std::size_t count, int bits,
                                              std::uint32_t hop) const {
    const auto refuse = [this](const std::string& why) {
        throw error("scheme '" + std::string(scheme_) + "': random() of " + function_ + " got " +
                    why + ", for " + step_->tensor + " at step " + std::to_string(step_->number));
    };
    if (worker < 0) refuse("worker=" + std::to_string(worker) + ", which must be at least 0");
    if (bits < 1 || bits > 64)
        refuse("bits=" + std::to_string(bits) + ", which must be between 1 and 64");
    return detail::random_words(*step_, static_cast<std::size_t>(worker), count, bits, hop);
}

Scheme define_scheme(std::string_view name, SchemeFunctions functions) try {
    const detail::FloatEnvironment environment;
    const std::string own(name);
    if (functions.decode && !functions.encode)
        throw error("scheme '" + own + "' has decode without encode; give encode too");
    const detail::Scheme base = parse_any_scheme(functions.base);
    made_schemes().add(detail::define_scheme(own, base, parts_of(own, std::move(functions))));
    return scheme(name);
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
