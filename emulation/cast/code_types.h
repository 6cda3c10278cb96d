// The pairs of number and code types that encode() and decode() convert.
#pragma once

#include <cstdint>

#define APSCOPE_FOR_CODE_TYPES(instantiate)                                       \
    instantiate(float, std::uint8_t) instantiate(float, std::uint16_t)            \
        instantiate(float, std::uint32_t) instantiate(double, std::uint8_t)       \
            instantiate(double, std::uint16_t) instantiate(double, std::uint32_t) \
                instantiate(double, std::uint64_t)
