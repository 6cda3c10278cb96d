// Conversions of a scheme's memory and parameters between the types of emulation/schemes and those
// of the public headers.
#pragma once

#include <vector>

#include "bindings/cpp/apscope/exchange.h"
#include "emulation/schemes/state.h"

namespace apscope {

inline std::vector<double> plain(const detail::Row& row) { return {row.begin(), row.end()}; }

inline std::vector<std::vector<double>> plain(const detail::Rows& rows) {
    std::vector<std::vector<double>> all;
    for (const detail::Row& row : rows) all.push_back(plain(row));
    return all;
}

inline Memory memory_of(const detail::NamedRows& rows) {
    Memory memory;
    for (const auto& [name, row] : rows) memory.emplace(name, plain(row));
    return memory;
}

inline detail::NamedRows named_rows(const Memory& memory) {
    detail::NamedRows rows;
    for (const auto& [name, row] : memory) rows[name] = detail::Row(row.begin(), row.end());
    return rows;
}

inline detail::State state_of(const Memory& memory) { return detail::State(named_rows(memory)); }

}  // namespace apscope
