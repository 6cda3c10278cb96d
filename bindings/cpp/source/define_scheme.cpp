#include "bindings/cpp/apscope/define_scheme.h"

#include <algorithm>
#include <string>
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

[[noreturn]] void refuse(const std::string& name, const detail::TrainingStep& step,
                         const char* function, std::size_t size, std::size_t expected,
                         const char* what) {
    throw error("scheme '" + name + "': " + function + " gave " + std::to_string(size) + " " +
                what + " where " + std::to_string(expected) + " belong, of " + step.tensor +
                " at step " + std::to_string(step.number));
}

// Calls a function with a copy of the state as a Memory, and stores the changed copy in `state`.
template <class Function, class... Rest>
auto with_memory(const Function& f, const detail::TrainingStep& step, detail::State& state,
                 Rest&&... rest) {
    Memory memory = memory_of(state.rows());
    const auto keep = [&] { state = state_of(memory); };
    if constexpr (std::is_void_v<decltype(f(SchemeStep(step), memory,
                                            std::forward<Rest>(rest)...))>) {
        f(SchemeStep(step), memory, std::forward<Rest>(rest)...);
        keep();
    } else {
        auto made = f(SchemeStep(step), memory, std::forward<Rest>(rest)...);
        keep();
        return made;
    }
}

// Converts the rows that a function returned; throws unless there is one per worker and all are
// equally long.
detail::Rows rows_of(const std::string& name, const detail::TrainingStep& step,
                     const char* function, const Rows& made, std::size_t workers) {
    if (made.size() != workers) refuse(name, step, function, made.size(), workers, "rows");
    detail::Rows rows;
    for (const auto& row : made) {
        if (row.size() != made[0].size())
            refuse(name, step, function, row.size(), made[0].size(), "values in a row");
        rows.push_back(row_of(row));
    }
    return rows;
}

void set_encode(detail::DefinedParts& parts, const std::string& name, SchemeFunctions& functions) {
    if (!functions.encode) return;
    parts.encode = [name, encode = std::move(functions.encode),
                    decode = std::move(functions.decode)](const detail::RowPiece& p,
                                                          detail::Message& m) {
        const SchemeStep step(p.step);
        const Memory theta = memory_of(detail::spread(p.theta, p.x.size()));
        const int worker = static_cast<int>(p.worker);
        SchemeMessage made = encode(step, theta, p.x, worker);
        if (!made.payload.empty()) m.payload_bits = 8 * made.payload.size();
        m.payload_bits = made.payload_bits.value_or(m.payload_bits);
        m.side_bits = made.side_bits;
        const bool decodes = made.values.empty() && decode;
        if (decodes) made.values = decode(step, theta, made, p.x.size(), worker);
        if (made.values.size() != p.x.size())
            refuse(name, p.step, decodes ? "decode" : "encode", made.values.size(), p.x.size(),
                   "values");
        if (!made.payload.empty() && (m.payload_bits + 7) / 8 != made.payload.size())
            refuse(name, p.step, "encode", m.payload_bits, 8 * made.payload.size(), "payload bits");
        for (const auto* moments : {&made.bias, &made.variance}) {
            if (made.bias.empty() && made.variance.empty()) break;
            if (moments->size() != p.x.size())
                refuse(name, p.step, "encode", moments->size(), p.x.size(),
                       moments == &made.bias ? "biases" : "variances");
        }
        m.values = row_of(made.values);
        m.bias = row_of(made.bias);
        m.variance = row_of(made.variance);
        if (p.packs()) m.payload = std::move(made.payload);
    };
}

detail::DefinedParts parts_of(const std::string& name, SchemeFunctions functions) {
    detail::DefinedParts parts;
    parts.bits = functions.bits;
    parts.draws = functions.draws;
    parts.keeps_state = functions.keeps_state;
    parts.compares_intended = functions.compares_intended;
    parts.grid = std::move(functions.grid);
    set_encode(parts, name, functions);
    if (auto f = std::move(functions.compensate)) {
        parts.compensate = [name, f](const detail::TrainingStep& step, detail::State& state,
                                     detail::Rows& rows) {
            Rows own = plain(rows);
            with_memory(f, step, state, own);
            rows = rows_of(name, step, "compensate", own, rows.size());
        };
    }
    if (auto f = std::move(functions.forward)) {
        parts.forward = [name, f](const detail::TrainingStep& step, const detail::State& state,
                                  const detail::Rows& rows, detail::Rows& x) {
            x = rows_of(name, step, "forward",
                        f(SchemeStep(step), memory_of(state.rows()), plain(rows)), rows.size());
        };
    }
    if (auto f = std::move(functions.inverse)) {
        parts.inverse = [f](const detail::TrainingStep& step, const detail::State& state,
                            detail::Row& row) {
            row = row_of(f(SchemeStep(step), memory_of(state.rows()), row));
        };
    }
    if (auto f = std::move(functions.select)) {
        parts.select = [f](const detail::Selection& s) {
            Rows rows;
            for (const detail::RowReader& reader : s.rows) {
                const std::span<const double> row = reader.read(0, reader.size);
                rows.emplace_back(row.begin(), row.end());
            }
            return detail::Parameters::of_rows(
                named_rows(with_memory(f, s.step, s.state, std::as_const(rows))));
        };
    }
    if (auto f = std::move(functions.reduce)) {
        parts.reduce = [f](const detail::SentPieces& s, detail::Row& sum) {
            sum = row_of(with_memory(f, s.step, s.state,
                                     memory_of(detail::spread(s.theta, s.place.size)),
                                     values_of(s.messages)));
        };
    }
    if (auto f = std::move(functions.update)) {
        parts.update = [f](const detail::TrainingStep& step, detail::State& state,
                           const detail::Exchange& e) {
            with_memory(f, step, state, plain(e.intended), values_of(e.sent),
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
double SchemeStep::loss() const { return step_->loss; }
double SchemeStep::learning_rate() const { return step_->learning_rate; }
std::span<const float> SchemeStep::weights() const { return step_->weights; }
std::span<const float> SchemeStep::full_batch() const { return step_->full_batch; }

std::vector<std::uint64_t> SchemeStep::random(int worker, std::size_t count, int bits,
                                              std::uint32_t hop) const {
    if (worker < 0) throw error("worker=" + std::to_string(worker) + " must be at least 0");
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
