// Schemes that a caller defines at run time: a base scheme, some of whose parts are replaced by the
// caller's functions on complete rows. Python's `define` and the C++ library's `define_scheme`
// convert the functions of their callers to DefinedParts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulation/schemes/scheme.h"

namespace apscope::detail {

// The functions that replace parts of the base scheme; where a function is empty, the base's part
// stays. Each function gets complete rows, whose elements are all finite. Several threads may call
// a function at once.
struct DefinedParts {
    std::function<void(const TrainingStep&, State&, Rows&)> compensate = {};
    std::function<void(const TrainingStep&, const State&, const Rows& intended, Rows& x)> forward =
        {};
    std::function<void(const TrainingStep&, const State&, std::span<Row* const>)> inverse = {};
    std::function<Parameters(const Selection&)> select = {};
    // Fills in an empty message, whose payload_bits are `bits` per value and whose side_bits are
    // those below.
    std::function<void(const RowPiece&, Message&)> encode = {};
    std::function<void(const SentPieces&, Row& sum)> reduce = {};
    std::function<void(const TrainingStep&, State&, const Exchange&)> update = {};

    int bits = 32;                // bits per value that encode() sends
    std::uint64_t side_bits = 0;  // other bits of a message, such as those of a scale
    bool draws = true;            // encode() may round randomly
    // True if steps must come in order. If not set: true with update(), otherwise as in the base
    // scheme.
    std::optional<bool> keeps_state = {};
    bool compares_intended = false;  // results also compare sent values with the intended ones
    std::string grid = {};  // the column `format` of results; if empty, as in the base scheme

    // True if a part is replaced.
    bool any() const {
        return compensate || forward || inverse || select || encode || reduce || update;
    }
};

// Returns `base` with these parts replaced, under the name `name`. Throws std::invalid_argument if
// `bits` is not from 0 to 64, if `name` is the name of a list of schemes, or if the base is a
// policy or decides over several tensors. MadeSchemes::add() makes the other checks of the name.
Scheme define_scheme(const std::string& name, const Scheme& base, DefinedParts parts);

// The parameters as named rows, in which `scales` has one entry per element.
NamedRows spread(Parameters theta, std::size_t elements);

// Random integers of `bits` bits for elements 0 to count - 1 of a worker's row, the same at every
// call. Throws std::invalid_argument for `bits` outside 1 to 64.
std::vector<std::uint64_t> random_words(const TrainingStep& step, std::size_t worker,
                                        std::size_t count, int bits, std::uint32_t hop);

}  // namespace apscope::detail
