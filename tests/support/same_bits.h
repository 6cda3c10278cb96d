// Compares rounded arrays bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/bits.h"

namespace apscope::detail::test {

// in: the numbers that were rounded, for the messages.
template <class Real>
void expect_same(std::type_identity_t<std::span<const Real>> in, const std::vector<Real>& got,
                 std::type_identity_t<std::span<const Real>> expected, const std::string& what) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const auto bits = bits_cast<BitsOf<Real>>(got[i]);
        if (bits == bits_cast<BitsOf<Real>>(expected[i]) || ++wrong > 3) continue;
        ADD_FAILURE() << what << ": element " << i << ", " << in[i] << ", gives " << got[i]
                      << ", the rule " << expected[i];
    }
}

}  // namespace apscope::detail::test
