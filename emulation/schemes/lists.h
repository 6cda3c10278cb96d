// The specs of the lists `main` and `all`, whose names are accepted in place of specs.
#pragma once

#include <string>
#include <vector>

namespace apscope::detail {

// The schemes that show which formats and scales a trace's gradients allow:
// - formats without a scale, and block formats;
// - e5m2, e4m3fn and e3m4 without a scale, with one scale for all steps (the largest that never
//   saturates), and with APS;
// - e4m3fn and e3m4 with rule=tight and one scale for all steps, per step or per layer (three rungs
//   of a ladder, which differ in nothing else), and with stochastic rounding and gathered codes;
// - every 8-bit and 4-bit format but e5m2 with rule=tight and one scale per layer or per block;
// with
//   at most three exponent bits also a scale per block that leaves a ring less room for the sum;
// - e3m4 with the best constant scale, with which elements may saturate;
// - loss scales as in training systems, and QSGD with 4 and 8 bits.
std::vector<std::string> main_schemes();

// The main schemes, then further specs. Last comes every registered scheme that has no spec among
// these: with default keys, with e4m3 if it takes a format, and around aps:e4m3 if it takes a
// scheme.
std::vector<std::string> all_schemes();

}  // namespace apscope::detail
