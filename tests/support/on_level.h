// A test whose parameter is an instruction set: the test runs on it, and the previous one is
// restored afterwards.
#pragma once

#include <gtest/gtest.h>

#include "emulation/machine/simd.h"

namespace apscope::detail {

class OnLevel : public testing::TestWithParam<SimdLevel> {
protected:
    void SetUp() override {
        before_ = simd_level();
        if (GetParam() > best_simd_level())
            GTEST_SKIP() << "this machine has no " << to_string(GetParam());
        set_simd_level(GetParam());
    }
    void TearDown() override { set_simd_level(before_); }

private:
    SimdLevel before_ = SimdLevel::portable;
};

// Runs every test of `fixture`, a class derived from OnLevel, on every instruction set.
#define APSCOPE_ON_EVERY_LEVEL(fixture)                                                            \
    INSTANTIATE_TEST_SUITE_P(                                                                      \
        Levels, fixture,                                                                           \
        testing::Values(SimdLevel::portable, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512), \
        [](const auto& level) { return std::string(to_string(level.param)); })

}  // namespace apscope::detail
