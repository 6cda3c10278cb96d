// The comparisons of two schemes, or of two results, computed by analysis/summary.
#include "analysis/summary/comparison.h"

#include <algorithm>
#include <utility>

#include "bindings/cpp/apscope/replay.h"
#include "bindings/cpp/apscope/summary.h"
#include "bindings/cpp/source/edge.h"
#include "bindings/cpp/source/made_schemes.h"
#include "bindings/cpp/source/result_table.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "emulation/schemes/definition.h"

namespace apscope {
namespace {

using detail::Figures;

// The canonical spec of `scheme`, which may have any spelling; throws if the results do not have
// the scheme.
std::string known_spec(const std::vector<std::string>& held, std::string_view scheme) {
    const std::string spec = parse_any_scheme(scheme).spec;
    if (std::ranges::find(held, spec) != held.end()) return spec;
    std::string known;
    for (const std::string& name : held) known += (known.empty() ? "" : ", ") + name;
    throw error("the results have no scheme '" + std::string(scheme) + "'; they have " + known);
}

// One side of a comparison: its spec, and its reduction if the caller named one.
struct Side {
    std::string spec;
    std::optional<std::string_view> reduction;
};

Side side_in(const std::vector<std::string>& held, std::string_view text) {
    if (std::ranges::find(held, text) != held.end()) return {std::string(text), {}};
    const detail::NamedSide named = detail::named_side(text);
    return {known_spec(held, named.scheme), named.reduction};
}

ComparedScheme compared_scheme(const Figures& f, std::size_t i, const std::string& suffix,
                               std::string scheme, std::string topology) {
    const auto number = [&](const char* name) { return f(name + suffix, i); };
    ComparedScheme out;
    out.scheme = std::move(scheme);
    out.topology = std::move(topology);
    out.error_over_noise = number("error_over_noise");
    out.step_nmse = number("step_nmse");
    out.nmse = number("nmse");
    out.underflow_wire = number("underflow_wire");
    out.underflow_reduced = number("underflow_reduced");
    out.cosine = number("cosine");
    out.overflowed = f.integer("overflowed" + suffix, i);
    out.accumulation = number("accumulation");
    out.share_underflow = number("share_underflow");
    out.share_rounding = number("share_rounding");
    out.share_saturation = number("share_saturation");
    out.share_accumulation = number("share_accumulation");
    out.share_interaction = number("share_interaction");
    return out;
}

// A row for all layers, then, on request, one per layer.
std::vector<ComparisonRow> rows_of(const detail::SchemePair& pair, const detail::RowTable& table,
                                   bool layers) {
    const detail::Compared compared = detail::compared(pair, layers);
    const Figures& f = compared.figures;
    std::vector<ComparisonRow> rows;
    for (std::size_t i = 0; i < compared.tensor.size(); ++i) {
        const auto& tensor = compared.tensor[i];
        ComparisonRow row;
        row.whole = !tensor;
        row.layer = tensor ? table.tensor.names[static_cast<std::size_t>(*tensor)] : "all";
        row.steps = f.integer("steps", i);
        row.wins = f.integer("wins", i);
        row.losses = f.integer("losses", i);
        row.ties = f.integer("ties", i);
        row.median_ratio = f("median_ratio", i);
        row.worst_ratio = f("worst_ratio", i);
        row.geometric_ratio = f("geometric_ratio", i);
        row.a = compared_scheme(f, i, "_a", pair.scheme_a, pair.topology_a);
        row.b = compared_scheme(f, i, "_b", pair.scheme_b, pair.topology_b);
        rows.push_back(std::move(row));
    }
    return rows;
}

// Results have one trace, so there is at most one pair.
std::vector<ComparisonRow> compared_in(const detail::Pairing& pairing,
                                       const detail::RowTable& table, const Side& a, const Side& b,
                                       std::optional<std::string_view> topology) {
    return rows_of(pairing.pairs(a.spec, b.spec, {topology, a.reduction, b.reduction}).front(),
                   table, true);
}

}  // namespace

std::vector<ComparisonRow> Results::compare(std::string_view a, std::string_view b,
                                            std::optional<std::string_view> topology) const try {
    const detail::FloatEnvironment environment;
    const Side side_a = side_in(data_->schemes, a), side_b = side_in(data_->schemes, b);
    const ResultTable columns(*data_);
    return compared_in(detail::Pairing(columns.table()), columns.table(), side_a, side_b, topology);
} catch (...) {
    detail::throw_error();
}

std::vector<ComparisonRow> Results::compare(std::string_view a, std::string_view b,
                                            const Results& other,
                                            std::optional<std::string_view> topology) const try {
    const detail::FloatEnvironment environment;
    const Side side_a = side_in(data_->schemes, a), side_b = side_in(other.data_->schemes, b);
    const ResultTable first(*data_), second(*other.data_);
    return compared_in(detail::Pairing(first.table(), second.table()), first.table(), side_a,
                       side_b, topology);
} catch (...) {
    detail::throw_error();
}

std::vector<AgainstRow> Results::against(const Results& other,
                                         std::optional<std::string_view> topology) const try {
    const detail::FloatEnvironment environment;
    const ResultTable first(*data_), second(*other.data_);
    std::vector<AgainstRow> rows;
    for (const detail::Against& one :
         detail::Pairing(first.table(), second.table()).against(topology)) {
        AgainstRow row{one.scheme, name_of(one.held_by), {}};
        if (one.pair) row.compared = rows_of(*one.pair, first.table(), false).front();
        rows.push_back(std::move(row));
    }
    return rows;
} catch (...) {
    detail::throw_error();
}

}  // namespace apscope
