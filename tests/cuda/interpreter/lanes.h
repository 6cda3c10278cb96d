// The lanes of a warp as numbers of an instruction's type, and the table of instructions: what
// arithmetic.cpp, memory.cpp and instructions.cpp share.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "machine.h"

namespace apscope::interpreter {

using S16 = std::int16_t;
using S32 = std::int32_t;
using S64 = std::int64_t;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
__extension__ using S128 = __int128;
__extension__ using U128 = unsigned __int128;

template <class F>
void each(const Warp& w, const F& f) {
    if (w.active == ~0u) {
        for (int lane = 0; lane < lanes; ++lane) f(lane);
    } else {
        for (std::uint32_t m = w.active; m != 0; m &= m - 1) f(std::countr_zero(m));
    }
}

template <class T>
T get(U64 bits) {
    if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<U32>(bits));
    else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
    else if constexpr (std::is_same_v<T, bool>) return (bits & 1) != 0;
    else return static_cast<T>(bits);
}
template <class T>
U64 put(T x) {
    if constexpr (std::is_same_v<T, float>) return std::bit_cast<U32>(x);
    else if constexpr (std::is_same_v<T, double>) return std::bit_cast<U64>(x);
    else if constexpr (std::is_same_v<T, bool>) return x;
    else return static_cast<std::make_unsigned_t<T>>(x);
}

// The NaN of a GPU's arithmetic: fp32's has all bits of the payload set, and so have those of
// conversions; that of fp64 is not documented, so code must not depend on it.
template <class T>
T arithmetic(T x) {
    if constexpr (std::is_same_v<T, float>) return x == x ? x : std::bit_cast<float>(0x7FFFFFFFu);
    else if constexpr (std::is_same_v<T, double>)
        return x == x ? x : std::bit_cast<double>(0xFFFDEADBEEFCAFE5ull);
    else return x;
}

template <class F, class To, class... From>
void compute(Warp& w, const Op& op) {
    U64* to = w.row(op.to[0]);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        const U64* from[] = {w.row(op.from[I])...};
        each(w, [&](int l) { to[l] = put<To>(F::of(get<From>(from[I][l])...)); });
    }(std::index_sequence_for<From...>{});
}

// ---- The table ------------------------------------------------------------------------------

struct Row {
    Run run;
    Class cost;
};
using Table = std::unordered_map<std::string, Row>;  // by name: "add.s32"

template <class T>
std::string suffix() {
    if constexpr (std::is_same_v<T, bool>) return ".pred";
    else if constexpr (std::is_floating_point_v<T>) return ".f" + std::to_string(8 * sizeof(T));
    else return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}
template <class T>
Class cost_of() {
    if constexpr (std::is_same_v<T, float>) return Class::fp32;
    else if constexpr (std::is_same_v<T, double>) return Class::fp64;
    else return sizeof(T) == 8 ? Class::integer64 : Class::integer32;
}
template <class... T, class F>
void for_types(F f) {
    (f.template operator()<T>(), ...);
}

void add_arithmetic(Table& t);
void add_memory(Table& t);

}  // namespace apscope::interpreter
