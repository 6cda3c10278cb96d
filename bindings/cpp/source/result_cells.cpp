#include "bindings/cpp/source/result_cells.h"

namespace apscope {
namespace {

using Data = Results::Data;
using Row = detail::ResultRow;
using Text = std::string_view;
using Integer = std::optional<std::int64_t>;

constexpr ResultColumn columns[] = {
    {"trace", [](const Data& d, const Row&) -> Text { return d.trace; }},
    {"step", [](const Data& d, const Row& r) -> Integer { return d.step_numbers[r.step_index]; }},
    {"tensor", [](const Data& d, const Row& r) -> Text { return d.tensor_names[r.tensor_index]; }},
    {"role", [](const Data& d, const Row& r) -> Text { return d.roles[r.tensor_index]; }},
    {"scheme", [](const Data& d, const Row& r) -> Text { return d.schemes[r.scheme_index]; }},
    {"format", [](const Data&, const Row& r) -> Text { return r.format; }},
    {"topology", [](const Data&, const Row& r) -> Text { return r.topology; }},
    {"workers", [](const Data& d, const Row&) -> Integer { return d.workers; }},
    {"stage", [](const Data&, const Row& r) -> Text { return r.wire ? "wire" : "reduced"; }},
#define APSCOPE_COUNT(name, unit, section, pools) \
    {#name, [](const Data&, const Row& r) -> Integer { return r.name; }},
#define APSCOPE_REAL(name, unit, section, pools) \
    {#name, [](const Data&, const Row& r) -> double { return r.name; }},
    APSCOPE_NUMBER_COLUMNS(APSCOPE_COUNT, APSCOPE_COUNT, APSCOPE_REAL)
#undef APSCOPE_COUNT
#undef APSCOPE_REAL
        {"skipped", [](const Data&, const Row& r) -> bool { return r.skipped; }},
    {"note", [](const Data&, const Row& r) -> Text { return r.note; }},
};

}  // namespace

std::span<const ResultColumn> result_columns() { return columns; }

}  // namespace apscope
