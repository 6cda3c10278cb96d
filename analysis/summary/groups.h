// Groups of rows with equal codes, numbered in order of appearance.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace apscope::detail {

struct Groups {
    std::vector<std::uint32_t> of_row;
    std::vector<std::uint32_t> first;  // for each group, its first row

    // All rows are in one group; without rows there is no group.
    explicit Groups(std::size_t rows) : of_row(rows, 0), first(rows ? 1 : 0, 0) {}

    std::size_t size() const { return first.size(); }

    // Divides every group by a code of its rows: code(i) is that of row i, from -1 to below
    // `levels`.
    template <class Code>
    Groups divided(std::size_t levels, Code code) const {
        Groups finer(0);
        finer.of_row.resize(of_row.size());
        const std::size_t each = levels + 1, all = size() * each;
        constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
        const auto divide = [&](auto place_of) {
            for (std::size_t i = 0; i < of_row.size(); ++i) {
                std::uint32_t& place =
                    place_of(of_row[i] * each + static_cast<std::size_t>(code(i) + 1));
                if (place == none) {
                    place = static_cast<std::uint32_t>(finer.first.size());
                    finer.first.push_back(static_cast<std::uint32_t>(i));
                }
                finer.of_row[i] = place;
            }
        };
        if (all <= std::max<std::size_t>(8 * of_row.size(), 65536)) {
            std::vector<std::uint32_t> places(all, none);
            divide([&](std::size_t key) -> std::uint32_t& { return places[key]; });
        } else {
            std::unordered_map<std::size_t, std::uint32_t> places;
            divide([&](std::size_t key) -> std::uint32_t& {
                return places.try_emplace(key, none).first->second;
            });
        }
        return finer;
    }

    // For each group, the group of `coarser` that contains it.
    std::vector<std::uint32_t> owners(const Groups& coarser) const {
        std::vector<std::uint32_t> result(size());
        for (std::size_t i = 0; i < size(); ++i) result[i] = coarser.of_row[first[i]];
        return result;
    }
};

}  // namespace apscope::detail
