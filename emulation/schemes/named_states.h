// States of several workers, shards or groups as rows of one state: PREFIX0/NAME, PREFIX1/NAME, ...
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emulation/schemes/state.h"

namespace apscope::detail {

inline void each_state(Fields& f, const std::string& prefix, std::vector<State>& states) {
    NamedRows& all = f.all();
    const auto begins = [&](std::size_t i) { return prefix + std::to_string(i) + "/"; };
    if (f.writes()) {
        for (std::size_t i = 0; i < states.size(); ++i)
            for (auto& [name, row] : states[i].rows()) all[begins(i) + name] = row;
        return;
    }
    for (std::size_t i = 0;; ++i) {
        NamedRows mine;
        const std::string mark = begins(i);
        for (auto entry = all.lower_bound(mark);
             entry != all.end() && entry->first.starts_with(mark);) {
            auto row = all.extract(entry++);
            row.key() = row.key().substr(mark.size());
            mine.insert(std::move(row));
        }
        if (mine.empty()) return;
        states.emplace_back(std::move(mine));
    }
}

// States of two kinds. The names of their rows begin with Names::first and Names::second.
template <class Names>
struct TwoStates {
    std::vector<State> first, second;

    void fields(Fields& f) {
        each_state(f, Names::first, first);
        each_state(f, Names::second, second);
    }
};

}  // namespace apscope::detail
