// The types between which encode() and decode() convert: every number's with every code's.
#pragma once

#include <cstdint>

#define APSCOPE_FOR_CODE_TYPES(instantiate)                                       \
    instantiate(float, std::uint8_t) instantiate(float, std::uint16_t)            \
        instantiate(float, std::uint32_t) instantiate(double, std::uint8_t)       \
            instantiate(double, std::uint16_t) instantiate(double, std::uint32_t) \
                instantiate(double, std::uint64_t)
