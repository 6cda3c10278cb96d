// The calls of the public entries, and what is required of them.
#pragma once

#include <apscope/apscope.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "draw.h"

namespace generated {

// An entry of the library, called with drawn arguments. The call returns, or throws apscope::error;
// any other exception is a finding.
struct Entry {
    std::string_view name;
    void (*call)(Draw&);
};
extern const std::vector<Entry> arrays, sums, words, exchanges, traces, others;

// What a call throws that returned something wrong.
struct Finding {
    std::string sentence;
};
inline void require(bool holds, const std::string& sentence) {
    if (!holds) throw Finding{sentence};
}

// True if `work` is refused by an apscope::error.
template <class Work>
bool refused(const Work& work) {
    try {
        work();
    } catch (const apscope::error&) {
        return true;
    }
    return false;
}
// Calls `work`, which may also throw an `Other`.
template <class Other, class Work>
void allowing(const Work& work) {
    try {
        work();
    } catch (const apscope::error&) {
        throw;
    } catch (const Other&) {}
}

// True if two arrays have equal lengths and bits.
template <class A, class B>
bool same(const A& a, const B& b) {
    const std::span left(a), right(b);
    return left.size() == right.size() &&
           (left.empty() || std::memcmp(left.data(), right.data(), left.size_bytes()) == 0);
}
template <class Real>
bool same_number(Real a, Real b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

// A folder for the files of one call, which exists and is empty.
std::filesystem::path folder();

}  // namespace generated
