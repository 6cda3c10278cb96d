// A scheme that a caller defines at run time: another one, some of whose parts are replaced by
// functions on whole rows. Python's `define` and the C++ library's `define_scheme` convert their
// callers' functions to these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// The functions that replace parts; those left out are the base's. Each gets complete rows that are
// finite everywhere. Several threads call them at once.
struct DefinedParts {
    std::function<void(const TrainingStep&, State&, Rows&)> compensate = {};
    std::function<void(const TrainingStep&, const State&, const Rows& intended, Rows& x)> forward =
        {};
    std::function<void(const TrainingStep&, const State&, Row&)> inverse = {};
    std::function<Parameters(const Selection&)> select = {};
    // Fills in an empty message, whose payload_bits are `bits` per value.
    std::function<void(const RowPiece&, Message&)> encode = {};
    std::function<void(const SentPieces&, Row& sum)> reduce = {};
    std::function<void(const TrainingStep&, State&, const Exchange&)> update = {};

    int bits = 32;      // bits per value that encode() sends
    bool draws = true;  // encode() may round randomly
    // True: steps must come in order. By default as the base, or true with update().
    std::optional<bool> keeps_state = {};
    bool compares_intended = false;  // results also compare sent values with the intended ones
    std::string grid = {};           // the column `format`; empty: the base's

    bool any() const {
        return compensate || forward || inverse || select || encode || reduce || update;
    }
};

// The scheme `name`. Throws std::invalid_argument if `bits` is not from 0 to 64, for a name of a
// list of schemes, and for a base that is a policy or decides over several tensors.
// MadeSchemes::add() checks the rest of the name.
Scheme define_scheme(const std::string& name, const Scheme& base, DefinedParts parts);

// Parameters as named rows, with one scale per element.
NamedRows spread(Parameters theta, std::size_t elements);

// Random integers of `bits` bits for elements 0 to count - 1 of a worker's row, the same at every
// call. Throws std::invalid_argument for `bits` outside 1 to 64.
std::vector<std::uint64_t> random_words(const TrainingStep& step, std::size_t worker,
                                        std::size_t count, int bits, std::uint32_t hop);

}  // namespace apscope::detail
