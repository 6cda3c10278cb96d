#include "bindings/cpp/source/tables_of_results.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "bindings/cpp/source/result_cells.h"

namespace apscope {
namespace {

using Data = Results::Data;

// A bin of a histogram with at least one value.
struct Bin {
    const detail::ItemHistogram* item;
    const char* kind;
    std::optional<std::int64_t> exponent;
    std::int64_t count;
};

std::vector<Bin> bins_of(const Data& d) {
    std::vector<Bin> bins;
    for (const detail::ItemHistogram& item : d.histograms) {
        detail::for_each_bin(item.histogram, [&](const char* kind, std::optional<int> exponent,
                                                 std::uint64_t count) {
            bins.push_back({&item, kind, exponent, static_cast<std::int64_t>(count)});
        });
    }
    return bins;
}

}  // namespace

WrittenTable results_table(const Data& d) {
    WrittenTable t{d.rows.size()};
    for (const ResultColumn& column : result_columns()) {
        const std::string name(column.name);
        std::visit(
            [&]<class Value>(ResultColumn::Cell<Value> cell) {
                const auto at = [&d, cell](std::size_t i) { return cell(d, d.rows[i]); };
                if constexpr (std::is_same_v<Value, std::string_view>) t.text(name, at);
                else if constexpr (std::is_same_v<Value, double>) t.real(name, at);
                else if constexpr (std::is_same_v<Value, bool>) t.flag(name, at);
                else t.integer(name, at);
            },
            column.cell);
    }
    return t;
}

WrittenTable histogram_table(const Data& d) {
    const auto bins = std::make_shared<const std::vector<Bin>>(bins_of(d));
    WrittenTable t{bins->size()};
    t.text("trace", [&d](std::size_t) -> std::string_view { return d.trace; });
    t.integer(
        "step", [&d, bins](std::size_t i) { return d.step_numbers[(*bins)[i].item->step_index]; },
        false);
    t.text("tensor", [&d, bins](std::size_t i) -> std::string_view {
        return d.tensor_names[(*bins)[i].item->tensor_index];
    });
    t.text("role", [&d, bins](std::size_t i) -> std::string_view {
        return d.roles[(*bins)[i].item->tensor_index];
    });
    t.text("kind", [bins](std::size_t i) { return (*bins)[i].kind; });
    t.integer("exponent", [bins](std::size_t i) { return (*bins)[i].exponent; });
    t.integer("count", [bins](std::size_t i) { return (*bins)[i].count; }, false);
    return t;
}

WrittenTable noise_table(const Data& d) {
    const std::vector<detail::NoiseRow>& rows = d.noise.rows;
    WrittenTable t{rows.size()};
    const auto integer = [&](const char* name, auto of) {
        t.integer(
            name, [&rows, of](std::size_t i) -> std::int64_t { return std::invoke(of, rows[i]); },
            false);
    };
    const auto real = [&](const char* name, double detail::NoiseRow::* of) {
        t.real(name, [&rows, of](std::size_t i) { return rows[i].*of; });
    };
    using Row = detail::NoiseRow;
    const auto place = [](std::int32_t code) { return static_cast<std::size_t>(code); };
    t.text("trace", [&d](std::size_t) -> std::string_view { return d.trace; });
    integer("step", &Row::step);
    t.text("tensor", [&, place](std::size_t i) -> std::string_view {
        return d.noise.tensors[place(rows[i].tensor)];
    });
    t.text("role", [&, place](std::size_t i) -> std::string_view {
        return d.noise.roles[place(rows[i].role)];
    });
    integer("workers", &Row::workers);
    t.integer("without", [&rows](std::size_t i) { return rows[i].without; });
    integer("elements", [&d, place](const Row& r) {
        return static_cast<std::int64_t>(d.manifest.tensors[place(r.tensor)].whole_size());
    });
    integer("blocks", &Row::blocks);
    integer("noise_blocks", &Row::noise_blocks);
    integer("lone_blocks", &Row::lone_blocks);
    real("sum_squared_reference", &Row::squared_reference);
    real("sum_noise", &Row::noise);
    real("sum_log2_ratio", &Row::log2_ratio);
    return t;
}

WrittenTable window_table(const Data& d) {
    using Row = detail::WindowRow;
    const std::vector<Row>& rows = d.windows.rows;
    WrittenTable t{rows.size()};
    const auto text = [&](const char* name, const std::vector<std::string>& texts,
                          std::int32_t Row::* code) {
        t.text(name, [&rows, &texts, code](std::size_t i) -> std::string_view {
            return texts[static_cast<std::size_t>(rows[i].*code)];
        });
    };
    const auto integer = [&](const char* name, std::int64_t Row::* of) {
        t.integer(name, [&rows, of](std::size_t i) { return rows[i].*of; }, false);
    };
    const auto real = [&](const char* name, double Row::* of) {
        t.real(name, [&rows, of](std::size_t i) { return rows[i].*of; });
    };
    const auto updates = [&](const std::string& before, detail::UpdateSums Row::* sums) {
        const auto number = [&](const char* name, double detail::UpdateSums::* of) {
            t.real(before + name, [&rows, sums, of](std::size_t i) { return rows[i].*sums.*of; });
        };
        number("product", &detail::UpdateSums::product);
        number("squared_reference", &detail::UpdateSums::squared_reference);
        number("squared_result", &detail::UpdateSums::squared_result);
    };
    text("trace", d.windows.traces, &Row::trace);
    integer("step", &Row::step);
    text("tensor", d.windows.tensors, &Row::tensor);
    text("scheme", d.windows.schemes, &Row::scheme);
    text("topology", d.windows.topologies, &Row::topology);
    integer("steps", &Row::steps);
    real("sum_squared_error", &Row::squared_error);
    real("sum_noise", &Row::noise);
    integer("noise_blocks", &Row::noise_blocks);
    real("sum_log2_error_over_noise", &Row::log2_over_noise);
    updates("sum_", &Row::sgd);
    updates("adam_", &Row::adam);
    return t;
}

}  // namespace apscope
